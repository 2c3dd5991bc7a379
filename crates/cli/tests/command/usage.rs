//! The command line itself.

use std::collections::HashMap;

use aquifer_cli::arguments::Arguments;
use aquifer_cli::manual;
use clap::{CommandFactory, Parser};

use super::{complaint, run, text};

/// All subcommands, with the words that lead to each.
fn subcommands(command: &clap::Command, words: &str) -> Vec<(String, clap::Command)> {
    let words = format!("{words} {}", command.get_name()).trim().to_owned();
    let below = command.get_subcommands().filter(|below| below.get_name() != "help");
    let below: Vec<_> = below.flat_map(|below| subcommands(below, &words)).collect();
    [vec![(words, command.clone())], below].concat()
}

#[test]
fn every_help_begins_with_its_purpose_and_an_example() {
    let all = subcommands(&manual::command(), "");
    assert!(all.len() > 35);
    for (words, _) in all {
        let arguments: Vec<&str> = words.split(' ').skip(1).chain(["--help"]).collect();
        let output = run(&arguments);
        let help = text(&output.stdout);
        assert!(output.status.success(), "{words}");
        let lines: Vec<&str> = help.lines().collect();
        assert!(lines[0].len() > 10 && lines[1].len() > 10 && lines[2].is_empty(), "{help}");
        assert!(lines[1].ends_with('.') && lines[3] == "Examples:" && lines[4].starts_with("  "), "{help}");
        assert!(help.contains(&format!("\nUsage: {words}")), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}

/// Short names, and what they are short for.
const SHORT: [(char, &str); 13] = [
    ('f', "flash"),
    ('h', "help"),
    ('i', "interval"),
    ('j', "json"),
    ('l', "long"),
    ('m', "ram"),
    ('p', "parents"),
    ('p', "pid"),
    ('p', "preserve"),
    ('r', "recursive"),
    ('s', "symbolic"),
    ('v', "verbose"),
    ('V', "version"),
];

/// Options whose values differ by what is served, or by what can be copied.
const VALUES_DIFFER: [&str; 4] = ["copies", "listen", "ram", "sync"];

#[test]
fn an_option_has_one_meaning_everywhere() {
    let mut values = HashMap::<String, (Vec<String>, String)>::new();
    for (words, command) in subcommands(&manual::command(), "") {
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.starts_with(|first: char| first.is_uppercase()), "{words}: {help}");
            assert!(!help.ends_with('.'), "{words}: {help}");
            if argument.is_positional() {
                continue;
            }
            let long = argument.get_long().unwrap_or_else(|| panic!("{words}: {argument} has no long name"));
            if let Some(short) = argument.get_short().filter(|short| *short != 'R') {
                assert!(SHORT.contains(&(short, long)), "{words}: -{short} of --{long}");
            }
            let is_switch = !argument.get_action().takes_values();
            let names = argument.get_value_names().filter(|_| !is_switch).unwrap_or_default();
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            assert!(names.is_empty() || long != "json", "{words}: --json is a switch");
            let known = values.entry(long.to_owned()).or_insert_with(|| (names.clone(), words.clone()));
            assert!(
                known.0 == names || VALUES_DIFFER.contains(&long),
                "--{long} takes {:?} of {} and {names:?} of {words}",
                known.0,
                known.1
            );
        }
    }
}

#[test]
fn old_spellings_work_with_a_hint() {
    let output = run(&["stats", "--watch", "1", "--socket", "/nowhere/heap.sock"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(said.starts_with("aquifer: --watch is now --interval=1;"), "{said}");
    assert!(said.contains("there is no socket at /nowhere/heap.sock"), "{said}");
}

#[test]
fn run_has_statuses_of_its_own() {
    for (arguments, status) in [
        (&["run"][..], 125),
        (&["run", "--ram", "much", "true"], 125),
        (&["run", "--no-such-option", "true"], 127),
        (&["run", "--ram", "1M", "--ram-min", "2M", "--", "true"], 125),
        (&["run", "--", "/nowhere/program"], 127),
        (&["run", "--", "/"], 126),
        (&["stats", "--no-such-option"], 2),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn shells_can_complete() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]);
        let said = text(&output.stdout);
        assert!(output.status.success() && said.contains("device-profile"), "{said}");
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
