//! `aquifer-bench programs`: two short programs of the corpus, and what runs may tell.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use aquifer_bench::study::{Record, read};
use common::Dir;

fn programs(dir: &Dir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aquifer-bench"));
    command
        .arg("programs")
        .args(arguments)
        .arg("--dir")
        .arg(&dir.0)
        .arg("--out")
        .arg(dir.0.join("out.jsonl"));
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn records(dir: &Dir) -> Vec<Record> {
    read::<Record>(&dir.0.join("out.jsonl")).expect("records")
}

#[test]
fn programs_are_measured_with_every_peer_that_this_machine_has() {
    let dir = Dir::new("programs");
    let names = ["lua", "zstd"];
    let output = programs(&dir, &["--budgets", "2", "--runs", "1", names[0], names[1]]).output();
    let text = said(&output.expect("the benchmark runs"));
    if ["is not there", "not on a block device"].iter().any(|what| text.contains(what)) {
        println!("SKIP programs: {text}");
        return;
    }
    assert_eq!(dir.names(), ["out.jsonl"], "files of the programs are left: {text}");
    let records = records(&dir);
    for name in names {
        for peer in ["native", "managed", "swap", "zswap"] {
            let is_meant = |record: &&Record| record.peer == peer && record.point.text("program") == name;
            let reason = |record: &Record| record.left_out.clone().unwrap_or_default();
            match records.iter().find(is_meant) {
                Some(record) if record.left_out.is_none() => {
                    assert!(record.figures.number("seconds") > Some(0.0), "{record:?}");
                    assert!(record.figures.number("cpu_seconds") > Some(0.0), "{record:?}");
                    assert_eq!(record.point.number("divisor"), (peer != "native").then_some(2.0));
                    assert!(text.contains(&format!("| {peer} |")), "{text}");
                }
                Some(record) => println!("SKIP programs, {peer}: {}", reason(record)),
                None => println!(
                    "SKIP programs, {name}, {peer}: {}",
                    records.iter().map(reason).collect::<String>()
                ),
            }
        }
    }
}

/// A folder whose run.py tells `lines`.
fn told(dir: &Dir, lines: &[&str]) -> Output {
    let script = dir.0.join("run.py");
    fs::write(&script, format!("#!/bin/sh\ncat <<'END'\n{}\nEND\n", lines.join("\n"))).expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("its owner");
    let corpus = dir.0.to_str().expect("a plain name");
    let mut command = programs(dir, &["--corpus", corpus, "--runs", "1"]);
    command.env("AQUIFER", Path::new("/bin/true")).output().expect("the benchmark runs")
}

fn line(peer: &str, outcome: &str) -> String {
    let figures = r#""seconds":2.0,"cpu_seconds":1.5,"peak_mib":66,"ram_mib":60,"total_mib":70"#;
    let divisor = if peer == "native" { "null" } else { "4" };
    format!(
        r#"{{"program":"p","divisor":{divisor},"peer":"{peer}","run":1,{figures},"outcome":"{outcome}","why":"the reason"}}"#
    )
}

#[test]
fn other_output_ends_the_call_and_what_does_not_end_is_left_out() {
    let dir = Dir::new("programs-told");
    let native = line("native", "right");
    let output =
        told(&dir, &[&native, &line("managed", "right"), &line("swap", "killed"), &line("zswap", "skipped")]);
    let text = said(&output);
    if text.contains("not on a block device") {
        println!("SKIP programs: {text}");
        return;
    }
    assert!(
        !output.status.success() && text.contains("the swap process did not end: p, 1/4: killed, the reason"),
        "{text}"
    );
    assert!(
        text.contains("| p | 4 | managed | 2.00 | - | - | 1.00 |") && text.contains("| 60 | 66 | 1.10 |"),
        "{text}"
    );
    assert!(text.contains("| zswap | p, 1/4: skipped, the reason |"), "{text}");
    let lacks = told(&dir, &[&native, &line("zswap", "skipped")]);
    assert!(lacks.status.success(), "{}", said(&lacks));
    let before = records(&dir).len();
    let wrong = told(&dir, &[&native, &line("managed", "wrong"), &line("swap", "right")]);
    let text = said(&wrong);
    assert_eq!(wrong.status.code(), Some(1), "{text}");
    assert!(text.contains("WRONG DATA from managed: p, 1/4: wrong, the reason"), "{text}");
    assert_eq!(records(&dir).len(), before + 1, "nothing is measured after that");
    let malformed = told(&dir, &["what"]);
    assert!(said(&malformed).contains("run.py told 'what', which is no record"), "{}", said(&malformed));
}
