//! The process that serves a volume is killed. Its clients get errors and no wrong bytes, and what they synced is there.
//!
//! The tests run themselves again as clients: what has a file mapped ends with the owner.

use std::io::{BufRead, BufReader, Lines};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aquifer_volume::serve::protocol::open;
use aquifer_volume::serve::{Client, RemoteFile, RemoteMapping};
use aquifer_volume::{PAGE_BYTES, Protection};
use rustix::io::Errno;
use rustix::process::Signal;
use serde_json::Value;

use super::Ground;
use crate::{command, name, run, text};

/// More than the server has RAM for.
const PAGES: usize = 2500;
const ROUNDS: usize = 4;
/// Limit of each wait: a process that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// What a client is asked to do, and the socket.
const ROLE: &str = "AQUIFER_TEST_CLIENT";

/// What each number of a page is at first.
fn word(page: usize) -> u64 {
    (page as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn load(mapping: &RemoteMapping, page: usize, nth: usize) -> u64 {
    assert!(page < PAGES && nth < PAGE_BYTES / 8);
    // SAFETY: inside of the mapping, and aligned.
    unsafe { mapping.as_ptr().add(page * PAGE_BYTES).cast::<u64>().add(nth).read_volatile() }
}

fn store(mapping: &RemoteMapping, page: usize, value: u64) {
    assert!(page < PAGES);
    // SAFETY: inside of the mapping, and aligned; nobody holds a reference into it.
    unsafe { mapping.as_ptr().add(page * PAGE_BYTES).cast::<u64>().write_volatile(value) }
}

fn map(file: &RemoteFile, protection: Protection) -> RemoteMapping {
    file.map(0, PAGES * PAGE_BYTES, protection).expect("map")
}

/// Is a client if it was started as one, else nothing.
#[test]
fn is_a_client_when_it_is_told_to() {
    let Ok(told) = std::env::var(ROLE) else { return };
    let (role, socket) = told.split_once(' ').expect("a role and a socket");
    let client = Client::connect(Path::new(socket)).expect("connect");
    let file = client.open(b"file", open::READ | open::WRITE, 0).expect("open");
    let end = match role {
        "load" => load_until_killed(&file),
        "call" => call_until_killed(&file),
        "store" => store_until_killed(&client, &file),
        other => panic!("no role {other}"),
    };
    println!("ENDS {end}");
    // Mappings of a dead owner cannot be given back.
    std::process::exit(0);
}

/// Loads from pages that are mostly not in RAM.
fn load_until_killed(file: &RemoteFile) -> String {
    let mapping = map(file, Protection::Read);
    let mut number = 1usize;
    for count in 0u64.. {
        number = number.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        let (page, nth) = ((number >> 40) % PAGES, (number >> 30) % (PAGE_BYTES / 8));
        let found = load(&mapping, page, nth);
        if found != word(page) {
            return format!("wrong: page {page} has {found:x} at {nth}");
        }
        if count.is_multiple_of(1000) {
            println!("DONE {count}");
        }
    }
    "never".into()
}

/// Reads by calls, without a mapping.
fn call_until_killed(file: &RemoteFile) -> String {
    let mut bytes = vec![0; PAGE_BYTES];
    for count in 0usize.. {
        let page = count * 7 % PAGES;
        if let Err(error) = file.read((page * PAGE_BYTES) as u64, &mut bytes) {
            return format!("errno {}", error.errno());
        }
        if bytes != word(page).to_le_bytes().repeat(PAGE_BYTES / 8) {
            return format!("wrong: page {page}");
        }
        if count.is_multiple_of(1000) {
            println!("DONE {count}");
        }
    }
    "never".into()
}

/// Stores a number to every page, syncs, and says so; then the next.
fn store_until_killed(client: &Arc<Client>, file: &RemoteFile) -> String {
    let mapping = map(file, Protection::Write);
    let first = load(&mapping, 0, 0) + 1;
    for number in first.. {
        (0..PAGES).for_each(|page| store(&mapping, page, number));
        match client.sync() {
            Ok(()) => println!("DONE {number}"),
            Err(error) => return format!("errno {}", error.errno()),
        }
    }
    "never".into()
}

/// A process that says what it has done, line by line.
struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Process { child, lines }
    }

    fn client(role: &str, socket: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "volume::served::is_a_client_when_it_is_told_to", "--nocapture"]);
        command.env(ROLE, format!("{role} {}", name(socket)));
        Self::start(command)
    }

    /// Waits for a line with a word, and gives what follows it.
    fn wait_for(&mut self, word: &str) -> String {
        let found = self
            .lines
            .find_map(|line| line.expect("text").split_once(word).map(|(_, rest)| rest.trim().to_owned()));
        found.unwrap_or_else(|| panic!("it ended before it said {word}"))
    }

    /// Waits for its end, which nobody brings about here; gives what it still had to say.
    fn end(mut self) -> (ExitStatus, Vec<String>) {
        let since = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                break status;
            }
            if since.elapsed() > PATIENCE {
                self.kill();
                panic!("it hangs");
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        (status, self.lines.map_while(Result::ok).collect())
    }

    fn kill(&mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }
}

struct Served {
    ground: Ground,
    socket: PathBuf,
}

impl Served {
    /// A volume with a file of which each page says which it is, or of zeros.
    fn new(first: impl Fn(usize) -> u64) -> Self {
        let ground = Ground::new("64M");
        let bytes: Vec<u8> =
            (0..PAGES).flat_map(|page| first(page).to_le_bytes().repeat(PAGE_BYTES / 8)).collect();
        let host = ground.host_file("file", &bytes);
        ground.told(&["cp", &host, &ground.at("/")]);
        let socket = ground.host("socket");
        Served { ground, socket }
    }

    fn start(&self) -> Process {
        // A server that was killed has left its socket.
        let _ = std::fs::remove_file(&self.socket);
        let socket = name(&self.socket);
        let volume = name(&self.ground.volume);
        let mut server = Process::start(command(&[
            "volume", "serve", volume, "--listen", socket, "--ram", "4M", "--sync", "1",
        ]));
        server.wait_for("is served at");
        server
    }

    /// Reads the first number of each page through a new opening of the volume, and checks that the volume is
    /// sound.
    fn numbers(&self) -> Vec<u64> {
        self.ground.told(&["scrub", name(&self.ground.volume)]);
        let host = self.ground.host("copy");
        let _ = std::fs::remove_file(&host);
        self.ground.told(&["cp", &self.ground.at("/file"), name(&host)]);
        let bytes = std::fs::read(host).expect("a copy");
        assert_eq!(bytes.len(), PAGES * PAGE_BYTES);
        bytes
            .chunks_exact(PAGE_BYTES)
            .map(|page| u64::from_le_bytes(*page.first_chunk().expect("a number")))
            .collect()
    }
}

/// How a client ended: by the signal, or with what it says.
fn how(end: (ExitStatus, Vec<String>)) -> String {
    let (status, lines) = end;
    match status.signal() {
        Some(signal) if signal == Signal::BUS.as_raw() => "SIGBUS".into(),
        _ => lines
            .iter()
            .find_map(|line| line.split_once("ENDS ").map(|(_, end)| end.to_owned()))
            .unwrap_or_else(|| panic!("{status}: {lines:?}")),
    }
}

#[test]
fn clients_of_an_owner_that_is_killed_get_errors_and_no_wrong_bytes() {
    let served = Served::new(word);
    for round in 0..ROUNDS {
        let mut server = served.start();
        let mut clients = ["load", "load", "call"].map(|role| Process::client(role, &served.socket));
        for client in &mut clients {
            (0..=round).for_each(|_| drop(client.wait_for("DONE")));
        }
        server.kill();
        let [first, second, call] = clients.map(|client| how(client.end()));
        assert_eq!([first.as_str(), &second], ["SIGBUS"; 2], "round {round}");
        assert_eq!(call, format!("errno {}", Errno::PIPE.raw_os_error()), "round {round}");
    }
    assert!(served.numbers().into_iter().eq((0..PAGES).map(word)), "the file is not what it was");
}

/// What clients read is seen in `stats`, `top` and `export`, at a socket of its own.
#[test]
fn a_served_volume_tells_its_numbers() {
    let served = Served::new(word);
    let status = served.ground.host("status");
    let [volume, listen, socket] = [&served.ground.volume, &served.socket, &status].map(|path| name(path));
    let mut server = Process::start(command(&[
        "volume", "serve", volume, "--listen", listen, "--socket", socket, "--ram", "4M",
    ]));
    server.wait_for("is served at");
    let mut client = Process::client("call", &served.socket);
    client.wait_for("DONE");
    let told = |arguments: &[&str]| {
        let output = run(&[arguments, &["--socket", socket]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let sample: Value = serde_json::from_str(&told(&["stats", "--json"])).expect("JSON");
    assert_eq!((&sample["subject"], &sample["pid"]), (&"volume".into(), &server.child.id().into()));
    assert!(sample["stats"]["pages_read"].as_u64() > Some(0), "{sample}");
    let snapshot = told(&["top", "--once", "--interval", "100ms"]);
    for part in ["volume of process", "file pages", "Commits and cleaner", "table nodes read", "p50"] {
        assert!(snapshot.contains(part), "{part} is not in\n{snapshot}");
    }
    let metrics = told(&["export", "--once"]);
    for part in
        ["subject=\"volume\"", "aquifer_pages_read_total{", "aquifer_flash_read_latency_seconds_bucket{"]
    {
        assert!(metrics.contains(part), "{part} is not in\n{metrics}");
    }
    let check = run(&["check", "--socket", socket]);
    assert_eq!(check.status.code(), Some(2));
    assert!(text(&check.stderr).contains("aquifer volume check VOLUME"), "{}", text(&check.stderr));
    client.kill();
    server.kill();
    served.ground.told(&["check", volume]);
    let taken = served.ground.host_file("file-at-the-path", b"precious");
    let refused =
        run(&["volume", "serve", volume, "--listen", name(&served.ground.host("other")), "--socket", &taken]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--socket"), "{}", text(&refused.stderr));
    assert_eq!(std::fs::read(taken).expect("still there"), b"precious");
}

#[test]
fn what_a_client_synced_is_there_after_the_owner_was_killed() {
    let served = Served::new(|_| 0);
    for round in 0..ROUNDS {
        let mut server = served.start();
        let mut client = Process::client("store", &served.socket);
        let heard = (0..=2 * round).map(|_| client.wait_for("DONE")).last().expect("one at least");
        server.kill();
        let (status, lines) = client.end();
        let said = how((status, lines.clone()));
        assert!(
            ["SIGBUS", &format!("errno {}", Errno::PIPE.raw_os_error())].contains(&&*said),
            "round {round}: {said}"
        );
        let more =
            lines.iter().filter_map(|line| line.rsplit_once("DONE ")?.1.parse::<u64>().ok()).next_back();
        let last = more.unwrap_or_else(|| heard.parse().expect("a number"));
        let numbers = served.numbers();
        let (newest, oldest) = (numbers[0], numbers[PAGES - 1]);
        assert!(oldest >= last, "round {round}: {last} was synced, {oldest} is there");
        assert!(
            newest - oldest <= 1 && numbers.is_sorted_by(|one, next| one >= next),
            "round {round}: no moment"
        );
    }
}
