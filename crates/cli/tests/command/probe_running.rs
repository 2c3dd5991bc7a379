//! `aquifer probe` while it runs: planned only, ended by Ctrl-C, and left without its device.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use aquifer_probe::report::Report;
use tempfile::TempDir;

use super::ground::{LoopDevice, listed, skipped};
use super::{command, name, run, text};

const PATIENCE: Duration = Duration::from_secs(120);

/// A probe at work on a small part of its target. With `--full` it would take hours, so that it never ends by itself.
struct Running {
    child: Child,
    folder: TempDir,
}

impl Running {
    fn start(target: &Path) -> Self {
        let folder = TempDir::new().expect("a folder");
        let report = folder.path().join("report.json");
        let mut probe =
            command(&["probe", name(target), "--full", "--span", "16M", "--report-json", name(&report)]);
        let child = probe.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command runs");
        Running { child, folder }
    }

    /// Waits until something is as it must be. A run that has ended before is a failure.
    fn wait_until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(self.child.try_wait().expect("a child").is_none(), "it has ended before {what}");
            assert!(Instant::now() < deadline, "{what}: never");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether it has a file without a name below a folder, with something in it.
    fn writes_below(&self, folder: &Path) -> bool {
        use std::os::unix::fs::MetadataExt;
        let open = fs::read_dir(format!("/proc/{}/fd", self.child.id())).into_iter().flatten().flatten();
        open.map(|entry| entry.path()).any(|entry: PathBuf| {
            fs::read_link(&entry).is_ok_and(|target| target.starts_with(folder))
                && fs::metadata(&entry).is_ok_and(|file| file.blocks() > 0)
        })
    }

    fn interrupt(&self) {
        crate::send(rustix::process::Signal::INT, self.child.id());
    }

    /// Waits for its end: its status, what it complained about, and its report.
    fn end(mut self) -> (ExitStatus, String, Report) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        let mut said = String::new();
        self.child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        let report = Report::read(&self.folder.path().join("report.json")).expect("a report");
        (status, said, report)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ended_early(status: ExitStatus, said: &str, report: &Report, why: &str) {
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("the run did not come to its end: "), "{said}");
    assert!(said.contains(why) && !said.contains("panicked"), "{said}");
    assert!(!report.complete);
    let note = report.notes.iter().find(|note| note.starts_with("The run did not come to its end: "));
    assert!(note.is_some_and(|note| note.contains(why)), "{:?}", report.notes);
}

#[test]
fn control_c_ends_it_and_leaves_a_report_and_nothing_else() {
    let target = TempDir::new().expect("a folder");
    let mut running = Running::start(target.path());
    running.wait_until("it writes", |running| running.writes_below(target.path()));
    running.wait_until("its handler is there", catches_interrupts);
    running.interrupt();
    let (status, said, report) = running.end();
    ended_early(status, &said, &report, "interrupted");
    assert!(listed(target.path()).is_empty(), "{:?}", listed(target.path()));
}

/// Whether the process has a handler for SIGINT.
fn catches_interrupts(running: &Running) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", running.child.id())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 0b10 != 0)
}

#[test]
fn a_device_that_vanishes_ends_it() {
    let device = match LoopDevice::new(64 << 20) {
        Ok(device) => device,
        Err(reason) => return skipped("a_device_that_vanishes_ends_it", &reason),
    };
    let mut running = Running::start(&device.path);
    running.wait_until("it writes", |_| device.is_written());
    // A write that was under way may have made the file behind the device longer again: until it is seen.
    let deadline = Instant::now() + PATIENCE;
    while running.child.try_wait().expect("a child").is_none() && Instant::now() < deadline {
        device.vanish();
        std::thread::sleep(Duration::from_millis(50));
    }
    let (status, said, report) = running.end();
    ended_early(status, &said, &report, " at offset ");
    assert!(said.lines().all(|line| line.starts_with("aquifer: ")), "{said}");
}

/// Emulated flash that stands ten erases of a block is worn out long before the run is over.
#[test]
fn flash_that_wears_out_ends_it() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("report.json");
    let target = "nand:size=32M,channels=1,dies=1,pages=32,limit=10";
    let output = run(&["probe", target, "--quick", "--report-json", name(&path)]);
    let report = Report::read(&path).expect("a report");
    ended_early(output.status, &text(&output.stderr), &report, "the flash is worn out");
    assert!(text(&output.stdout).contains("INCOMPLETE"));
}

#[test]
fn a_directory_is_measured_to_the_end_and_nothing_is_left_in_it() {
    let target = TempDir::new().expect("a folder");
    let reports = TempDir::new().expect("a folder");
    let path = reports.path().join("report.json");
    let output =
        run(&["probe", name(target.path()), "--quick", "--span", "16M", "--report-json", name(&path)]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = Report::read(&path).expect("a report");
    assert!(report.complete && report.bytes_written > 16 << 20);
    assert_eq!(report.target.tested_bytes, 16 << 20);
    assert!(report.flush.is_some() && !report.matrix.is_empty() && !report.fill.is_empty());
    assert!(listed(target.path()).is_empty(), "{:?}", listed(target.path()));
    assert_eq!(listed(reports.path()), ["report.json"]);
}

#[test]
fn a_dry_run_writes_nothing() {
    let target = TempDir::new().expect("a folder");
    let reports = TempDir::new().expect("a folder");
    let report = |name: &str| reports.path().join(name);
    let (json, html, fio) = (report("report.json"), report("report.html"), report("jobs"));
    let outputs = ["--report-json", name(&json), "--html", name(&html), "--fio", name(&fio)];
    let effort = ["--dry-run", "--quick", "--span", "16M"];
    for target in ["nand:", name(target.path())] {
        let output = run(&[&["probe", target], &effort[..], &outputs[..]].concat());
        let said = text(&output.stderr);
        assert!(output.status.success() && said.contains(" at most ") && said.lines().count() == 1, "{said}");
        assert_eq!(text(&output.stdout), "");
    }
    assert!(listed(target.path()).is_empty() && listed(reports.path()).is_empty());
}

/// A laptop's disk is worn by what is written to it: it was 40 GiB.
#[test]
fn a_quick_run_announces_at_most_8_gib() {
    let target = TempDir::new().expect("a folder");
    let said = text(&run(&["probe", name(target.path()), "--quick", "--dry-run"]).stderr);
    let (_, amount) = said.split_once(" at most ").expect("it says how much");
    let mut words = amount.split(' ');
    let (number, unit) = (words.next().expect("a number"), words.next().expect("a unit"));
    assert!(unit == "MiB" || number.parse::<f64>().expect("a number") <= 8.0, "{said}");
}
