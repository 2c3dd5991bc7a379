//! What the tests of this folder share. Each of them uses a part of it.
#![allow(dead_code, unused_imports)]

pub mod object;
pub mod watchdog;

use std::process::{Command, Output};

pub use object::{Object, Rng};
pub use watchdog::Watchdog;

/// How much a test does: `long` with `AQUIFER_LONG` in the environment, else `short`.
pub fn long_or(long: usize, short: usize) -> usize {
    if std::env::var_os("AQUIFER_LONG").is_some() { long } else { short }
}

const ROLE: &str = "AQUIFER_TEST_CHILD";

/// Whether this process is the child that [`run_child`] started for test `name`.
pub fn is_child(name: &str) -> bool {
    std::env::var(ROLE).is_ok_and(|role| role == name)
}

/// Runs test `name` of this binary in a child: a test that must kill its process runs in one of its own.
pub fn run_child(name: &str) -> Output {
    let program = std::env::current_exe().expect("the test binary has a path");
    Command::new(program)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(ROLE, name)
        .output()
        .expect("the test binary runs")
}
