//! Each command of the benchmark, for a moment.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use aquifer_bench::durable::cleaning::sample::Cleaning;
use aquifer_bench::durable::load::Workload;
use aquifer_bench::durable::optimisations::sample::Optimisation;
use aquifer_bench::durable::optimisations::switch::Off;
use aquifer_bench::durable::recovery::sample::{Filling, Recovery};
use aquifer_bench::durable::sample::Transactions;
use aquifer_bench::durable::system::System;
use aquifer_bench::durable::workloads::engine::Engine;
use aquifer_bench::durable::workloads::sample as workloads;
use aquifer_bench::sample::Record;
use aquifer_bench::study::read;
use clap::ValueEnum;

/// A directory of the test's own in memory; removed when dropped.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let dir = PathBuf::from("/dev/shm").join(format!("aquifer-bench-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a temporary directory");
        Self(dir)
    }

    /// The table and the records of one run of transactions.
    fn transactions(&self, arguments: &[&str]) -> (String, Vec<Record>) {
        self.run("transactions", arguments)
    }

    /// The table and the records of one run of a command.
    fn run(&self, command: &str, arguments: &[&str]) -> (String, Vec<Record>) {
        let out = self.0.join("out.jsonl");
        let output = Command::new(env!("CARGO_BIN_EXE_durable"))
            .args([command, "--runs", "1", "--dir"])
            .arg(&self.0)
            .arg("--out")
            .arg(&out)
            .args(arguments)
            .output()
            .expect("the benchmark runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (String::from_utf8(output.stdout).expect("text"), read::<Record>(&out).expect("records"))
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

#[test]
fn every_program_runs_on_every_heap() {
    let dir = Dir::new("workloads");
    let small = ["--entries", "2000", "--count", "4000", "--seconds", "600", "--utilisation", "50,85"];
    let (table, records) = dir.run("workloads", &small);
    let samples: Vec<&workloads::Workload> = records
        .iter()
        .filter_map(|record| match record {
            Record::Workloads(sample) => Some(&**sample),
            _ => None,
        })
        .collect();
    // Programs, media, threads; the durable heap twice, and two heaps in place.
    assert_eq!(samples.len(), 4 * 2 * 2 * 4, "{table}");
    for sample in &samples {
        let is_aquifer = sample.contender.engine == Engine::Aquifer;
        assert_eq!(sample.transactions, 4000);
        assert!(sample.cpu_ns > 0.0 && sample.wall_ns > 0.0, "{sample:?}");
        assert!(sample.bytes > 0.0 && sample.lines >= sample.bytes / 64.0, "{sample:?}");
        // One append, or a record of new bytes, these at their homes, and the end of the record; an undo log has more records.
        let fences = match sample.contender.engine {
            Engine::Aquifer => 0.9..2.0,
            Engine::Redo => 2.5..3.01,
            Engine::Undo => 2.5..20.0,
        };
        assert!(fences.contains(&sample.fences), "{sample:?}");
        assert_eq!((sample.live_share.is_some(), sample.cleaned_chunks.is_some()), (is_aquifer, is_aquifer));
    }
    for row in ["| emulated | 1 | aquifer, 85 % | mean | ", "| raw | 2 | aquifer, 50 % | mean | "] {
        assert!(table.contains(row), "{row} is not in {table}");
    }
    assert_eq!(fs::read_dir(&dir.0).expect("exists").count(), 1, "only the results are left");
}

#[test]
fn every_optimisation_is_left_out_once() {
    let dir = Dir::new("optimisations");
    let small = ["--entries", "2000", "--count", "4000", "--seconds", "600", "--medium", "raw"];
    let (table, records) = dir.run("optimisations", &small);
    let samples: Vec<&Optimisation> = records
        .iter()
        .filter_map(|record| match record {
            Record::Optimisations(sample) => Some(&**sample),
            _ => None,
        })
        .collect();
    assert_eq!(samples.len(), 4 * Off::value_variants().len(), "{table}");
    for sample in samples {
        let is_together = !matches!(sample.off, Off::GroupUpdate | Off::PersistsOnce);
        assert_eq!(sample.workload.fences < 1.5, is_together, "{sample:?}");
    }
    assert!(table.contains("| raw | 1 | group-update | "), "{table}");
    assert_eq!(fs::read_dir(&dir.0).expect("exists").count(), 1, "only the results are left");
}

#[test]
fn a_heap_with_room_is_not_cleaned() {
    let dir = Dir::new("cleaning");
    let small = ["--live", "8M", "--count", "50K", "--seconds", "600", "--utilisation", "90"];
    let (table, records) = dir.run("cleaning", &small);
    let samples: Vec<&Cleaning> = records
        .iter()
        .filter_map(|record| match record {
            Record::Cleaning(sample) => Some(&**sample),
            _ => None,
        })
        .collect();
    assert_eq!(samples.len(), 2 * 2 * 2, "{table}");
    for sample in samples {
        let has_room = sample.utilisation_percent.is_none();
        assert_eq!(sample.cleaned_chunks == 0, has_room, "{sample:?}");
        assert!(sample.written_per_changed >= 1.0, "{sample:?}");
    }
    assert_eq!(fs::read_dir(&dir.0).expect("exists").count(), 1, "only the results are left");
}

#[test]
fn a_log_is_opened_again() {
    let dir = Dir::new("recovery");
    let (table, records) = dir.run("recovery", &["--log", "16M", "--object", "8,1K"]);
    let samples: Vec<&Recovery> = records
        .iter()
        .filter_map(|record| match record {
            Record::Recovery(sample) => Some(&**sample),
            _ => None,
        })
        .collect();
    assert_eq!(samples.len(), 2 * 2, "{table}");
    for sample in samples {
        assert!(sample.log_bytes >= 16 << 20 && sample.seconds > 0.0, "{sample:?}");
        assert!(sample.live_bytes >= sample.objects * sample.object_bytes, "{sample:?}");
        let rewritten = if sample.filling == Filling::Fragmented { sample.objects / 3 } else { 0 };
        assert_eq!(sample.rewritten, rewritten, "{sample:?}");
    }
    assert_eq!(fs::read_dir(&dir.0).expect("exists").count(), 1, "only the results are left");
}
