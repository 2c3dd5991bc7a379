//! The command line itself.

use aquifer_cli::arguments::Arguments;
use clap::{CommandFactory, Parser};

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
        &["version", "--help"],
        &["doctor", "--help"],
        &["help", "stats"],
    ] {
        let output = run(arguments);
        let help = text(&output.stdout);
        assert!(output.status.success());
        assert!(help.contains("Usage: aquifer") && help.contains("Examples:\n  "), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}

/// The parts of a line of examples that are commands of ours, without what explains them.
fn commands_of(line: &str) -> Vec<String> {
    let command = line.trim_start().split("  ").next().unwrap_or_default();
    let parts = command.split(['|', '>', '&']).map(str::trim);
    parts.filter(|part| part.starts_with("aquifer ")).map(str::to_owned).collect()
}

/// The lines of examples in all helps.
fn examples(command: &clap::Command) -> Vec<String> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let block = help.split_once("Examples:\n").map_or("", |(_, rest)| rest);
    let own = block.lines().take_while(|line| line.starts_with("  ")).map(str::to_owned);
    own.chain(command.get_subcommands().flat_map(examples)).collect()
}

#[test]
fn every_example_is_a_command_that_there_is() {
    let lines = examples(&Arguments::command());
    let commands: std::collections::BTreeSet<String> =
        lines.iter().flat_map(|line| commands_of(line)).collect();
    assert!(commands.len() > 50, "{commands:?}");
    for command in commands {
        let parsed = Arguments::try_parse_from(command.split_whitespace());
        match parsed {
            Ok(_) => {}
            // The number alone.
            Err(error) if error.kind() == clap::error::ErrorKind::DisplayVersion => {}
            Err(error) => panic!("{command}: {error}"),
        }
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
