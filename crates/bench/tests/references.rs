//! References and batches, for a moment, on a heap with a real file.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use aquifer_bench::study::{Record, read};
use common::Dir;

const RUNS: usize = 2;

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
    assert_eq!(dir.names(), ["out.jsonl"], "the files of the heaps and of fio are gone");
    let records = read::<Record>(&dir.0.join("out.jsonl")).expect("records");
    let of = |peer: &str| {
        let runs: Vec<&Record> = records.iter().filter(|record| record.peer == peer).collect();
        assert_eq!(runs.len(), RUNS, "{peer}: {said}");
        runs
    };
    for run in of("handle hit, 1024 objects in turn") {
        let figure = |name| run.figures.number(name).expect("it is there");
        assert!(
            figure("ns") > 0.0 && figure("objects") == 1024.0 && figure("device_reads") == 0.0,
            "{run:?}"
        );
    }
    for run in of("fault on a cached object") {
        let figure = |name| run.figures.number(name).expect("it is there");
        assert!(figure("faults_per_touch") > 0.5 && figure("misses_per_fault") < 0.01, "{run:?}");
    }
    for run in of("aquifer, batches of 1024") {
        let figure = |name| run.figures.number(name).expect("it is there");
        assert!(
            figure("device_reads_per_s") > 0.0 && (0.0..1.0).contains(&figure("found_in_ram")),
            "{run:?}"
        );
    }
    if !records.iter().any(|record| record.left_out.is_some()) {
        assert!(of("fio 4 KiB").iter().all(|run| run.figures.number("device_reads_per_s") > Some(0.0)));
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    for part in ["### Handles,", "### Batches,"] {
        assert!(printed.contains(part), "{part} is not in {printed}");
    }
    let promises = Command::new(env!("CARGO_BIN_EXE_aquifer-bench"));
    let checked = { promises }.arg("check").arg(dir.0.join("out.jsonl")).output().expect("it runs");
    let checked = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(
        checked.contains("| handle hit, 1024 objects, ns |") && checked.contains("| at most 50 |"),
        "{checked}"
    );
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
    // The options of results are looked at before.
    assert_eq!(fs::read_to_string(dir.0.join("out.jsonl")).unwrap_or_default(), "");
    assert!(dir.names().len() <= 1, "{:?}", dir.names());
}
