//! The first example of each subcommand, run in a shell as its help shows it, where what it names is there.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use aquifer_cli::manual;
use aquifer_durable::{Backing, DurableHeap, Options};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use super::program::{Program, Told, socket};
use super::{advise, run};

/// Examples that other tests run, in their own way.
const ELSEWHERE: [(&str, &str); 6] = [
    ("run", "tests/preload"),
    ("volume mount", "tests/mount"),
    ("block", "tests/block"),
    ("donate", "donors.rs; its port may be in use"),
    ("donors", "donors.rs"),
    ("export", "export.rs; its port may be in use"),
];

/// Examples that end by Ctrl-C once they have said something.
const SERVES: [&str; 1] = ["volume serve"];

/// The first example of each subcommand that does something, without what explains it.
fn examples(command: &clap::Command, above: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for below in command.get_subcommands() {
        let words = format!("{above} {}", below.get_name()).trim().to_owned();
        if below.has_subcommands() && below.get_name() != "probe" {
            all.extend(examples(below, &words));
            continue;
        }
        all.extend(examples(below, &words));
        let help = below.get_before_help().map(ToString::to_string).unwrap_or_default();
        let line =
            help.split_once("Examples:\n").map_or("", |(_, lines)| lines).lines().next().unwrap_or_default();
        all.push((words, line.trim_start().split("  ").next().unwrap_or_default().to_owned()));
    }
    all
}

/// A folder with all that examples name.
fn world(folder: &Path) {
    let at = |name: &str| folder.join(name);
    fs::create_dir(at("results")).unwrap();
    fs::write(at("results/a.txt"), "a line\n").unwrap();
    for made in [".local/share/bash-completion/completions", ".zfunc", ".config/fish/completions"] {
        fs::create_dir_all(at(made)).unwrap();
    }
    let (report, path) = advise::report();
    for name in ["report.json", "disk.json", "old.json", "new.json"] {
        fs::copy(&path, at(name)).unwrap();
    }
    drop(report);
    let options = Options { chunk_bytes: 64 << 10, backing: Backing::Memory, ..Options::default() };
    let heap = DurableHeap::open(&at("heap.aq"), &options).unwrap();
    heap.transaction(|tx| tx.alloc(100)).unwrap();
    drop(heap);
    for volume in ["data.vol", "files.vol"] {
        let path = at(volume).display().to_string();
        assert!(run(&["volume", "create", &path, "--size", "16M"]).status.success());
    }
    let target = format!("{}:/", at("data.vol").display());
    assert!(run(&["volume", "cp", "-r", &at("results").display().to_string(), &target]).status.success());
    let (from, to) = (format!("{target}results"), format!("{target}old"));
    assert!(run(&["volume", "cp", "-r", &from, &to]).status.success());
}

#[test]
fn the_first_example_of_each_subcommand_works() {
    let (_socket_folder, path) = socket();
    let program = Program::start(Told::InEnvironment(&path));
    let mut tried = 0;
    for (words, example) in examples(&manual::command(), "") {
        assert!(example.starts_with("aquifer "), "{words}: {example}");
        if ELSEWHERE.iter().any(|(name, _)| *name == words) {
            continue;
        }
        let folder = TempDir::new().unwrap();
        world(folder.path());
        let here = folder.path().display().to_string();
        // What is made anew is not there yet.
        match words.as_str() {
            "volume create" => fs::remove_file(folder.path().join("data.vol")).unwrap(),
            "volume mv" => {
                assert!(run(&["volume", "rm", "-r", &format!("{here}/data.vol:/old")]).status.success())
            }
            "cluster join" => assert!(run(&["cluster", "init", &format!("{here}/cluster")]).status.success()),
            _ => {}
        }
        let line = example.replace("4711", &program.pid()).replace("10G", "16M");
        let line = line
            .replace("/run/", &format!("{here}/"))
            .replace("nand: ", "nand:size=32M,channels=1,dies=1,pages=32 ");
        // A signal is for the command alone then.
        let line = if SERVES.contains(&words.as_str()) { format!("exec {line}") } else { line };
        let bin = Path::new(env!("CARGO_BIN_EXE_aquifer")).parent().unwrap().display().to_string();
        let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        shell.args(["-ec", &line]).current_dir(folder.path()).env("HOME", folder.path()).env("PATH", path);
        shell.env_remove("AQUIFER_SOCKET").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = shell.process_group(0).spawn().unwrap();
        if SERVES.contains(&words.as_str()) {
            let mut said = String::new();
            BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
            assert!(said.ends_with('\n'), "{line}: it said nothing");
            let group = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
            kill_process_group(group, Signal::INT).unwrap();
        }
        let output = child.wait_with_output().unwrap();
        // A doctor finds what could be better on most machines that build.
        let is_fine = output.status.success() || words == "doctor";
        assert!(is_fine, "{line}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
        tried += 1;
    }
    assert!(tried > 25, "{tried}");
}

/// One line of JSON that a question about the world gets, and the status.
fn json(folder: &Path, line: &str) -> (Option<i32>, serde_json::Value) {
    let line = line.replace('@', &folder.display().to_string());
    let output = run(&line.split(' ').collect::<Vec<_>>());
    let said = String::from_utf8_lossy(&output.stdout);
    let first = said.lines().next().unwrap_or_default();
    let value = serde_json::from_str(first);
    (output.status.code(), value.unwrap_or_else(|error| panic!("{line}: {error}: {said}")))
}

#[test]
fn what_people_are_told_programs_are_told_as_json() {
    let folder = TempDir::new().unwrap();
    world(folder.path());
    let here = folder.path();
    for (line, name) in [
        ("durable check @/heap.aq --json", "/in_order"),
        ("durable stats @/heap.aq -j", "/objects"),
        ("volume check @/data.vol --json", "/in_order"),
        ("volume scrub @/data.vol --json", "/files"),
        ("volume ls @/data.vol:/results --json", "/size_bytes"),
        ("volume stat @/data.vol:/results/a.txt --json", "/mode"),
        ("volume df @/data.vol --json", "/free_bytes"),
        ("advise @/report.json --json", "/settings/depth/value"),
        ("advise @/report.json --json --latency 4us", "/lenders/0/gain"),
        ("probe compare @/old.json @/new.json --json", "/loads/0/figures/1/verdict"),
        ("probe compare --json @/old.json @/new.json", "/loads/0/figures/1/verdict"),
        ("version --json", "/parts/0/name"),
        ("doctor --json", "/can_run"),
    ] {
        let (status, value) = json(here, line);
        assert!(value.pointer(name).is_some_and(|value| !value.is_null()), "{line}: {value}");
        assert!(status == Some(0) || line.starts_with("doctor"), "{line}: {status:?}");
    }
    // A byte in the middle of the only file's page.
    let volume = here.join("data.vol");
    let mut bytes = fs::read(&volume).unwrap();
    for at in bytes
        .windows(6)
        .enumerate()
        .filter(|(_, window)| window == b"a line")
        .map(|(at, _)| at)
        .collect::<Vec<_>>()
    {
        bytes[at] ^= 1;
    }
    fs::write(&volume, bytes).unwrap();
    let (status, value) = json(here, "volume scrub @/data.vol --json");
    assert_eq!((status, &value["in_order"]), (Some(1), &false.into()), "{value}");
    assert!(value["damaged"][0][0].as_str().unwrap().contains(":/"), "{value}");
    let heap = here.join("heap.aq");
    let mut bytes = fs::read(&heap).unwrap();
    bytes[4096 + 20..4096 + 60].fill(0xff);
    fs::write(&heap, bytes).unwrap();
    let (status, value) = json(here, "durable check @/heap.aq --json");
    assert_eq!((status, &value["in_order"]), (Some(1), &false.into()), "{value}");
    assert!(value["problem"].is_string());
    let (status, value) = json(here, "donors 127.0.0.1:1 --json");
    assert_eq!((status, &value["state"]), (Some(1), &"silent".into()));
}
