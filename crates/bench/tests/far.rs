//! `aquifer-bench far` at tiny scale: programs of others with everything local, on swap, and with a byte that is wrong.

mod common;

use std::fs;
use std::process::{Command, Output};

use aquifer_bench::study::{Record, read};
use common::Dir;

const TINY: &str = "--data 4M --seconds 0.2 --warmup 0 --runs 1 --peer local";

fn far(dir: &Dir, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aquifer-bench"));
    command.arg("far").args(line.split_whitespace()).arg("--dir").arg(&dir.0);
    command.arg("--out").arg(dir.0.join("out.jsonl")).output().expect("the program is built")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The records of a run that has not failed, with the reason where this machine lacks what it needs.
fn records(dir: &Dir, line: &str) -> Vec<Record> {
    let output = far(dir, line);
    assert!(output.status.success(), "{line}: {}", errors(&output));
    let path = dir.0.join("out.jsonl");
    let records = read::<Record>(&path).expect("records");
    fs::remove_file(&path).expect("it is there");
    for record in &records {
        record.left_out.iter().for_each(|reason| {
            println!("SKIP {} on {}: {reason}", record.point.text("program"), record.peer)
        });
    }
    records
}

#[test]
fn every_program_is_measured_or_says_what_is_to_be_installed() {
    let dir = Dir::new("far");
    for program in ["etc", "sys", "redis", "sqlite", "pagerank", "sort"] {
        let records = records(&dir, &format!("{TINY} --program {program}"));
        let [record] = &records[..] else { panic!("{records:?}") };
        if let Some(reason) = &record.left_out {
            assert!(
                ["install the package", "speedtest1"].iter().any(|what| reason.contains(what)),
                "{reason}"
            );
            continue;
        }
        for figure in ["ops_per_s", "seconds", "memory.rss_bytes", "peak_bytes"] {
            assert!(record.figures.number(figure) > Some(0.0), "{figure}: {record:?}");
        }
        assert_eq!(record.figures.number("killed"), Some(0.0), "{record:?}");
    }
    assert_eq!(dir.names(), Vec::<String>::new(), "files are left");
}

#[test]
fn a_wrong_byte_is_named_and_ends_the_call() {
    let dir = Dir::new("far-flip");
    for (program, object) in [
        ("sort", "line 1: wanted \""),
        ("etc", "key 0 version "),
        ("redis", "key 0 byte "),
        ("sqlite", "line 1: wanted \"--"),
    ] {
        for payload in ["random", "text"] {
            let output = far(&dir, &format!("{TINY} --program {program} --payload {payload} --flip-byte"));
            let said = errors(&output);
            if said.contains("install the package") || said.contains("speedtest1 is not there") {
                println!("SKIP {program}: {said}");
                continue;
            }
            assert_eq!(output.status.code(), Some(1), "{program}: {said}");
            let line = said.lines().find(|line| line.contains("WRONG DATA from local: ")).unwrap_or_default();
            let is_named = line.contains(program) && line.contains(object) && line.contains(", found ");
            assert!(is_named, "{program}: {said}");
        }
    }
}

#[test]
fn less_ram_gives_the_same_lines() {
    let dir = Dir::new("far-swap");
    let line = "--data 16M --runs 1 --program sort --peer swap,donors --share 75 --payload text";
    for record in
        records(&dir, line).iter().filter(|record| record.left_out.is_none() && record.peer != "local")
    {
        assert!(
            record.figures.number("limit_bytes") < record.figures.number("data_bytes").or(Some(32e6)),
            "{record:?}"
        );
        assert_eq!(
            (record.point.text("share"), record.point.text("payload")),
            ("75".to_owned(), "text".to_owned())
        );
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let dir = Dir::new("far-refused");
    for line in [
        "--data 10K",
        "--limit 0",
        "--share 4",
        "--share 101",
        "--program emacs",
        "--runs 0",
        "--disk-iops 0",
        "--disk-iops 3k",
        "--ram 1G",
    ] {
        let output = far(&dir, line);
        assert!(
            !output.status.success() && output.stdout.is_empty() && !errors(&output).is_empty(),
            "{line}"
        );
    }
}
