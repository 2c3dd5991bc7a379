//! The programs of `aquifer-bench recover` at tiny scale, as processes of their own; what the command refuses; a run on real donors.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use aquifer_bench::process::Memory;
use aquifer_bench::study::{Record, read};
use common::Dir;
use serde_json::Value;

const BENCH: &str = env!("CARGO_BIN_EXE_aquifer-bench");

fn bench(line: &str) -> Output {
    Command::new(BENCH).args(line.split_whitespace()).output().expect("the program is built")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn slices_have_no_gaps() {
    let output = bench("recover-program work 2097152 0.5 text");
    assert!(output.status.success(), "{}", errors(&output));
    let said = String::from_utf8_lossy(&output.stdout);
    let mut lines = said.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object"));
    let begin = lines.next().expect("a line");
    assert!(begin["monotonic_ns"].as_u64() > Some(0) && begin["setup_s"].as_f64() > Some(0.0), "{begin}");
    let slices: Vec<Value> = lines.collect();
    assert!(slices.len() >= 10, "{slices:?}");
    for (slice, nth) in slices.iter().zip(1..) {
        assert_eq!(slice["at_ms"], 50 * nth);
    }
    assert!(slices.iter().filter_map(|slice| slice["ops"].as_u64()).sum::<u64>() > 1000, "{slices:?}");
}

#[test]
fn a_wrong_word_ends_the_program() {
    let output = bench("recover-program work 2097152 0.5 random --flip-byte");
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("WRONG DATA from aquifer run: page 0 version 1 word 0: wanted 0x"), "{said}");
}

#[test]
fn what_is_taken_is_held_until_the_end() {
    let mut command = Command::new(BENCH);
    command.args(["recover-program", "hold", "33554432"]).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the program is built");
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("was piped"));
    stdout.read_line(&mut line).expect("it says that it has it");
    let held: Value = serde_json::from_str(&line).expect("times");
    assert!(held["begin_ns"].as_u64() < held["end_ns"].as_u64(), "{held}");
    assert!(Memory::of(child.id()).expect("it is still there").rss_bytes >= 32 << 20);
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
}

#[test]
fn what_makes_no_sense_is_refused() {
    for line in
        ["--data 1K", "--data 8M --ram 9M", "--failure fire", "--seconds 1", "--before 0.5", "--copies 4+2"]
    {
        let output = bench(&format!("recover {line}"));
        assert!(
            !output.status.success() && output.stdout.is_empty() && !errors(&output).is_empty(),
            "{line}"
        );
    }
}

/// The same load with a bit that is wrong from the begin on, and without.
#[test]
fn a_donor_is_killed() {
    let dir = Dir::new("recover");
    let run = |more: &str| {
        let line = "recover --failure kill --provider memory --runs 1 --data 32M --ram 16M --warmup 2 --before 1 --seconds 5";
        let mut command = Command::new(BENCH);
        command.args(line.split_whitespace()).args(more.split_whitespace());
        command.arg("--dir").arg(&dir.0).arg("--out").arg(dir.0.join("out.jsonl")).output().expect("it runs")
    };
    let output = run("");
    let records = read::<Record>(&dir.0.join("out.jsonl")).expect("records");
    let lacks = records[0].left_out.as_deref().filter(|reason| !reason.contains("process"));
    if let Some(reason) = lacks {
        println!("SKIP recover: {reason}");
        return;
    }
    assert!(output.status.success(), "{}", errors(&output));
    let figures = &records[0].figures;
    assert!(
        figures.number("before_ops_per_s") > Some(0.0) && figures.number("lent_slabs") > Some(0.0),
        "{figures:?}"
    );
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(table.contains("| kill | aquifer run |"), "{table}");
    let output = run("--flip-byte");
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("WRONG DATA from program: aquifer run: page 0"), "{}", errors(&output));
}
