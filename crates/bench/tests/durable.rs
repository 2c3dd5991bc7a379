//! Transactions on every system that this machine can run, for a moment.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use aquifer_bench::durable::load::Workload;
use aquifer_bench::durable::sample::Transactions;
use aquifer_bench::durable::system::System;
use aquifer_bench::sample::{Record, read_records};
use clap::ValueEnum;

/// A directory of the test's own in memory; removed when dropped.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let dir = PathBuf::from("/dev/shm").join(format!("aquifer-bench-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a temporary directory");
        Self(dir)
    }

    /// The table and the records of one run.
    fn transactions(&self, arguments: &[&str]) -> (String, Vec<Record>) {
        let out = self.0.join("out.jsonl");
        let output = Command::new(env!("CARGO_BIN_EXE_durable"))
            .args(["transactions", "--runs", "1", "--dir"])
            .arg(&self.0)
            .arg("--out")
            .arg(&out)
            .args(arguments)
            .output()
            .expect("the benchmark runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (String::from_utf8(output.stdout).expect("text"), read_records(&out).expect("records"))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("was created");
    }
}

fn samples(records: &[Record]) -> impl Iterator<Item = &Transactions> {
    records.iter().filter_map(|record| match record {
        Record::Transactions(sample) => Some(&**sample),
        _ => None,
    })
}

/// Why a system that needs a library did not run.
fn reason(records: &[Record], system: System, workload: Workload) -> Option<&str> {
    let peer = format!("{system}, {workload}");
    records.iter().find_map(|record| match record {
        Record::Skipped(skipped) if skipped.peer == peer => Some(&*skipped.reason),
        _ => None,
    })
}

#[test]
fn every_system_is_measured_or_says_why_not() {
    let dir = Dir::new("durable");
    let (table, records) = dir.transactions(&["--count", "4000", "--seconds", "0.5"]);
    for &system in System::value_variants() {
        for &workload in Workload::value_variants() {
            let of =
                |sample: &&Transactions| (sample.contestant.system, sample.workload) == (system, workload);
            let threads: BTreeSet<u64> = samples(&records).filter(of).map(|sample| sample.threads).collect();
            match reason(&records, system, workload) {
                Some(reason) => {
                    assert!(reason.contains("cannot be loaded") && threads.is_empty(), "{system}: {reason}");
                    assert!(table.contains(&format!("| {system}, {workload} | ")), "{table}");
                }
                None => {
                    assert_eq!(threads, BTreeSet::from([1, 2]), "{system}, {workload}: {table}");
                    assert!(table.contains(&format!("| {workload} | 2 | {system}")), "{table}");
                }
            }
        }
    }
    for sample in samples(&records) {
        assert!(sample.transactions > 0 && sample.cpu_ns > 0.0 && sample.wall_ns > 0.0, "{sample:?}");
        let counts = matches!(sample.contestant.system, System::Aquifer | System::AquiferEmulated);
        assert_eq!((sample.fences.is_some(), sample.persisted_bytes.is_some()), (counts, counts));
    }
    assert!(table.contains("`durable transactions "), "the command line is not beside the table: {table}");
    assert_eq!(fs::read_dir(&dir.0).expect("exists").count(), 1, "only the results are left");
}

#[test]
fn a_transaction_of_two_words_has_one_fence() {
    let dir = Dir::new("fences");
    let what = ["--system", "aquifer", "--workload", "two-words", "--threads", "1", "--utilisation", "50"];
    let (_, records) = dir.transactions(&[&what[..], &["--count", "50K", "--seconds", "600"]].concat());
    let sample = samples(&records).next().expect("needs no library");
    assert_eq!(sample.transactions, 50_000);
    // Those of the cleaner are the rest.
    let fences = sample.fences.expect("it counts them");
    assert!((1.0..1.01).contains(&fences), "{fences} fences");
    // Two words of 8 bytes, and what says where they belong.
    let bytes = sample.persisted_bytes.expect("it counts them");
    assert!(bytes >= 16.0, "{bytes} bytes");
}
