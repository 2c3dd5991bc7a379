//! Each study of the durable heap, for a moment.

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use aquifer_bench::study::{Record, read};
use common::Dir;

/// The tables and the records of one run of a study in memory.
fn measure(study: &str, arguments: &str) -> (String, Vec<Record>) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("{study}-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let dir = Dir::below(Path::new("/dev/shm"), &name);
    let out = dir.0.join("out.jsonl");
    let output = Command::new(env!("CARGO_BIN_EXE_aquifer-bench"))
        .args(["durable", study, "--runs", "1", "--dir"])
        .arg(&dir.0)
        .arg("--out")
        .arg(&out)
        .args(arguments.split_whitespace())
        .output()
        .expect("the benchmark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tables = String::from_utf8(output.stdout).expect("text");
    assert!(
        tables.contains(&format!("`aquifer-bench durable {study} ")),
        "no command is beside the tables: {tables}"
    );
    assert_eq!(dir.names(), ["out.jsonl"], "only the results are left");
    (tables, read::<Record>(&out).expect("records"))
}

fn number(record: &Record, figure: &str) -> f64 {
    record.figures.number(figure).unwrap_or_else(|| panic!("no {figure} in {record:?}"))
}

#[test]
fn every_store_is_measured_or_says_why_not() {
    let (tables, records) =
        measure("transactions", "--count 1000 --seconds 0.5 --payload text --utilisation 50");
    let peers = [
        "aquifer, 50 %",
        "aquifer-emulated, 50 %",
        "pmemobj",
        "pmemobj-actions",
        "lmdb-nosync",
        "lmdb-sync",
        "redb-none",
        "redb-immediate",
    ];
    for peer in peers {
        let of_peer: Vec<_> = records.iter().filter(|record| record.peer == peer).collect();
        assert_eq!(of_peer.len(), 2 * 2, "{peer}: {tables}");
        let why = of_peer.iter().find_map(|record| record.left_out.clone());
        if let Some(why) = why {
            assert!(peer.starts_with("pmemobj") && why.contains("cannot be loaded"), "{peer}: {why}");
            assert!(tables.contains(&format!("| {peer} | {why} |")), "{tables}");
            println!("SKIP {why}");
            continue;
        }
        for record in of_peer {
            for figure in ["transactions", "cpu_ns", "wall_ns"] {
                assert!(number(record, figure) > 0.0, "{record:?}");
            }
            let counts =
                [record.figures.get("fences"), record.figures.get("bytes")].map(|count| count.is_some());
            assert_eq!(counts, [peer.starts_with("aquifer"); 2], "{record:?}");
        }
        for row in ["two-words | 1", "two-words | 2", "insert | 1", "insert | 2"] {
            assert!(tables.contains(&format!("| {row} | {peer} | ")), "{row} of {peer} is not in {tables}");
        }
    }
}

#[test]
fn a_transaction_of_two_words_has_one_fence() {
    let alone = "--system aquifer --workload two-words --threads 1 --utilisation 50 --count 50K --seconds 600 --warmup 600";
    let (_, records) = measure("transactions", alone);
    assert_eq!(number(&records[0], "transactions"), 50_000.0);
    // Those of the cleaner are the rest.
    let fences = number(&records[0], "fences");
    assert!((1.0..1.01).contains(&fences), "{fences} fences");
    // Two words of 8 bytes, and what says where they belong.
    assert!(number(&records[0], "bytes") >= 16.0, "{records:?}");
}

const SMALL: &str = "--entries 2000 --count 4000 --seconds 600 --warmup 600";

#[test]
fn every_program_runs_on_every_heap() {
    let (tables, records) =
        measure("workloads", &format!("{SMALL} --utilisation 50,85 --medium raw --payload python"));
    // Programs and threads; the durable heap twice, and two heaps in place.
    assert_eq!(records.len(), 4 * 2 * 4, "{tables}");
    for record in &records {
        assert_eq!(number(record, "transactions"), 4000.0);
        assert!(number(record, "lines") >= number(record, "bytes") / 64.0, "{record:?}");
        // One append, or a record of new bytes, these at their homes, and the end of the record; an undo log has more records.
        let is_aquifer = record.peer.starts_with("aquifer, ");
        let fences = match record.peer.as_str() {
            _ if is_aquifer => 0.9..2.0,
            "redo" => 2.5..3.01,
            _ => 2.5..20.0,
        };
        assert!(fences.contains(&number(record, "fences")), "{record:?}");
        for figure in ["live_share", "cleaned_chunks"] {
            assert_eq!(record.figures.get(figure).is_some(), is_aquifer, "{record:?}");
        }
    }
    for row in ["| 1 | mean | aquifer, 85 % | ", "| 2 | mean | aquifer, 50 % | "] {
        assert!(tables.contains(row), "{row} is not in {tables}");
    }
}

#[test]
fn every_optimisation_is_left_out_once() {
    let (tables, records) = measure("optimisations", &format!("{SMALL} --medium raw"));
    let peers = ["nothing", "hot-nodes", "group-update", "merges-writes", "persists-once", "joins-extents"];
    assert_eq!(records.iter().map(|record| &*record.peer).collect::<BTreeSet<_>>(), BTreeSet::from(peers));
    assert_eq!(records.len(), 4 * peers.len(), "{tables}");
    for record in &records {
        let is_together = !["group-update", "persists-once"].contains(&&*record.peer);
        assert_eq!(number(record, "fences") < 1.5, is_together, "{record:?}");
    }
    assert!(tables.contains("| 1 | 50 | mean | group-update | "), "{tables}");
}

#[test]
fn a_heap_with_room_is_not_cleaned() {
    let (tables, records) = measure(
        "cleaning",
        "--data 8M --count 50K --seconds 600 --utilisation 90 --medium raw --payload graph",
    );
    assert_eq!(records.len(), 2 * 2, "{tables}");
    for record in &records {
        let has_room = record.peer == "room";
        assert_eq!(number(record, "cleaned_chunks") == 0.0, has_room, "{record:?}");
        assert!(number(record, "bytes") >= 100.0, "{record:?}");
    }
}

#[test]
fn a_log_is_opened_again() {
    let (tables, records) =
        measure("recovery", "--data 16M --object 8,1K --checkpoint no,yes --payload text");
    assert_eq!(records.len(), 2 * 2 * 2, "{tables}");
    for record in &records {
        assert!(
            number(record, "log_bytes") >= f64::from(16 << 20) && number(record, "seconds") > 0.0,
            "{record:?}"
        );
        let (objects, bytes) =
            (number(record, "objects"), record.point.number("object_bytes").expect("it has"));
        assert!(number(record, "live_bytes") >= objects * bytes, "{record:?}");
        let is_fragmented = record.point.text("filling") == "fragmented";
        let rewritten = if is_fragmented { (objects / 3.0).floor() } else { 0.0 };
        assert_eq!(number(record, "rewritten"), rewritten, "{record:?}");
    }
}
