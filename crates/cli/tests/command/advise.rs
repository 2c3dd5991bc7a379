//! `aquifer advise` on reports that are in order, foreign, damaged, and none.

use std::fs;
use std::path::{Path, PathBuf};

use aquifer_base::profile::{Profile, Setting};
use aquifer_probe::report::{
    Effort, Job, Machine, Measurement, Pattern, Report, Round, Target, TargetKind, WriteMode,
};
use tempfile::TempDir;

use super::{complaint, name, run, text};

fn measurement(pattern: Pattern, read_percent: u8, block_bytes: u32, depth: u32, ios: u64) -> Measurement {
    let job =
        Job { pattern, read_percent, block_bytes, depth, write_mode: WriteMode::Cached, span_bytes: 1 << 30 };
    let bytes = ios * u64::from(block_bytes);
    Measurement { job, rounds: vec![Round { duration_s: 1.0, ios, bytes, ..Round::default() }] }
}

/// A run that was broken off after a few cells.
fn broken_off() -> Report {
    let target = Target {
        name: "/dev/example".into(),
        kind: TargetKind::BlockDevice,
        size_bytes: 500_000_000_000,
        tested_bytes: 1 << 30,
        block_bytes: 512,
        model: None,
        file_system: None,
        queue: None,
        emulation: None,
    };
    Report {
        duration_s: 9.0,
        machine: Machine { cpus: 2, ..Machine::default() },
        matrix: vec![
            measurement(Pattern::Random, 100, 4096, 1, 9_000),
            measurement(Pattern::Random, 100, 4096, 16, 100_000),
            measurement(Pattern::Random, 0, 4096, 16, 50_000),
            measurement(Pattern::Sequential, 0, 65_536, 2, 10_000),
        ],
        ..Report::new(Effort::Standard, target, 0)
    }
}

/// A file with `bytes`, in a folder that goes when the test ends.
fn file(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("report.json");
    fs::write(&path, bytes).expect("room");
    (folder, path)
}

pub(crate) fn report() -> (TempDir, PathBuf) {
    file(broken_off().to_json().as_bytes())
}

#[test]
fn the_advice_has_its_reasons_and_its_doubts() {
    let (_folder, path) = report();
    let prices = ["--price-eur", "100", "--ram-eur-per-gb", "4", "--page", "4K", "--cores", "8"];
    let output = run(&[&["advise", name(&path)], &prices[..]].concat());
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for part in [
        "WARNING: the report is not complete",
        "WARNING: NOT STEADY",
        "  depth: 16\n",
        "  read_ahead_pages: 32\n",
        "  segment_bytes: not measured\n",
        "1000.00/s for a euro",
        "0.200 EUR/GB",
        "8 cores: 7 devices, EUR 700",
        "less often than every 61.0 s",
    ] {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
}

#[test]
fn the_profile_is_one_that_a_heap_takes() {
    let (folder, path) = report();
    let profile = folder.path().join("device.profile");
    fs::write(&profile, "another one").expect("room");
    let output = run(&["advise", name(&path), "--write-profile", name(&profile)]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let written = Profile::parse(&fs::read(&profile).expect("written")).expect("a profile");
    assert_eq!(written.get(Setting::Depth), Some(16));
    assert_eq!(written.get(Setting::WriteDepth), Some(2));
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2, "nothing else is left");
    aquifer::Options::new().device_profile(&profile).check().expect("a heap takes it");
}

#[test]
fn the_study_is_done_again() {
    let said = text(&run(&["advise", "--study"]).stdout);
    for part in [
        "2.1739",
        "1.5625",
        "1524 MIPS -> 190.5 MB/s -> 23251 IOPS",
        "74.7 drives",
        "2.49 -> 3 drives",
        "3.89 -> 4 drives",
    ] {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
}

#[test]
fn what_is_no_report() {
    let said = complaint(&["advise", "/nowhere/report.json"]);
    assert!(said.contains("no advice from /nowhere/report.json: No such file"), "{said}");
    for (bytes, part) in [
        (&b"{}"[..], "not a report"),
        (b"\xFF\x00", "not a report"),
        (b"{\"format\":\"aquifer-probe\",\"version\":2}", "version 2, and this program reads version 1"),
        (b"{\"format\":\"aquifer-probe\",\"version\":1,\"seed\":-1}", "damaged"),
    ] {
        let (_folder, path) = file(bytes);
        let said = complaint(&["advise", name(&path)]);
        assert!(said.contains(part), "{said}");
    }
    let said = run(&["advise"]);
    assert_eq!(said.status.code(), Some(2));
}

#[test]
fn a_profile_that_cannot_be_written() {
    let (folder, path) = report();
    for target in ["/nowhere/device.profile", name(folder.path())] {
        let said = complaint(&["advise", name(&path), "--write-profile", target]);
        assert!(said.contains(&format!("no profile can be written to {target}")), "{said}");
    }
    // A profile that was there stays when the report is not fit.
    let profile = folder.path().join("device.profile");
    fs::write(&profile, "as it was").expect("room");
    fs::write(&path, "{}").expect("room");
    complaint(&["advise", name(&path), "--write-profile", name(&profile)]);
    assert_eq!(fs::read_to_string(&profile).expect("there"), "as it was");
}

/// Numbers that no run gives must not become settings that no heap takes.
#[test]
fn hostile_figures_do_no_harm() {
    let mut hostile = broken_off();
    for measurement in &mut hostile.matrix {
        measurement.job.depth = 1024;
        measurement.job.block_bytes = 64 << 20;
        measurement.rounds[0] =
            Round { duration_s: 1e-300, ios: u64::MAX, bytes: u64::MAX, ..Round::default() };
    }
    hostile.matrix.push(measurement(Pattern::Random, 100, 4096, 1024, 1));
    hostile.matrix.push(measurement(Pattern::Sequential, 0, 1, 1, 1));
    hostile.target.size_bytes = 0;
    hostile.target.name = "\u{1b}]0;owned\u{7}\nwrite_depth = 1".into();
    hostile.machine.cpus = u32::MAX;
    let (folder, path) = file(hostile.to_json().as_bytes());
    let profile = folder.path().join("device.profile");
    let output = run(&["advise", name(&path), "--price-eur", "1", "--write-profile", name(&profile)]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).chars().all(|char| char == '\n' || !char.is_control()));
    let written = Profile::parse(&fs::read(Path::new(&profile)).expect("written")).expect("a profile");
    assert_eq!(written.get(Setting::Depth), Some(256));
}
