//! The `aquifer-bench` command.

fn main() {}
