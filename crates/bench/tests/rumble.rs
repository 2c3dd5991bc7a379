//! The workloads of Rumble et al. at a small size, with the durable heap and malloc.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use aquifer_bench::rumble::sample::Sample;
use aquifer_bench::rumble::system::System;
use aquifer_bench::rumble::workload::Workload;
use aquifer_bench::sample::Record;
use aquifer_bench::study::read;
use common::Dir;

const LIVE_BYTES: u64 = 8 << 20;
const CHUNK_BYTES: u64 = 128 << 10;

fn rumble(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rumble"));
    command.args(arguments).arg("--dir").arg(dir).arg("--out").arg(dir.join("out.jsonl"));
    command.output().expect("the benchmark runs")
}

fn samples(dir: &Path) -> Vec<Sample> {
    let records = read::<Record>(&dir.join("out.jsonl")).expect("records");
    let sample = |record| match record {
        Record::Rumble(sample) => *sample,
        other => panic!("{other:?}"),
    };
    records.into_iter().map(sample).collect()
}

fn check_volume(sample: &Sample) {
    let phases = if sample.workload == Workload::W1 { 1 } else { 2 };
    let volume = 5 * phases * LIVE_BYTES;
    assert!((volume..volume + volume / 100).contains(&sample.allocated_bytes), "{sample:?}");
    assert!(sample.looks > 5 * phases * 100, "{sample:?}");
    // Nothing holds objects in less than their bytes, and none of these needs twice as many.
    assert!((1.0..2.0).contains(&sample.ratio()) && sample.ratio_near_cap >= 1.0, "{sample:?}");
}

fn check_durable(sample: &Sample) {
    let durable = sample.durable.expect("a durable heap's figures");
    // The heap's own thread may give a chunk back between the two questions.
    assert!(durable.blocks_max_bytes.abs_diff(sample.peak_bytes) <= CHUNK_BYTES, "{sample:?}");
    assert!(durable.persisted_bytes > sample.allocated_bytes && durable.cleaned_chunks > 0, "{sample:?}");
    assert!(sample.map_bytes > 0 && sample.peak_used_bytes < sample.peak_bytes, "{sample:?}");
    let parts = durable.breakdown.expect("it was asked for");
    assert!(parts.object_bytes <= LIVE_BYTES && parts.object_bytes > LIVE_BYTES / 2, "{parts:?}");
    // The parts are found by reading the file, the memory is what the heap says.
    let unexplained = parts.total_bytes().abs_diff(sample.peak_bytes);
    assert!(unexplained <= sample.peak_bytes / 256 + CHUNK_BYTES, "{parts:?} of {}", sample.peak_bytes);
}

#[test]
fn memory_is_measured_and_explained() {
    let dir = Dir::below(Path::new("/dev/shm"), "rumble");
    let arguments = ["--live", "8M", "--chunk", "128K", "--workloads", "W1,W3", "--systems", "aquifer,glibc"];
    let output = rumble(&dir.0, &[&arguments[..], &["--utilisation", "80", "--breakdown"]].concat());
    let (table, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    let samples = samples(&dir.0);
    let run: Vec<_> = samples.iter().map(|sample| (sample.system, sample.workload)).collect();
    let both = |system| [(system, Workload::W1), (system, Workload::W3)];
    assert_eq!(run, [both(System::Aquifer), both(System::Glibc)].concat());
    samples.iter().for_each(check_volume);
    samples[..2].iter().for_each(check_durable);
    assert!(samples[2..].iter().all(|sample| sample.durable.is_none()));
    for part in
        ["| aquifer 80 %, chunks of 128 KiB | 8 MiB |", "| glibc | 8 MiB |", "### Where the memory is"]
    {
        assert!(table.contains(part), "{part} is not in {table}");
    }
    let left: Vec<_> =
        fs::read_dir(&dir.0).expect("exists").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["out.jsonl"], "the heap's file is gone");
}

#[test]
fn what_makes_no_sense_is_refused_before_the_work() {
    let dir = Dir::below(Path::new("/dev/shm"), "rumble-refused");
    for (arguments, rule) in [(["--live", "100K"], "--live is from"), (["--chunk", "96K"], "power of two")] {
        let output = rumble(&dir.0, &arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(rule), "{said}");
    }
    assert_eq!(fs::read_dir(&dir.0).expect("exists").count(), 0);
}
