//! memcached under load, for a moment: real servers where there are some, and a byte that is flipped.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use aquifer_bench::distribution::Distribution;
use aquifer_bench::memcached::client::Client;
use aquifer_bench::memcached::connection::Connection;
use aquifer_bench::memcached::load::{self, Clock, Point};
use aquifer_bench::memcached::value::{Sizes, Values};
use aquifer_bench::memcached::versions::Versions;
use aquifer_bench::payload::Payload;
use aquifer_bench::server::Server;
use aquifer_bench::study::{Record, read};
use common::Dir;

const KEYS: u64 = 500;
const VALUE_BYTES: usize = 200;
const VALUES: Values = Values { sizes: Sizes::Same(VALUE_BYTES), payload: Payload::Text };

/// What the example builds: a plain memcached and one on the heap.
fn built() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/examples/memcached")
}

/// Any memcached: the one that the example builds, or the distribution's.
fn any_memcached() -> Option<PathBuf> {
    let programs = [built().join("memcached-plain"), PathBuf::from("/usr/bin/memcached")];
    let found = programs.into_iter().find(|program| program.is_file());
    if found.is_none() {
        println!("SKIP no memcached: neither examples/memcached/build.sh nor the package memcached was run");
    }
    found
}

/// A short call of the study, and its records.
fn bench(dir: &Dir, build: &Path, arguments: &str) -> (Output, Vec<Record>) {
    let out = dir.0.join("out.jsonl");
    let output = Command::new(env!("CARGO_BIN_EXE_aquifer-bench"))
        .args("memcached --ram 32M --data 48M --values 512 --dist scattered-hot --runs 1".split(' '))
        .args("--seconds 0.5 --warmup 0.2".split(' '))
        .args(arguments.split_whitespace())
        .arg("--build")
        .arg(build)
        .arg("--dir")
        .arg(&dir.0)
        .arg("--out")
        .arg(&out)
        .output()
        .expect("the benchmark runs");
    let records = if out.exists() { read(&out).expect("records") } else { Vec::new() };
    (output, records)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_real_server_answers_every_request() {
    let Some(program) = any_memcached() else { return };
    let dir = Dir::new("real");
    let mut command = Command::new(program);
    command.args(["-m", "64", "-u", "root"]);
    let server = Server::start("any", command, "-s", &dir.0, None, Vec::new()).expect("memcached starts");
    let versions = Versions::new(KEYS);
    let client = |_| Client::new(Connection::open(&server).expect("it listens"), &versions, VALUES);
    let mut clients: Vec<_> = (0..3).map(client).collect();
    let mut told = 0;
    let filled = load::fill(&mut clients, KEYS, None, |done| told = told.max(done)).expect("it lives");
    assert_eq!((filled.refused, filled.sets), (0, KEYS));
    for (get_percent, pipeline) in [(50, 1), (100, 1), (0, 20), (50, 64)] {
        let point = Point { distribution: Distribution::Zipf, get_percent, clients: 3, pipeline };
        let mut clock = Clock::new(0.02, 0.2);
        let measured = load::run(&mut clients, point, KEYS, 7, || Ok(clock.look().0)).expect("right answers");
        assert!(measured.requests() > 0, "{measured:?}");
        assert_eq!((measured.hits, measured.lost, measured.refused), (measured.gets, 0, 0));
        assert_eq!(measured.latency_ns.len(), measured.requests());
        // A set of a key that is being set becomes a get, so that even 0 % have some.
        assert!(get_percent != 100 || measured.sets == 0);
    }
    let stats = Connection::open(&server).expect("it listens").stats().expect("it counts");
    assert_eq!((stats["curr_items"].clone(), &stats["evictions"][..]), (KEYS.to_string(), "0"));
    assert!(server.memory().expect("it runs").rss_bytes > 1 << 20);
    assert!(server.cpu_s().expect("it runs") > 0.0);
    drop(clients);
    drop(server);
    assert_eq!(dir.names(), [""; 0], "the server leaves nothing behind");
}

#[test]
fn a_missing_program_is_a_reason_to_leave_a_peer_out() {
    let dir = Dir::new("missing");
    let (output, records) = bench(&dir, Path::new("/nonexistent"), "--peer swap,zswap,aquifer,pages");
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(records.len(), 4);
    let reasons: Vec<_> = records.iter().filter_map(|record| record.left_out.as_deref()).collect();
    assert!(reasons.len() == 4 && reasons.iter().any(|reason| reason.contains("build.sh")), "{reasons:?}");
    assert!(said(&output).contains("### Left out"), "{}", said(&output));
}

/// All peers that this machine can run, for half a second each.
#[test]
fn every_peer_keeps_what_it_was_given() {
    let dir = Dir::new("peers");
    let (output, records) = bench(&dir, &built(), "--gets 80 --payload text");
    assert!(output.status.success(), "{}", said(&output));
    for record in &records {
        if let Some(reason) = &record.left_out {
            println!("SKIP {}: {reason}", record.peer);
            continue;
        }
        let figure = |name: &str| record.figures.number(name);
        assert!(figure("gets") > Some(0.0) && figure("sets") > Some(0.0), "{record:?}");
        assert!(record.peer == "extstore" || figure("lost") == Some(0.0), "{record:?}");
        assert!(figure("charged_bytes").is_none_or(|bytes| bytes <= f64::from(32 << 20)), "{record:?}");
        let lz4: f64 = record.point.text("lz4").parse().expect("a number");
        assert!((0.3..0.6).contains(&lz4), "{record:?}");
        assert!(said(&output).contains("512-byte values, 32 MiB of RAM, text payload"), "{}", said(&output));
    }
    assert_eq!(dir.names(), ["out.jsonl"]);
}

/// A wrong byte is found by a request, or in the end, and nothing takes the place of the run.
#[test]
fn a_flipped_byte_ends_the_call_and_is_named() {
    let Some(program) = any_memcached() else { return };
    for peer in ["swap", "extstore"] {
        let dir = Dir::new(&format!("flip-{peer}"));
        let build = Dir::below(&dir.0, "build");
        std::os::unix::fs::symlink(&program, build.0.join("memcached-plain")).expect("a new name");
        let arguments = format!("--peer {peer} --data 2M --gets 100 --flip-byte 77:300 --payload graph");
        let (output, records) = bench(&dir, &build.0, &arguments);
        let said = said(&output);
        if let Some(reason) = records.iter().find_map(|record| record.left_out.as_ref()) {
            println!("SKIP {peer}: {reason}");
            continue;
        }
        assert_eq!(output.status.code(), Some(1), "{said}");
        let mut value = Vec::new();
        Values { sizes: Sizes::Same(512), payload: Payload::Graph }.fill(&mut value, 77, 1);
        let (wanted, found) = (value[300], !value[300]);
        let line = format!(
            "aquifer-bench: WRONG DATA from {peer}: key 77 version 1 byte 300: wanted {wanted:#04x}, found {found:#04x}"
        );
        let lines: Vec<&str> = said.lines().filter(|line| line.contains("WRONG DATA")).collect();
        assert_eq!(lines, [line], "{said}");
        assert!(!said.contains("again") && !said.contains("### Left out"), "{said}");
    }
    let dir = Dir::new("flip-refused");
    let (output, _) = bench(&dir, &built(), "--data 2M --flip-byte 77:512");
    assert!(said(&output).contains("bytes below 512"), "{}", said(&output));
}
