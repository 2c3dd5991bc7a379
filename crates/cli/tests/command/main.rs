//! The command against a real program with a heap, and against peers that do not speak its protocol.

mod advise;
mod block;
mod documents;
mod donors;
mod durable;
mod examples;
mod export;
mod ground;
mod pages;
mod peers;
mod probe;
mod probe_running;
mod probe_targets;
mod program;
mod running;
mod top;
mod usage;
mod version;
mod volume;

use std::path::Path;
use std::process::{Command, Output};

use rustix::process::{Pid, Signal, kill_process};

/// The command with these arguments, and nothing of the tests' own environment that it looks at.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aquifer"));
    command.args(arguments).env_remove("AQUIFER_SOCKET").env_remove("AQUIFER_PRELOAD");
    command
}

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the command runs")
}

/// Sends a signal to a process that a test has started and not yet waited for.
fn send(signal: Signal, process: u32) {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw).expect("the number of a process");
    kill_process(process, signal).expect("it is there");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command that cannot ask anything; what it says about it, in one line.
fn complaint(arguments: &[&str]) -> String {
    let output = run(arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(text(&output.stdout), "");
    assert!(said.starts_with("aquifer: ") && said.lines().count() == 1, "{said}");
    said
}

fn name(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}
