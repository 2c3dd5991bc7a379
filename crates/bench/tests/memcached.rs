//! memcached under load, for a moment: real servers where there are some, and one that lies.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicU8;
use std::{fs, thread};

use aquifer_bench::distribution::{Distribution, Picker};
use aquifer_bench::memcached::client::{Client, Failure, Mix};
use aquifer_bench::memcached::connection::Connection;
use aquifer_bench::memcached::load::{self, Point};
use aquifer_bench::memcached::peer::Peer;
use aquifer_bench::memcached::server::Server;
use aquifer_bench::memcached::versions::Versions;
use aquifer_bench::sample::Record;
use aquifer_bench::study::read;
use aquifer_bench::workload::Phase;
use common::Dir;

const KEYS: u64 = 500;
const VALUE_BYTES: usize = 200;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

/// Any memcached: the one that the example builds, or the distribution's.
fn any_memcached() -> Option<PathBuf> {
    let built = workspace().join("build/examples/memcached/memcached-plain");
    [built, PathBuf::from("/usr/bin/memcached")].into_iter().find(|program| program.is_file())
}

fn point(get_percent: u32, pipeline: usize) -> Point {
    Point { distribution: Distribution::Zipf, get_percent, clients: 3, pipeline }
}

/// Measures for some ticks.
fn some_ticks() -> impl FnMut() -> Phase {
    let mut ticks = 0;
    move || {
        ticks += 1;
        match ticks {
            1 => Phase::WarmUp,
            2..10 => Phase::Measure,
            _ => Phase::Stop,
        }
    }
}

#[test]
fn a_real_server_answers_every_request() {
    let Some(program) = any_memcached() else {
        println!("SKIP no memcached: neither examples/memcached/build.sh nor the package memcached was run");
        return;
    };
    let dir = Dir::new("real");
    let mut command = Command::new(program);
    command.args(["-m", "64", "-u", "root"]);
    let server = Server::start("any", command, &dir.0, None, Vec::new()).expect("memcached starts");
    let versions = Versions::new(KEYS);
    let connect = || Client::new(server.connect().expect("it listens"), &versions, VALUE_BYTES);
    let mut clients: Vec<_> = (0..3).map(|_| connect()).collect();
    let mut told = 0;
    let refused = load::fill(&mut clients, KEYS, None, |done| told = told.max(done));
    assert_eq!(refused.expect("the server lives"), 0);
    for (get_percent, pipeline) in [(50, 1), (100, 1), (0, 20), (50, 64)] {
        let point = point(get_percent, pipeline);
        let measured = load::run(&mut clients, point, KEYS, 7, some_ticks()).expect("right answers");
        assert!(measured.gets + measured.sets > 100, "{measured:?}");
        assert_eq!((measured.hits, measured.lost, measured.refused), (measured.gets, 0, 0));
        assert_eq!(measured.latency_ns.len(), measured.gets + measured.sets);
        // A set of a key that is being set becomes a get, so that even 0 % have some.
        assert!(get_percent != 100 || measured.sets == 0);
    }
    let stats = server.connect().expect("it listens").stats().expect("it counts");
    assert_eq!((stats.curr_items, stats.dropped()), (KEYS, 0));
    assert!(server.memory().expect("it runs").rss_bytes > 1 << 20);
    assert!(server.cpu_s().expect("it runs") > 0.0);
    drop(clients);
    drop(server);
    assert_eq!(fs::read_dir(&dir.0).expect("exists").count(), 0, "the server leaves nothing behind");
}

#[test]
fn what_does_not_start_says_why() {
    let dir = Dir::new("refused");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "echo no memory today >&2; exit 3"]);
    let refused = Server::start("sh", command, &dir.0, None, Vec::new()).map_err(|error| error.to_string());
    assert!(refused.is_err_and(|error| error.contains("sh does not start: no memory today")));
}

#[test]
fn a_missing_program_is_a_reason_to_skip() {
    let dir = Dir::new("missing");
    let out = dir.0.join("out.jsonl");
    let output = Command::new(env!("CARGO_BIN_EXE_aquifer-bench"))
        .args(["memcached", "--peer", "swap,aquifer,pages", "--build", "/nonexistent", "--dir"])
        .arg(&dir.0)
        .arg("--out")
        .arg(&out)
        .output()
        .expect("the benchmark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Three sizes of values, three peers.
    let records = read::<Record>(&out).expect("records");
    assert_eq!(records.len(), 9);
    assert!(records.iter().all(|record| matches!(record, Record::Skipped(skipped)
        if skipped.reason.contains("build.sh") && skipped.peer.starts_with("memcached "))));
}

/// All peers that this machine can run, for half a second each.
#[test]
fn every_peer_keeps_what_it_was_given() {
    let dir = Dir::new("peers");
    let out = dir.0.join("out.jsonl");
    let output = Command::new(env!("CARGO_BIN_EXE_aquifer-bench"))
        .args(["memcached", "--ram", "32M", "--data", "48M", "--values", "512", "--gets", "80"])
        .args(["--dist", "scattered-hot", "--seconds", "0.5", "--warmup", "0.2", "--runs", "1", "--build"])
        .arg(workspace().join("build/examples/memcached"))
        .arg("--dir")
        .arg(&dir.0)
        .arg("--out")
        .arg(&out)
        .output()
        .expect("the benchmark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for record in read::<Record>(&out).expect("records") {
        match record {
            Record::Memcached(sample) => {
                assert!(sample.gets > 0 && sample.sets > 0, "{sample:?}");
                assert!(sample.peer == Peer::Extstore || sample.lost == 0, "{sample:?}");
                assert!(sample.charged_bytes.is_none_or(|bytes| bytes <= 32 << 20), "{sample:?}");
            }
            Record::Skipped(skipped) => println!("SKIP {}: {}", skipped.peer, skipped.reason),
            other => panic!("{other:?}"),
        }
    }
    let left: Vec<_> =
        fs::read_dir(&dir.0).expect("exists").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["out.jsonl"]);
}

/// Answers gets with `value`, and stores nothing.
fn liar(dir: &Path, value: &'static [u8]) -> PathBuf {
    let path = dir.join("liar.sock");
    let listener = UnixListener::bind(&path).expect("a new socket");
    thread::spawn(move || {
        let stream = listener.accept().expect("a client").0;
        let mut requests = BufReader::new(stream.try_clone().expect("a second descriptor"));
        while answer(&mut requests, &stream, value).is_some() {}
    });
    path
}

fn answer(requests: &mut BufReader<UnixStream>, mut replies: &UnixStream, value: &[u8]) -> Option<()> {
    let mut line = String::new();
    requests.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["set", _, _, _, bytes] => {
            let mut data = vec![0; bytes.parse::<usize>().ok()? + 2];
            requests.read_exact(&mut data).ok()?;
            replies.write_all(b"STORED\r\n").ok()
        }
        ["get", key] => {
            let head = format!("VALUE {key} 0 {}\r\n", value.len());
            replies.write_all(&[head.as_bytes(), value, b"\r\nEND\r\n"].concat()).ok()
        }
        _ => None,
    }
}

#[test]
fn wrong_data_is_noticed() {
    let lies: [(&'static [u8], &str); 3] =
        [(b"short", "5 bytes came"), (&[0; VALUE_BYTES], "begins with"), (b"", "0 bytes came")];
    for (nth, (value, expected)) in lies.into_iter().enumerate() {
        let dir = Dir::new(&format!("liar-{nth}"));
        let versions = Versions::new(KEYS);
        let connection = Connection::open(&liar(&dir.0, value)).expect("it listens");
        let mut client = Client::new(connection, &versions, VALUE_BYTES);
        assert_eq!(client.set_all(0..KEYS).expect("it says that it stores"), 0);
        let mix = Mix { picker: Picker::new(Distribution::Uniform, KEYS), get_percent: 100, pipeline: 4 };
        match client.run(&mix, 1, &AtomicU8::new(Phase::Measure as u8)) {
            Err(Failure::WrongData(what)) => assert!(what.contains(expected), "{what}"),
            other => panic!("{other:?}"),
        }
    }
}
