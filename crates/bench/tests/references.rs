//! References and batches, for a moment, on a heap with a real file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use aquifer_bench::references::sample::{Batches, Handles};
use aquifer_bench::sample::{Record, read_records};

const RUNS: usize = 2;

/// A directory of the test's own on a disk; removed when dropped.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let dir = PathBuf::from("/var/tmp").join(format!("aquifer-bench-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a temporary directory");
        Self(dir)
    }

    fn files(&self) -> Vec<String> {
        let names = fs::read_dir(&self.0).expect("exists").flatten().map(|entry| entry.file_name());
        names.map(|name| name.to_string_lossy().into_owned()).collect()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("was created");
    }
}

fn references(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_aquifer-bench"))
        .arg("references")
        .args(arguments)
        .arg("--dir")
        .arg(dir)
        .arg("--out")
        .arg(dir.join("out.jsonl"))
        .output()
        .expect("the benchmark runs")
}

#[test]
fn every_run_is_recorded_with_what_it_is_compared_with() {
    let dir = Dir::new("references");
    let runs = RUNS.to_string();
    let output = references(&dir.0, &["--data", "64M", "--ram", "16M", "--seconds", "0.2", "--runs", &runs]);
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("run `make lib`") || said.contains("not on a block device") {
        println!("SKIP references: {said}");
        return;
    }
    assert!(output.status.success(), "{said}");
    assert_eq!(dir.files(), ["out.jsonl"], "the files of the heaps and of fio are gone");
    let records = read_records(&dir.0.join("out.jsonl")).expect("records");
    let handles: Vec<&Handles> = records.iter().filter_map(handles_of).collect();
    let batches: Vec<&Batches> = records.iter().filter_map(batches_of).collect();
    assert_eq!((handles.len(), batches.len()), (RUNS, RUNS));
    handles.iter().for_each(|run| check_handles(run));
    let has_fio = !records.iter().any(|record| matches!(record, Record::Skipped(_)));
    for run in batches {
        assert!(run.objects > 0 && run.device_reads() > 0 && run.device_reads() <= run.objects, "{run:?}");
        assert_eq!(run.fio(4096).is_some(), has_fio, "{run:?}");
    }
    for part in ["### Handles,", "### Batches,", "| handle hit, 1024 objects, ns |", "| at most 50 |"] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
}

fn handles_of(record: &Record) -> Option<&Handles> {
    match record {
        Record::Handles(run) => Some(run),
        _ => None,
    }
}

fn batches_of(record: &Record) -> Option<&Batches> {
    match record {
        Record::Batches(run) => Some(run),
        _ => None,
    }
}

/// Times are whatever the machine gives; what they are times of is not.
fn check_handles(run: &Handles) {
    assert_eq!(run.device_reads, 0, "{run:?}");
    assert_eq!(run.hits[0].objects, 1024);
    assert!(run.hits.len() == 2 && run.hits.iter().all(|hits| hits.ns > 0.0), "{run:?}");
    assert!(run.faults_per_touch > 0.5 && run.misses_per_fault < 0.01, "{run:?}");
}

#[test]
fn what_makes_no_sense_is_refused_before_the_work() {
    let dir = Dir::new("references-refused");
    for (arguments, rule) in
        [(["--data", "64M", "--ram", "32M"], "4 times --ram"), (["--runs", "0", "--ram", "16M"], "--runs")]
    {
        let output = references(&dir.0, &arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(rule), "{said}");
    }
    assert!(dir.files().is_empty());
}
