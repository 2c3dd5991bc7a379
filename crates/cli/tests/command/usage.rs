//! The command line itself.

use super::{complaint, run, text};

#[test]
fn every_help_has_examples() {
    for arguments in [
        &["--help"][..],
        &["stats", "--help"],
        &["check", "--help"],
        &["top", "--help"],
        &["export", "--help"],
        &["advise", "--help"],
        &["durable", "--help"],
        &["durable", "stats", "--help"],
        &["volume", "--help"],
        &["volume", "create", "--help"],
        &["volume", "cp", "--help"],
        &["volume", "scrub", "--help"],
        &["help", "stats"],
    ] {
        let output = run(arguments);
        let help = text(&output.stdout);
        assert!(output.status.success());
        assert!(help.contains("Usage: aquifer") && help.contains("Examples:\n  "), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}

#[test]
fn the_version_is_that_of_the_library() {
    assert_eq!(text(&run(&["--version"]).stdout), format!("aquifer {}\n", aquifer::VERSION));
}

#[test]
fn no_program_named() {
    for command in ["stats", "top", "export"] {
        let said = complaint(&[command]);
        let names = ["--pid", "--socket", "AQUIFER_SOCKET"];
        assert!(names.iter().all(|name| said.contains(name)), "{said}");
    }
}

#[test]
fn no_such_process_and_no_such_socket() {
    assert!(complaint(&["stats", "--pid", "4294967295"]).contains("no process 4294967295"));
    let said = complaint(&["check", "--socket", "/nowhere/heap.sock"]);
    assert!(said.contains("there is no socket at /nowhere/heap.sock"), "{said}");
    assert!(
        said.contains("AQUIFER_SOCKET=/nowhere/heap.sock") && said.contains("options.socket_path"),
        "{said}"
    );
}

#[test]
fn a_path_that_no_socket_can_have() {
    let said = complaint(&["stats", "--socket", &"x".repeat(200)]);
    assert!(said.contains("cannot talk to"), "{said}");
}
