//! Studies, for a moment each: every peer is measured, tables are printed, and figures that got worse are found.

mod common;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use aquifer_bench::study::{Record, read};
use common::Dir;

fn bench(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aquifer-bench"));
    command.args(arguments.split_whitespace());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The records of one run of a study, after its tables; none if this machine lacks what it needs.
fn measure(dir: &Dir, study: &str, arguments: &str) -> Option<(Vec<Record>, String)> {
    let mut command = bench(&format!("{study} {arguments}"));
    let output = command.arg("--dir").arg(&dir.0).arg("--out").arg(dir.0.join("out.jsonl")).output();
    let output = output.expect("the benchmark runs");
    let text = said(&output);
    let lacks = ["cgroup", "not on a block device"].iter().any(|what| text.contains(what));
    if lacks && !output.status.success() {
        println!("SKIP {study}: {text}");
        return None;
    }
    assert!(output.status.success(), "{text}");
    let mut records = read::<Record>(&dir.0.join("out.jsonl")).expect("records");
    records.retain(|record| record.study == study);
    Some((records, text))
}

#[test]
fn every_study_of_the_volume_measures_every_peer() {
    let dir = Dir::new("studies");
    let mmap = ["mmap", "mmap-random", "volume"];
    let short = "--runs 1 --ram 40M --data 16M --seconds 0.1 --warmup 0.1";
    for (study, arguments, peers, column) in [
        ("volume updates", format!("{short} --every 100"), &mmap[..], "ops_per_s"),
        ("volume kv", format!("{short} --workload a --threads 2"), &mmap, "latency.p99_ns"),
        (
            "volume pagerank",
            "--runs 1 --ram 40M --data 16M --iterations 1 --threads 2".to_owned(),
            &["mmap", "mmap-random", "mmap-sequential", "volume"],
            "digest",
        ),
        ("volume metadata", "--data 64G --leaves 8 --volume-ram 64M".to_owned(), &["volume"], "flash_each"),
    ] {
        let Some((records, text)) = measure(&dir, study, &arguments) else { return };
        for peer in peers {
            let of_peer: Vec<_> = records.iter().filter(|record| record.peer == *peer).collect();
            assert!(!of_peer.is_empty(), "{study} has no {peer}: {text}");
            assert!(of_peer.iter().all(|record| !record.figures.text(column).is_empty()), "{of_peer:?}");
            assert!(text.contains(&format!("| {peer} |")), "{text}");
        }
    }
    let left: Vec<_> =
        fs::read_dir(&dir.0).expect("exists").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["out.jsonl"], "files of the studies are left");
    what_got_worse_is_found(&dir);
}

/// A byte that both files have wrong: peer, place, what was wanted and what was found are said, once, and nothing goes on.
#[test]
fn a_wrong_byte_of_a_file_ends_the_study() {
    for (study, arguments, place) in [
        ("volume reads", "--access scan --flip-byte 4096", "page 1 word 0: wanted 0x"),
        // In a slot in which a record stands, and over which a scan in fifteen goes.
        (
            "volume kv",
            "--workload e --threads 1 --payload text --flip-byte 614524",
            "field 1 byte 0: wanted 0x",
        ),
    ] {
        let dir = Dir::new("studies-flip");
        let mut command =
            bench(&format!("{study} --runs 2 --ram 40M --data 2M --seconds 0.5 --warmup 0.1 {arguments}"));
        let output = command.arg("--dir").arg(&dir.0).output().expect("the benchmark runs");
        let text = said(&output);
        if text.contains("cgroup") || text.contains("not on a block device") {
            println!("SKIP {study}: {text}");
            return;
        }
        let lines: Vec<_> = text.lines().filter(|line| line.contains("WRONG DATA from ")).collect();
        assert!(output.status.code() == Some(1) && lines.len() == 1, "{study}: {text}");
        assert!(lines[0].contains(place) && lines[0].contains(", found 0x"), "{study}: {text}");
        assert_eq!(dir.names(), Vec::<String>::new(), "files of the study are left");
    }
}

#[test]
fn an_option_that_means_nothing_is_refused() {
    let dir = Dir::new("probe");
    let mut refused = bench("probe-fio --ram 1G");
    let refused = refused.arg("--dir").arg(&dir.0).output().expect("it runs");
    assert!(said(&refused).contains("--ram means nothing to probe-fio"), "{}", said(&refused));
}

/// Of the records that are there.
fn what_got_worse_is_found(dir: &Dir) {
    let check = |baseline: &PathBuf| {
        bench("check").arg(dir.0.join("out.jsonl")).arg("--baseline").arg(baseline).output().expect("it runs")
    };
    let same = check(&dir.0.join("out.jsonl"));
    assert!(same.status.success() && said(&same).contains("nothing of"), "{}", said(&same));
    let better = dir.0.join("better.jsonl");
    let lines = fs::read_to_string(dir.0.join("out.jsonl")).expect("records");
    fs::write(&better, lines.replace("\"ops_per_s\":", "\"ops_per_s\":9")).expect("written");
    let worse = check(&better);
    assert_eq!(worse.status.code(), Some(1), "{}", said(&worse));
    assert!(said(&worse).contains("worse: volume updates, volume, "), "{}", said(&worse));
    let tables = bench("table").arg(dir.0.join("out.jsonl")).output().expect("it runs");
    assert!(
        said(&tables).contains("### PageRank on a mapped file: 16 MiB in 40 MiB of RAM"),
        "{}",
        said(&tables)
    );
}
