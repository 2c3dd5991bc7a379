//! The programs of `aquifer-bench recover` at tiny scale, as processes of their own; and what the command refuses.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use aquifer_bench::process::Memory;
use aquifer_bench::recover::slice::{SLICE_MS, Slice};
use aquifer_bench::recover::{Begin, Held};

fn recover(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aquifer-bench"));
    command.arg("recover").args(line.split_whitespace()).output().expect("the program is built")
}

#[test]
fn recover_tells_slices_without_gaps() {
    let output = recover("--task --data 2M --seconds 0.5");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    let mut lines = said.lines();
    let begin: Begin = serde_json::from_str(lines.next().expect("a line")).expect("the begin");
    assert!(begin.monotonic_ns > 0 && begin.setup_s > 0.0, "{begin:?}");
    let slices: Vec<Slice> = lines.map(|line| serde_json::from_str(line).expect("a slice")).collect();
    assert!(slices.len() >= 10, "{slices:?}");
    for (nth, slice) in slices.iter().enumerate() {
        assert_eq!(slice.at_ms, (nth as u64 + 1) * SLICE_MS);
    }
    assert!(slices.iter().map(|slice| slice.ops).sum::<u64>() > 1000, "{slices:?}");
}

#[test]
fn recover_holds_what_it_took_until_it_is_ended() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aquifer-bench"));
    command.args(["recover", "--hold", "33554432"]).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the program is built");
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("was piped"));
    stdout.read_line(&mut line).expect("it says that it has it");
    let held: Held = serde_json::from_str(&line).expect("times");
    assert!(held.begin_ns < held.end_ns, "{held:?}");
    assert!(Memory::of(child.id()).expect("it is still there").rss_bytes >= 32 << 20);
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
}

#[test]
fn recover_refuses_what_makes_no_sense() {
    for line in ["--data 1K", "--data 8M --ram 9M", "--failure fire", "--after 1", "--seconds 3", "--hold x"]
    {
        let output = recover(line);
        assert!(!output.status.success() && output.stdout.is_empty(), "{line}");
        assert!(!output.stderr.is_empty(), "{line}");
    }
}
