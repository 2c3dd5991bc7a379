//! Peers that are no heap, or a broken one.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Output;
use std::thread::JoinHandle;

use tempfile::TempDir;

use super::{complaint, name, run, text};

/// Listens at a socket and treats one caller as it likes.
struct Peer {
    _folder: TempDir,
    path: PathBuf,
    thread: JoinHandle<()>,
}

impl Peer {
    fn new(treat: impl FnOnce(UnixStream) + Send + 'static) -> Self {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("peer.sock");
        let listener = UnixListener::bind(&path).expect("a socket");
        let thread = std::thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a caller");
            treat(stream);
        });
        Self { _folder: folder, path, thread }
    }

    /// Reads the question and answers with these bytes.
    fn answering(reply: impl Into<Vec<u8>>) -> Self {
        let reply = reply.into();
        Self::new(move |mut stream| {
            read_question(&stream);
            // The caller may have heard enough.
            let _ = stream.write_all(&reply);
        })
    }

    fn complaint(self, arguments: &[&str]) -> String {
        let said = complaint(&[arguments, &["--socket", name(&self.path)]].concat());
        self.thread.join().expect("the peer ends");
        said
    }

    fn output(self, arguments: &[&str]) -> Output {
        let output = run(&[arguments, &["--socket", name(&self.path)]].concat());
        self.thread.join().expect("the peer ends");
        output
    }
}

fn read_question(stream: &UnixStream) -> String {
    let mut question = String::new();
    BufReader::new(stream).read_line(&mut question).expect("a question");
    question
}

#[test]
fn the_questions_are_one_line() {
    for (command, line) in [("stats", "stats\n"), ("check", "check\n")] {
        let peer = Peer::new(move |stream| assert_eq!(read_question(&stream), line));
        assert!(peer.complaint(&[command]).contains("broke off"));
    }
}

#[test]
fn an_answer_without_end_is_cut_off() {
    let peer = Peer::new(|mut stream| {
        read_question(&stream);
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    assert!(peer.complaint(&["stats"]).contains("more than 1048576 bytes"));
}

#[test]
fn silence_is_not_waited_for() {
    let peer = Peer::new(|stream| {
        read_question(&stream);
        // Says nothing until the caller has gone.
        let _ = read_question(&stream);
    });
    let said = peer.complaint(&["stats", "--timeout", "0.1"]);
    assert!(said.contains("no answer") && said.contains("--timeout"), "{said}");
}

#[test]
fn nonsense_is_called_so() {
    let deep = "[".repeat(60_000) + "\n";
    let answers: [&[u8]; 9] = [
        b"\n",
        b"hello\n",
        b"{}\n",
        b"null\n",
        b"[1,2]\n",
        b"\xff\xfe\n",
        b"{\"pid\":-1,\"version\":\"1\",\"stats\":{}}\n",
        b"{\"pid\":1,\"version\":\"1\",\"stats\":{\"faults\":1e99}}\n",
        deep.as_bytes(),
    ];
    for answer in answers {
        let said = Peer::answering(answer).complaint(&["stats"]);
        assert!(said.contains("makes no sense"), "{said}");
    }
    let said = Peer::answering("{\"pid\":1,\"check\":\"perhaps\"}\n").complaint(&["check"]);
    assert!(said.contains("makes no sense"), "{said}");
}

#[test]
fn half_an_answer_is_none() {
    let said = Peer::answering("{\"pid\":1,").complaint(&["stats"]);
    assert!(said.contains("broke off"), "{said}");
}

#[test]
fn a_peer_cannot_command_the_terminal() {
    let error = "{\"error\":\"\\u001b]0;owned\\u0007\\nsecond line\"}\n";
    let said = Peer::answering(error).complaint(&["stats"]);
    assert!(said.contains("owned") && !said.contains('\x1b') && !said.contains('\x07'), "{said:?}");
    let sample = "{\"pid\":1,\"version\":\"\\u001b[2J\",\"stats\":{\"\\u001b[31m\":1}}\n";
    let table = text(&Peer::answering(sample).output(&["stats"]).stdout);
    assert!(table.contains("Other") && !table.contains('\x1b'), "{table:?}");
}

#[test]
fn a_peer_cannot_command_prometheus() {
    let sample = "{\"pid\":1,\"version\":\"a\\\"} 1\\nb 2\",\"stats\":{\"faults\":3,\"x 1\\ny\":1}}\n";
    let text = text(&Peer::answering(sample).output(&["export", "--once"]).stdout);
    assert!(text.contains("aquifer_faults_total{pid=\"1\"} 3\n"), "{text}");
    assert!(text.contains("version=\"a\\\"} 1\u{FFFD}b 2\",subject=\"heap\"} 1\n"), "{text}");
    assert!(!text.contains("\ny") && !text.contains("\nb 2"), "{text}");
}

#[test]
fn a_heap_that_closes_within_the_interval_is_shown() {
    let sample = "{\"pid\":8,\"version\":\"1\",\"stats\":{\"faults\":123}}\n";
    let output = Peer::answering(sample).output(&["top", "--interval", "0.01"]);
    assert!(output.status.success());
    let shown = text(&output.stdout);
    let words: Vec<&str> = shown.split_whitespace().collect();
    assert!(words.windows(4).any(|words| words == ["all", "faults", "-", "123"]), "{shown}");
    assert_eq!(text(&output.stderr), "process 8 has closed its heap\n");
}

#[test]
fn a_failed_check_has_its_own_status() {
    let reply = "{\"pid\":9,\"check\":\"failed\",\"problem\":\"slot 3 has two owners\"}\n";
    let output = Peer::answering(reply).output(&["check"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "process 9: slot 3 has two owners\n");
    assert!(text(&output.stderr).contains("disagree"));
}

#[test]
fn a_heap_that_closes_is_named() {
    let said = Peer::answering("{\"error\":\"the heap is closing\"}\n").complaint(&["check"]);
    assert!(said.contains("the heap is closing"), "{said}");
}

#[test]
fn a_file_is_no_socket() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("file");
    std::fs::write(&path, "keep me").expect("written");
    let said = complaint(&["stats", "--socket", name(&path)]);
    assert!(said.contains("nobody answers"), "{said}");
    assert_eq!(std::fs::read(&path).expect("still there"), b"keep me");
}
