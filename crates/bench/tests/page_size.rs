//! The page-size study at a tiny size. Without a control group, so that it needs no rights: it shows that everything works, not what
//! is fast.

mod common;

use std::path::Path;
use std::process::{Command, Output};

use aquifer_bench::page_size::Kind;
use aquifer_bench::page_size::sample::{Cell, Sample};
use aquifer_bench::sample::Record;
use aquifer_bench::study::read;
use common::Dir;

const SIZES: [&str; 8] = ["--data", "8M", "--buffers", "1M,2M", "--pages", "4K,16K", "--runs", "1"];
const TIMES: [&str; 5] = ["--seconds", "0.2", "--warmup", "0.1", "--unlimited"];

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_aquifer-bench")).args(arguments).output().expect("the benchmark runs")
}

/// A run of the study; none, with the reason printed, where something is missing.
fn study(dir: &Path, arguments: &[&str]) -> Option<Output> {
    let (path, out) = (dir.to_str().expect("plain"), dir.join("out.jsonl"));
    let files = ["page-size", "--dir", path, "--out", out.to_str().expect("plain")];
    let output = bench(&[&files, &SIZES[..], &TIMES, arguments].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("cannot be loaded") || said.contains("not on a block device") {
        println!("SKIP {said}");
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(output)
}

fn samples(dir: &Path) -> Vec<Sample> {
    let records = read::<Record>(&dir.join("out.jsonl")).expect("records");
    let sample = |record| match record {
        Record::PageSize(sample) => *sample,
        other => panic!("{other:?}"),
    };
    records.into_iter().map(sample).collect()
}

fn check(sample: &Sample) {
    assert!(sample.transactions > 0 && sample.warmup_transactions > 0, "{sample:?}");
    let latency = sample.latency;
    assert!(latency.p50_ns > 0 && latency.p50_ns <= latency.p99_ns, "{sample:?}");
    assert!(latency.p99_ns <= latency.max_ns, "{sample:?}");
    // Each commit wrote at least a page.
    let written = sample.settings.page_bytes * sample.transactions / 2;
    assert!(sample.io.asked_written_bytes >= written && sample.cpu_ns > 0, "{sample:?}");
    assert!(
        sample.buffer.misses > 0 && sample.buffer.used_bytes <= sample.cell.buffer_bytes * 9 / 8,
        "{sample:?}"
    );
    assert_eq!((sample.limit_bytes, sample.data_bytes), (None, 8 << 20));
}

#[test]
fn every_cell_is_measured_and_drawn_and_nothing_is_left() {
    let dir = Dir::new("page-size");
    let Some(output) = study(&dir.0, &[]) else { return };
    let samples = samples(&dir.0);
    samples.iter().for_each(check);
    let mut cells: Vec<Cell> = samples.iter().map(|sample| sample.cell).collect();
    cells.sort_unstable();
    let mut expected = Vec::new();
    for load in [Kind::TpcB, Kind::TpcC] {
        for buffer_bytes in [1 << 20, 2 << 20] {
            expected.extend([4096, 16_384].map(|page_bytes| Cell { load, buffer_bytes, page_bytes }));
        }
    }
    assert_eq!(cells, expected);
    assert_eq!(dir.names(), ["out.jsonl"], "the databases are gone");
    let table = String::from_utf8_lossy(&output.stdout);
    for part in
        ["### tpc-b-like, 1 branches, 8 MiB", "### tpc-c: buffers for equal speed", "Without a memory limit"]
    {
        assert!(table.contains(part), "{part} is not in {table}");
    }
    let results = dir.0.join("out.jsonl");
    let drawn =
        bench(&["plot", results.to_str().expect("plain"), "--out-dir", dir.0.to_str().expect("plain")]);
    assert!(drawn.status.success() && dir.0.join("page-size-wal.svg").exists(), "{drawn:?}");
}

#[test]
fn rollback_journals_work_too() {
    let dir = Dir::new("page-size-delete");
    let one = ["--journal", "delete", "--load", "tpc-c"];
    let Some(output) = study(&dir.0, &one) else { return };
    let samples = samples(&dir.0);
    assert_eq!(samples.len(), 4);
    samples.iter().for_each(check);
    assert!(String::from_utf8_lossy(&output.stdout).contains("journal delete"));
}

#[test]
fn what_makes_no_sense_is_refused_before_the_work() {
    let dir = Dir::new("page-size-refused");
    let path = dir.0.to_str().expect("plain");
    for (arguments, rule) in
        [(["--pages", "5000"], "power of two"), (["--buffers", "1G"], "--data is at least")]
    {
        let output = bench(&[&["page-size", "--dir", path], &arguments[..]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(rule), "{said}");
    }
    assert_eq!(dir.names(), [""; 0]);
}
