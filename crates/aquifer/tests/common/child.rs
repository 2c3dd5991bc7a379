//! A test that must kill its process runs in a process of its own: the test binary again, with one test.

use std::process::{Command, Output};

const ROLE: &str = "AQUIFER_TEST_CHILD";

/// Whether this process is the child that [`run`] started for test `name`.
pub fn is_child(name: &str) -> bool {
    std::env::var(ROLE).is_ok_and(|role| role == name)
}

/// Runs test `name` of this binary in a child.
pub fn run(name: &str) -> Output {
    let program = std::env::current_exe().expect("the test binary has a path");
    Command::new(program)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(ROLE, name)
        .output()
        .expect("the test binary runs")
}
