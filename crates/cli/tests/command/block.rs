//! `aquifer block`: that it serves, says where, and ends in order. What it serves is tested in its crate.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{command, name, run, text};

/// The running command, and the first line that it said. It ends when this is dropped.
struct Serving {
    child: Child,
    line: String,
}

impl Serving {
    fn start(arguments: &[&str]) -> Self {
        let arguments = [&["block", "--size", "1M"], arguments].concat();
        let mut child = command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Serving { child, line }
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends it by a signal; what it said on standard error.
    fn end(self, signal: Signal) -> String {
        self.send(signal);
        self.ended()
    }

    /// Waits for its end in order; what it said on standard error.
    fn ended(mut self) -> String {
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{said}");
        said
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether NBD can be served here; if not, that is said.
fn has_nbdkit() -> bool {
    let beside = Path::new(env!("CARGO_BIN_EXE_aquifer")).with_file_name("libaquifer_nbdkit.so");
    let why = match (aquifer_block::nbdkit::program(), beside.exists()) {
        (None, _) => "nbdkit is not installed (Debian package nbdkit)",
        (_, false) => "the plugin is not built (cargo build -p aquifer-nbdkit)",
        (Some(_), true) => return true,
    };
    println!("SKIP {why}");
    false
}

/// The last line that it says of arguments with which it cannot serve. Warnings may stand before it.
fn refusal(arguments: &[&str]) -> String {
    let output = run(&[&["block", "--size", "1M"], arguments].concat());
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "");
    text(&output.stderr).lines().last().unwrap_or_default().to_owned()
}

fn is_greeted(stream: &mut impl Read) -> bool {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).is_ok() && greeting.starts_with(b"NBDMAGIC")
}

#[test]
fn it_serves_at_a_port_and_ends_by_signals() {
    if !has_nbdkit() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for signal in [Signal::TERM, Signal::INT] {
        let path = folder.path().join("device");
        let serving = Serving::start(&["--flash", name(&path), "--listen", "0"]);
        let (_, address) = serving.line.trim().split_once(" (1 MiB) is served at nbd://").unwrap();
        assert!(address.starts_with("127.0.0.1:"), "{address}");
        let mut stream = TcpStream::connect(address).unwrap();
        assert!(is_greeted(&mut stream));
        let taken = folder.path().join("other");
        let said = refusal(&["--flash", name(&taken), "--listen", address]);
        assert!(said.contains("name another address or port"), "{said}");
        let said = refusal(&["--flash", name(&path), "--listen", "0"]);
        assert!(said.contains("is in use"), "{said}");
        assert!(serving.end(signal).contains("connections are closed"));
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    }
}

#[test]
fn it_serves_at_a_socket_which_goes() {
    if !has_nbdkit() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    // A folder: the file has no name.
    let serving = Serving::start(&["--flash", name(folder.path()), "--listen", name(&socket)]);
    assert!(serving.line.contains("nbd+unix:///?socket="), "{}", serving.line);
    assert!(is_greeted(&mut std::os::unix::net::UnixStream::connect(&socket).unwrap()));
    let said = refusal(&["--flash", name(folder.path()), "--listen", name(&socket)]);
    assert!(said.contains("somebody serves"), "{said}");
    serving.end(Signal::TERM);
    assert!(!socket.exists());
}

/// `timeout` sends its signal to the process and to its group.
#[test]
fn signals_in_quick_succession_are_one() {
    if !has_nbdkit() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    for _ in 0..10 {
        let serving = Serving::start(&["--flash", name(&path), "--listen", "0"]);
        let (_, address) = serving.line.trim().split_once("nbd://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        assert!(is_greeted(&mut stream));
        // Both wait for the process.
        for signal in [Signal::STOP, Signal::TERM, Signal::INT, Signal::CONT] {
            serving.send(signal);
        }
        assert!(serving.ended().contains("connections are closed"));
    }
}

#[test]
fn it_says_when_it_serves_a_part_only() {
    if !has_nbdkit() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    let said = Serving::start(&["--flash", name(&path), "--listen", "0"]).end(Signal::TERM);
    assert_eq!(said, "", "a new file has no rest");
    std::fs::File::options().write(true).open(&path).unwrap().set_len(3 << 20).unwrap();
    let said = Serving::start(&["--flash", name(&path), "--listen", "0"]).end(Signal::TERM);
    assert!(said.contains("has 3 MiB, of which only the first 1 MiB are served"), "{said}");
    assert!(said.contains("the size of all of it is 3145728"), "{said}");
}

/// Precautions for swap are no matter of a server to which nobody swaps.
#[test]
fn nobody_is_warned_who_does_not_swap() {
    if !has_nbdkit() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let serving = Serving::start(&["--flash", name(folder.path()), "--listen", "0"]);
    assert_eq!(serving.end(Signal::TERM), "");
}

#[test]
fn an_address_that_others_reach_needs_tls() {
    let folder = tempfile::tempdir().unwrap();
    let flash = folder.path().join("device");
    let said = refusal(&["--flash", name(&flash), "--listen", "0.0.0.0:0"]);
    assert!(said.contains("--tls") && said.contains("--without-tls"), "{said}");
    assert!(!flash.exists());
    if !has_nbdkit() {
        return;
    }
    let nowhere = folder.path().join("nowhere");
    let said = refusal(&["--flash", name(&flash), "--listen", "0", "--tls", "--cluster", name(&nowhere)]);
    assert!(said.contains("aquifer cluster join"), "{said}");
    let serving = Serving::start(&["--flash", name(&flash), "--listen", "0.0.0.0:0", "--without-tls"]);
    assert!(serving.line.contains("nbd://0.0.0.0:"), "{}", serving.line);
    assert!(serving.end(Signal::TERM).contains("whoever reaches"));
}

#[test]
fn with_tls_it_says_so_in_its_address() {
    if !has_nbdkit() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (cluster, host) = (folder.path().join("cluster"), folder.path().join("host"));
    assert!(run(&["cluster", "init", name(&cluster)]).status.success());
    let joined = run(&["cluster", "join", name(&cluster), "alpha", "--into", name(&host)]);
    assert!(joined.status.success(), "{}", text(&joined.stderr));
    let flash = folder.path().join("device");
    let serving = Serving::start(&[
        "--flash",
        name(&flash),
        "--listen",
        "0.0.0.0:0",
        "--tls",
        "--cluster",
        name(&host),
    ]);
    let (_, port) = serving.line.trim().split_once("is served at nbds://0.0.0.0:").unwrap();
    assert!(is_greeted(&mut TcpStream::connect(format!("127.0.0.1:{port}")).unwrap()));
    serving.end(Signal::TERM);
}

#[test]
fn what_cannot_be_served_is_said_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no/device");
    if has_nbdkit() {
        let said = refusal(&["--flash", name(&missing), "--listen", "0"]);
        assert!(said.contains("create the folder"), "{said}");
        let said = refusal(&["--flash", name(folder.path()), "--listen", name(folder.path())]);
        assert!(said.contains("cannot be made"), "{said}");
    }
    let said = refusal(&["--flash", name(folder.path()), "--fuse", name(&folder.path().join("nowhere"))]);
    let may_use_fuse = std::fs::File::options().read(true).write(true).open("/dev/fuse").is_ok();
    assert!(said.contains(if may_use_fuse { "name an empty folder" } else { "/dev/fuse" }), "{said}");
    if !Path::new("/dev/ublk-control").exists() {
        let said = refusal(&["--flash", name(folder.path()), "--ublk"]);
        assert!(said.contains("modprobe ublk_drv"), "{said}");
    }
}

#[test]
fn without_nbdkit_it_says_how_to_get_it() {
    let folder = tempfile::tempdir().unwrap();
    let flash = folder.path().join("device");
    let arguments = ["block", "--size", "1M", "--flash", name(&flash), "--listen", "0"];
    let output = command(&arguments).env("PATH", folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("apt-get install nbdkit") && said.contains("--ublk"), "{said}");
    assert!(!flash.exists());
}

/// Nobody else ends nbdkit when the command is killed.
#[test]
fn nbdkit_ends_with_the_command() {
    if !has_nbdkit() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    let serving = Serving::start(&["--flash", name(&path), "--listen", "0"]);
    let (_, address) = serving.line.trim().split_once("nbd://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    assert!(is_greeted(&mut stream));
    let address = address.to_owned();
    // Its drop kills.
    drop(serving);
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    while TcpStream::connect(&address).is_ok() {
        std::thread::yield_now();
    }
}

#[test]
fn faults_are_filters() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    let arguments = ["--flash", name(&path), "--listen", "0", "--fault"];
    let output = run(&[&["block", "--size", "1M"], &arguments[..], &["flood=1s"]].concat());
    assert!(text(&output.stderr).contains("a fault is delay=20ms"), "{}", text(&output.stderr));
    if has_nbdkit() {
        let serving = Serving::start(&[&arguments[..], &["errors=100%,delay=1ms,rate=10M"]].concat());
        assert_eq!(serving.end(Signal::TERM), "");
    }
}

#[test]
fn a_file_needs_a_size() {
    let folder = tempfile::tempdir().expect("a folder");
    let flash = folder.path().join("flash");
    let said = super::complaint(&["block", "--flash", name(&flash), "--listen", "0"]);
    assert!(said.contains("--size"), "{said}");
    assert!(!flash.exists());
}
