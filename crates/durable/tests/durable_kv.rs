//! The example as people use it: set, get, delete, list; and killed by SIGKILL while it counts.
//!
//! `AQUIFER_KILLS` is the number of rounds.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// The example. It is built here unless all examples have been, in the folder that `AQUIFER_BUILT` names: cargo builds examples only when all
/// tests of a package are run.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        if let Some(built) = std::env::var_os("AQUIFER_BUILT") {
            return Path::new(&built).join("examples/durable_kv");
        }
        let test = std::env::current_exe().expect("this test");
        let profile = test.ancestors().nth(2).expect("target/debug/deps/test");
        let name = profile.file_name().and_then(|name| name.to_str()).expect("a name");
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "aquifer-durable", "--example", "durable_kv"])
            .args(["--profile", if name == "debug" { "dev" } else { name }])
            .arg("--target-dir")
            .arg(profile.parent().expect("target"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(built.expect("cargo").success());
        profile.join("examples/durable_kv")
    })
}

fn run(file: &Path, arguments: &[&str]) -> Output {
    Command::new(program()).arg(file).args(arguments).output().expect("it runs")
}

/// What it prints when all goes well.
fn printed(file: &Path, arguments: &[&str]) -> String {
    let output = run(file, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn keys_and_values_are_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("heap");
    let long = "long ".repeat(2000);
    assert_eq!(printed(&file, &["set", "tea", "green"]), "");
    assert_eq!(printed(&file, &["set", "coffee", &long]), "");
    assert_eq!(printed(&file, &["set", "", "nothing"]), "");
    assert_eq!(printed(&file, &["get", "tea"]), "green\n");
    assert_eq!(printed(&file, &["set", "tea", "a blacker one"]), "");
    assert_eq!(printed(&file, &["list"]), format!("\tnothing\ncoffee\t{long}\ntea\ta blacker one\n"));
    assert_eq!(printed(&file, &["del", "coffee"]), "");
    assert_eq!(printed(&file, &["del", ""]), "");
    assert_eq!(printed(&file, &["list"]), "tea\ta blacker one\n");
    for arguments in [["get", "coffee"], ["del", "coffee"]] {
        let output = run(&file, &arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "durable_kv: there is no such key\n");
    }
}

#[test]
fn no_number_is_lost_when_it_is_killed() {
    let rounds: u64 = std::env::var("AQUIFER_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(30);
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("heap");
    let mut last = 0;
    for round in 0..rounds {
        let mut child = Command::new(program())
            .arg(&file)
            .args(["count", "1000000000"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut numbers = BufReader::new(child.stdout.take().expect("piped"))
            .lines()
            .map_while(|line| line.ok()?.parse::<u64>().ok());
        let first = numbers.next().expect("it counts");
        // One more may have been durable that it had no time to print.
        assert!(first == last + 1 || (round > 0 && first == last + 2), "{first} comes after {last}");
        last = first;
        for number in numbers.by_ref().take((round * 37 % 200) as usize) {
            assert_eq!(number, last + 1);
            last = number;
        }
        child.kill().expect("it is our child");
        child.wait().expect("it is our child");
        // What it had printed before it was killed.
        last = numbers.last().unwrap_or(last);
    }
    let next: u64 = printed(&file, &["count", "1"]).trim().parse().expect("a number");
    assert!((last + 1..=last + 2).contains(&next), "{next} comes after {last}");
}
