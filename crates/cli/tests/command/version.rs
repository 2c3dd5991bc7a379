//! `aquifer version`: what it says is what the other commands find.

use std::process::Output;

use serde_json::Value;

use super::{command, name, run, text};

fn report() -> Value {
    let output = run(&["version", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert_eq!(said.lines().count(), 1, "{said}");
    serde_json::from_str(&said).expect("a line of JSON")
}

fn part<'a>(report: &'a Value, name: &str) -> &'a Value {
    let parts = report["parts"].as_array().expect("a list");
    parts.iter().find(|part| part["name"] == name).unwrap_or_else(|| panic!("{name} is not in {parts:?}"))
}

#[test]
fn the_table_has_a_line_for_each_part_and_one_for_what_adds_it() {
    let report = report();
    let output = run(&["version"]);
    assert!(output.status.success());
    let table = text(&output.stdout);
    assert!(table.starts_with(&format!("aquifer {}, built with ", aquifer::VERSION)), "{table}");
    assert_eq!(report["version"], aquifer::VERSION);
    assert!(table.lines().all(|line| line.chars().count() <= 100 || !line.trim().contains(' ')), "{table}");
    // Lines are broken between words.
    let flat = table.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in report["parts"].as_array().expect("a list") {
        let name = part["name"].as_str().expect("text");
        let mark = if part["is_ready"] == true { "yes" } else { "no" };
        assert!(flat.contains(&format!("{name} {mark} ")), "{name} {mark} is not in {table}");
        let remedy = part["remedy"].as_str().unwrap_or_default();
        assert!(
            flat.contains(remedy) && (part["is_ready"] == true) == remedy.is_empty(),
            "{remedy}: {table}"
        );
    }
}

#[test]
fn a_donor_finds_the_network_that_is_named() {
    let report = report();
    let network = part(&report, "network");
    // A provider that there is not, so that nothing is lent.
    let donor = run(&["donate", "--provider", "made-up", "--listen", "127.0.0.1:0", "--lend", "64M"]);
    assert_eq!(donor.status.code(), Some(2));
    let said = text(&donor.stderr);
    if network["is_ready"] == true {
        assert!(said.contains("no provider 'made-up'") && said.contains("`aquifer version`"), "{said}");
        let choices = network["choices"].as_array().expect("a list");
        assert!(choices.iter().all(Value::is_string) && !choices.is_empty(), "{choices:?}");
    } else {
        assert!(said.contains("libfabric"), "{said}");
    }
}

#[test]
fn a_block_device_finds_the_driver_that_is_named() {
    let report = report();
    let ublk = part(&report, "ublk");
    if ublk["is_ready"] == true {
        println!("SKIP a_block_device_finds_the_driver: it is there, and a device would be made");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let flash = folder.path().to_str().expect("text");
    let output = run(&["block", "--flash", flash, "--size", "1M", "--ublk"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

/// The library stands where `aquifer run` finds it.
#[test]
fn a_program_is_run_with_the_library_that_is_named() {
    let with = |named: &str, arguments: &[&str]| {
        command(arguments).env("AQUIFER_PRELOAD", named).output().expect("it runs")
    };
    let state = |output: &Output| {
        let report: Value = serde_json::from_slice(&output.stdout).expect("a line of JSON");
        let part = part(&report, "preload library");
        (part["is_ready"] == true, part["state"].as_str().expect("text").to_owned())
    };
    let (is_ready, said) = state(&with("/elsewhere/library.so", &["version", "--json"]));
    assert!(!is_ready && said.contains("/elsewhere/library.so"), "{said}");
    let refused = with("/elsewhere/library.so", &["run", "--", "true"]);
    assert_eq!((refused.status.code(), text(&refused.stdout)), (Some(125), String::new()));
    assert!(text(&refused.stderr).contains(&said), "{said}");
    let there = std::env::current_exe().expect("a test is a program");
    assert_eq!(state(&with(name(&there), &["version", "--json"])), (true, name(&there).to_owned()));
}

#[test]
fn a_program_is_not_run_without_the_library() {
    let report = report();
    let library = part(&report, "preload library");
    if library["is_ready"] == true {
        println!("SKIP a_program_is_not_run_without_the_library: it is beside the command");
        return;
    }
    let output = run(&["run", "--", "true"]);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(125), String::new()));
    assert!(said.contains(library["state"].as_str().expect("text")) && said.contains("`make lib`"), "{said}");
}

#[test]
fn only_the_switch_is_taken() {
    let output = run(&["version", "--features"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--features"));
}
