//! A byte that a peer changed ends the micro-benchmark, however it is found.

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use aquifer_bench::child::{Assignment, Event};
use aquifer_bench::contents;
use aquifer_bench::contents::Flip;
use aquifer_bench::distribution::Distribution;
use aquifer_bench::ledger::Ledger;
use aquifer_bench::micro::task::{MicroTask, RunRequest};
use aquifer_bench::payload::Payload;
use aquifer_bench::peer::{Kind, Setup};
use aquifer_bench::study::{Record, read};
use aquifer_bench::workload::Point;
use common::Dir;

const OBJECT_BYTES: u64 = 128;
const DATA_BYTES: u64 = 1 << 20;
const OBJECTS: u64 = DATA_BYTES / OBJECT_BYTES;
/// The byte that is flipped, and the word that it is in.
const BYTE: u64 = 77;
const PLACE: usize = 9;

/// An object that is looked at when all runs are over, if not before.
fn object() -> u64 {
    Ledger::new("test", OBJECTS).watched().nth(3).expect("there are more")
}

/// The line that names a wrong byte of `peer`, in which no write but the fill's was.
fn line(peer: &str) -> String {
    let key = contents::keys(object()).nth(PLACE).expect("16 words");
    let wanted = contents::word(key, object());
    let found = wanted ^ 0xff << (8 * (BYTE % 8));
    let object = object();
    format!(
        "WRONG DATA from {peer}: object {object} word {PLACE}: wanted {wanted:#018x}, found {found:#018x}"
    )
}

/// A child with a mapped file, as `micro` starts it but for the control group.
fn child(dir: &Path, flip: Option<Flip>, requests: &[RunRequest]) -> Option<Vec<Event>> {
    let setup = Setup {
        dir: dir.to_owned(),
        data_bytes: DATA_BYTES,
        object_bytes: OBJECT_BYTES,
        ram_bytes: DATA_BYTES,
        flash_bytes: 0,
        payload: Payload::Random,
    };
    let task = serde_json::to_value(MicroTask { kind: Kind::Mmap, setup, flip }).expect("plain fields");
    let assignment = Assignment { study: "micro".to_owned(), task, cgroup: None };
    let mut child = Command::new(env!("CARGO_BIN_EXE_aquifer-bench"))
        .arg("child")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the benchmark runs");
    let mut told = serde_json::to_string(&assignment).expect("plain fields") + "\n";
    told.extend(requests.iter().map(|request| serde_json::to_string(request).expect("plain fields") + "\n"));
    child.stdin.take().expect("was piped").write_all(told.as_bytes()).expect("the child reads");
    let output = child.wait_with_output().expect("the child ends");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let events: Vec<Event> = said.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
    if let Some(Event::Unavailable(reason)) = events.last() {
        println!("SKIP {reason}");
        return None;
    }
    Some(events)
}

fn reads() -> RunRequest {
    let point = Point { distribution: Distribution::Uniform, read_percent: 50, threads: 2 };
    RunRequest { point, warmup_s: 0.0, seconds: 0.1, seed: 1 }
}

#[test]
fn right_bytes_are_proven() {
    let dir = Dir::new("micro-right");
    let Some(events) = child(&dir.0, None, &[reads()]) else { return };
    let told = events.iter().filter_map(|event| match event {
        Event::Figures(figures) => Some(figures),
        _ => None,
    });
    let told: Vec<_> = told.collect();
    let [run, proof] = told[..] else { panic!("{events:?}") };
    assert!(run.number("ops") > Some(0.0) && proof.number("verify_ns") > Some(0.0), "{events:?}");
    assert!(matches!(events.last(), Some(Event::Done)), "{events:?}");
}

#[test]
fn a_child_names_the_wrong_byte() {
    let dir = Dir::new("micro-child");
    let flip = Flip { object: object(), byte: BYTE };
    let Some(events) = child(&dir.0, Some(flip), &[]) else { return };
    let Some(Event::WrongData { peer, what }) = events.last() else { panic!("{events:?}") };
    assert_eq!(format!("WRONG DATA from {peer}: {what}"), line("mmap"));
}

/// The library that `make lib` has put there, if no other is named.
fn library() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/lib/libaquifer.so");
    std::env::var_os("AQUIFER_LIB").map_or(built, PathBuf::from)
}

fn micro(dir: &Path, peer: &str, flip: &str) -> Output {
    micro_of(dir, peer, "random", flip)
}

fn micro_of(dir: &Path, peer: &str, payload: &str, flip: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_aquifer-bench"))
        .env("AQUIFER_LIB", library())
        .args(["micro", "--data", "1M", "--ram", "32M", "--seconds", "0.1", "--warmup", "0", "--rewarm", "0"])
        .args([
            "--threads",
            "1",
            "--runs",
            "2",
            "--peer",
            peer,
            "--payload",
            payload,
            "--flip-byte",
            flip,
            "--dir",
        ])
        .arg(dir)
        .arg("--out")
        .arg(dir.join("out.jsonl"))
        .output()
        .expect("the benchmark runs")
}

/// The whole way: a byte in the memory of a real peer, which the command then tells of.
#[test]
fn a_wrong_byte_ends_the_run_at_once() {
    for peer in ["aquifer", "mmap"] {
        let dir = Dir::new(&format!("micro-{peer}"));
        let output = micro(&dir.0, peer, &format!("{}:{BYTE}", object()));
        let said = String::from_utf8_lossy(&output.stderr);
        let records = read::<Record>(&dir.0.join("out.jsonl")).expect("records");
        if let Some(reason) = records.iter().find_map(|record| record.left_out.as_ref()) {
            assert!(output.status.success() && !said.contains("WRONG DATA"), "{said}");
            println!("SKIP {peer}: {reason}");
            continue;
        }
        assert_eq!(output.status.code(), Some(1), "{said}");
        let lines: Vec<&str> = said.lines().filter(|line| line.contains("WRONG DATA")).collect();
        assert_eq!(lines, [format!("aquifer-bench: {}", line(peer))], "{said}");
        assert!(!said.contains("again") && !said.contains("left out"), "{said}");
    }
}

/// A word without a version is wrong as soon as it differs from the payload's.
#[test]
fn a_wrong_byte_of_a_payload_is_named() {
    let dir = Dir::new("micro-payload");
    let output = micro_of(&dir.0, "aquifer", "text", &format!("{}:{BYTE}", object()));
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("left out: libaquifer") {
        println!("SKIP {said}");
        return;
    }
    let wanted = Payload::Text.word(object(), PLACE as u64);
    let found = wanted ^ 0xff << (8 * (BYTE % 8));
    let line = format!(
        "WRONG DATA from aquifer: object {} word {PLACE}: wanted {wanted:#018x}, found {found:#018x}",
        object()
    );
    assert!(output.status.code() == Some(1) && said.contains(&line), "{said}");
}

#[test]
fn no_byte_of_no_object_is_refused() {
    let dir = Dir::new("micro-refused");
    let output = micro(&dir.0, "aquifer", &format!("{OBJECTS}:0"));
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("left out: libaquifer") {
        println!("SKIP {said}");
        return;
    }
    assert!(!output.status.success() && said.contains(&format!("no byte 0 of object {OBJECTS}")), "{said}");
}
