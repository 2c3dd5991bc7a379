//! One process owns a volume, others map its files: rights of several users, what a reader cannot do, deaths on both sides.
//!
//! The test runs itself again as its clients, as other users if it is root.

mod attacks;
mod descriptors;
mod faults;
mod memory;
mod messages;
mod names;
mod raw;
mod rights;
mod victim;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use aquifer_device::MemoryDevice;
use aquifer_volume::medium::DeviceMedium;
use aquifer_volume::serve::protocol::open;
use aquifer_volume::serve::{Client, RemoteMapping, listen_at, serve, stop_listening};
use aquifer_volume::{Depth, Ino, Kind, OpenOptions, PAGE_BYTES, Protection, Volume, VolumeError};

const PAGES: usize = 2000;
/// What a child is asked to do: name of the role, socket and arguments, separated by '|'.
const ROLE: &str = "AQUIFER_TEST_ROLE";

/// What takes longer hangs.
const TOO_LONG: Duration = Duration::from_secs(60);

struct Rig {
    volume: Arc<Volume>,
    socket: PathBuf,
    listening: Arc<std::os::fd::OwnedFd>,
    /// Says when the server has ended.
    ended: Receiver<()>,
    _folder: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let device = Arc::new(MemoryDevice::new(64 << 20, 4096));
        let medium = || Box::new(DeviceMedium::new(Arc::clone(&device), 128).expect("medium"));
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Volume::create(medium(), owner).expect("create");
        let options = OpenOptions { ram_bytes: 3 << 20, is_read_only: false };
        let volume = Arc::new(Volume::open(medium(), options).expect("open"));
        let folder = tempfile::tempdir().expect("folder");
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("mode");
        let socket = folder.path().join("volume.sock");
        let listening = Arc::new(listen_at(&socket).expect("listen"));
        let (served, on) = (Arc::clone(&volume), Arc::clone(&listening));
        let (says, ended) = channel();
        std::thread::spawn(move || {
            serve(&served, &on).expect("serve");
            drop(served);
            says.send(()).expect("the test waits");
        });
        Rig { volume, socket, listening, ended, _folder: folder }
    }

    fn file(&self, name: &str, mode: u16, uid: u32, gid: u32) -> Ino {
        let ino =
            self.volume.make(Ino::ROOT_FOLDER, name.as_bytes(), Kind::File, mode, uid, gid).expect("make");
        self.volume.truncate(ino, (PAGES * PAGE_BYTES) as u64).expect("truncate");
        self.volume.write(ino, 0, b"first").expect("write");
        ino
    }

    /// Runs this test again in a role.
    fn child(&self, user: (u32, u32), role: &str, arguments: &[&str]) -> Child {
        let mut parts = vec![role, self.socket.to_str().expect("a path")];
        parts.extend(arguments);
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command.args(["--exact", "role_of_a_child", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, parts.join("|")).stdout(Stdio::piped());
        if is_root() {
            command.uid(user.0).gid(user.1);
        }
        command.spawn().expect("a child")
    }

    fn run(&self, user: (u32, u32), role: &str, arguments: &[&str]) -> String {
        let output = self.child(user, role, arguments).wait_with_output().expect("a child");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = text.lines().find_map(|line| line.split_once("SAYS ")).map(|(_, said)| said.to_owned());
        said.unwrap_or_else(|| panic!("{role} {arguments:?} as {user:?}: {:?}\n{text}", output.status))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        stop_listening(&self.listening);
        // A test that has failed says why.
        if !std::thread::panicking() {
            self.ended.recv_timeout(TOO_LONG).expect("the server ends");
        }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Other users than root exist for a test only if it is root.
fn skip_unless_root(what: &str) -> bool {
    if !is_root() {
        eprintln!("SKIP {what}: other users need root");
    }
    !is_root()
}

fn check(volume: &Volume) {
    let findings = volume.check(Depth::Contents, |_, _| ()).expect("check");
    assert!(findings.problems.is_empty(), "{:#?}", findings.problems);
}

/// As [`check`], when the owner may still be busy with what a client wanted before it died: a page that comes between the walk and the
/// look at its file is counted by one of the two. What is wrong stays wrong.
fn check_settled(volume: &Volume) {
    let findings = volume.check(Depth::Contents, |_, _| ()).expect("check");
    if !findings.problems.is_empty() {
        check(volume);
    }
}

fn load(mapping: &RemoteMapping, at: usize) -> u8 {
    assert!(at < mapping.len());
    // SAFETY: inside of the mapping.
    unsafe { mapping.as_ptr().add(at).read_volatile() }
}

fn store(mapping: &RemoteMapping, at: usize, value: u8) {
    assert!(at < mapping.len());
    // SAFETY: inside of the mapping, of which nobody holds a reference.
    unsafe { mapping.as_ptr().add(at).write_volatile(value) }
}

fn outcome<T>(result: Result<T, VolumeError>) -> Result<T, String> {
    result.map_err(|error| match error.errno() {
        libc::EACCES => "denied".to_owned(),
        _ => format!("{error}"),
    })
}

/// Does nothing, unless this process is a child of another test.
#[test]
fn role_of_a_child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let parts: Vec<&str> = role.split('|').collect();
    let client = Client::connect(Path::new(parts[1])).expect("connect");
    let said = match parts[0] {
        "map" => map(&client, parts[2], parts[3]).unwrap_or_else(|error| error),
        "attack" => attack(&client, parts[2]),
        "lie" => attacks::lie(Path::new(parts[1]), parts[2]),
        "write by faults" => attacks::write_by_faults(Path::new(parts[1]), parts[2]),
        "link" => rights::link(&client, parts[2]),
        "give up" => faults::give_up(Path::new(parts[1]), parts[2]),
        "come and go" => faults::come_and_go(Path::new(parts[1]), parts[2]),
        "leave a child" => faults::leave_a_child(Path::new(parts[1]), parts[2]),
        "few descriptors" => descriptors::few_descriptors(),
        "stand still" => faults::stand_still(Path::new(parts[1]), parts[2]),
        "store" => store_until_killed(&client, parts[2]),
        "outlive" => outlive(&client, parts[2]),
        other => panic!("no role {other}"),
    };
    println!("SAYS {said}");
    // Mappings of a dead owner cannot be given back.
    std::process::exit(0);
}

/// Opens and maps a file: 'r', 'w' or 'rw', and the mapping 'r', 'w' or 'p'.
fn map(client: &Arc<Client>, path: &str, how: &str) -> Result<String, String> {
    let (flags, protection) = how.split_once('/').expect("flags and protection");
    let bits = |letter: char| if letter == 'r' { open::READ } else { open::WRITE };
    let file =
        outcome(client.open(path.as_bytes(), flags.chars().map(bits).fold(0, |all, bit| all | bit), 0))?;
    let protection = match protection {
        "r" => Protection::Read,
        "w" => Protection::Write,
        _ => Protection::CopyOnWrite,
    };
    let mapping = outcome(file.map(0, PAGES * PAGE_BYTES, protection))?;
    let first = load(&mapping, 0);
    if protection != Protection::Read {
        store(&mapping, PAGE_BYTES, b'!');
        assert_eq!(load(&mapping, PAGE_BYTES), b'!');
    }
    Ok(format!("mapped {}", first as char))
}

#[test]
fn who_may_map_what_and_how() {
    if skip_unless_root("who_may_map_what_and_how") {
        return;
    }
    let rig = Rig::new();
    for (name, mode) in [("600", 0o600), ("640", 0o640), ("444", 0o444), ("662", 0o662), ("060", 0o060)] {
        rig.file(name, mode, 1001, 2001);
    }
    let (owner, member, stranger) = ((1001, 3000), (1002, 2001), (1003, 3000));
    let (yes, no) = ("mapped f", "denied");
    for (file, user, how, expected) in [
        ("600", owner, "r/r", yes),
        ("600", owner, "rw/w", yes),
        ("600", owner, "r/w", no),
        ("600", owner, "r/p", yes),
        ("600", owner, "w/w", no),
        ("600", member, "r/r", no),
        ("600", stranger, "r/r", no),
        ("640", owner, "rw/w", yes),
        ("640", member, "r/r", yes),
        ("640", member, "rw/w", no),
        ("640", member, "r/p", yes),
        ("640", stranger, "r/r", no),
        ("444", owner, "rw/w", no),
        ("444", stranger, "r/r", yes),
        ("444", stranger, "r/w", no),
        ("662", stranger, "w/r", no),
        ("662", stranger, "rw/w", no),
        ("662", member, "rw/r", yes),
        ("060", owner, "r/r", no),
        ("060", member, "rw/w", yes),
    ] {
        assert_eq!(rig.run(user, "map", &[file, how]), expected, "{file} by {user:?} as {how}");
    }
    let mut bytes = [0; 1];
    for (file, expected) in [("600", b'!'), ("640", b'!'), ("444", 0), ("060", b'!')] {
        let ino = rig.volume.lookup(Ino::ROOT_FOLDER, file.as_bytes()).expect("lookup");
        rig.volume.read(ino, PAGE_BYTES as u64, &mut bytes).expect("read");
        assert_eq!(bytes[0], expected, "what was stored through {file}, and not through private mappings");
    }
    check(&rig.volume);
}

/// Tries to change a file that is open for reading alone. Says what the kernel let it do.
fn attack(client: &Arc<Client>, path: &str) -> String {
    let file = client.open(path.as_bytes(), open::READ, 0).expect("open");
    let mapping = file.map(0, PAGES * PAGE_BYTES, Protection::Read).expect("map");
    assert_eq!(load(&mapping, 0), b'f');
    let memory = file.memory().expect("memory");
    let descriptor = memory.raw_fd();
    let mut done = Vec::new();
    let mut attempt = |name: &str, succeeded: bool| done.push(format!("{name}={}", u8::from(succeeded)));
    let base = mapping.as_ptr();
    attempt("write", memory.write_at(0, b"X").is_ok());
    attempt("map", memory.map(0, PAGE_BYTES, Protection::Write).is_ok());
    attempt("punch", memory.punch(0, PAGE_BYTES as u64).is_ok());
    attempt(
        "open",
        std::fs::OpenOptions::new().write(true).open(format!("/proc/self/fd/{descriptor}")).is_ok(),
    );
    attempt("truncate", memory.set_mode(0o666).is_ok());
    // A store through /proc/self/mem and one after mprotect are possible: they go to a copy of this process.
    let own = std::fs::OpenOptions::new().write(true).open("/proc/self/mem").expect("own memory");
    let _ = std::os::unix::fs::FileExt::write_at(&own, b"X", base as u64);
    // SAFETY: the range is this process's mapping; nobody holds references into it.
    let is_writable = unsafe {
        rustix::mm::mprotect(
            base.cast(),
            PAGE_BYTES,
            rustix::mm::MprotectFlags::READ | rustix::mm::MprotectFlags::WRITE,
        )
    };
    if is_writable.is_ok() {
        store(&mapping, 1, b'X');
    }
    attempt("second", file.map(0, PAGE_BYTES, Protection::Write).is_ok());
    done.join(" ")
}

#[test]
fn a_reader_cannot_write_by_any_means() {
    if skip_unless_root("a_reader_cannot_write_by_any_means") {
        return;
    }
    let rig = Rig::new();
    let ino = rig.file("file", 0o644, 1001, 1001);
    let said = rig.run((1002, 1002), "attack", &["file"]);
    assert_eq!(said, "write=0 map=0 punch=0 open=0 truncate=0 second=0");
    let mut bytes = [0; 5];
    rig.volume.read(ino, 0, &mut bytes).expect("read");
    assert_eq!(&bytes, b"first");
    rig.volume.sync().expect("sync");
    check(&rig.volume);
}

/// Stores a counter to every page, again and again, and syncs; says nothing, because it is killed.
fn store_until_killed(client: &Arc<Client>, path: &str) -> String {
    let file = client.open(path.as_bytes(), open::READ | open::WRITE, 0).expect("open");
    let mapping = file.map(0, PAGES * PAGE_BYTES, Protection::Write).expect("map");
    for round in 1..=255u8 {
        for page in 0..PAGES {
            store(&mapping, page * PAGE_BYTES + 9, round);
        }
        client.sync().expect("sync");
        // The parent waits for this line, and then finds the file.
        println!("ROUND {round}");
    }
    "done".into()
}

#[test]
fn clients_die_at_any_moment() {
    let rig = Rig::new();
    let ino = rig.file("file", 0o666, 0, 0);
    for round in 0..6 {
        let mut child = rig.child((1001, 1001), "store", &["file"]);
        std::thread::sleep(Duration::from_millis(40 * round));
        child.kill().expect("kill");
        child.wait().expect("wait");
        rig.volume.sync().expect("sync");
        check_settled(&rig.volume);
        let mut bytes = [0; 1];
        for page in 0..PAGES as u64 {
            rig.volume.read(ino, page * PAGE_BYTES as u64 + 9, &mut bytes).expect("read");
        }
    }
    assert_eq!(rig.run((1001, 1001), "map", &["file", "rw/w"]), "mapped f");
}

/// Waits until the owner is gone: then accesses raise SIGBUS, and calls fail.
fn outlive(client: &Arc<Client>, path: &str) -> String {
    let file = client.open(path.as_bytes(), open::READ | open::WRITE, 0).expect("open");
    let mapping = file.map(0, PAGES * PAGE_BYTES, Protection::Write).expect("map");
    store(&mapping, 0, b'g');
    println!("READY");
    while client.sync().is_ok() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // The connection has ended; the memory is taken away by a thread of the client.
    for _ in 0..10_000 {
        assert_eq!(load(&mapping, 0), b'g', "wrong data instead of SIGBUS");
        std::thread::sleep(Duration::from_millis(1));
    }
    "still reads".into()
}

#[test]
fn an_owner_that_dies_leaves_an_error() {
    let rig = Rig::new();
    rig.file("file", 0o666, 0, 0);
    let mut child = rig.child((1001, 1001), "outlive", &["file"]);
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().expect("stdout")));
    assert!(lines.any(|line| line.expect("line").contains("READY")));
    drop(rig);
    let status = child.wait().expect("wait");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGBUS), "{status:?}");
}

#[test]
fn several_clients_share_frames() {
    let rig = Rig::new();
    let ino = rig.file("file", 0o666, 0, 0);
    let clients: Vec<_> = (0..3).map(|_| Client::connect(&rig.socket).expect("connect")).collect();
    let files: Vec<_> = clients
        .iter()
        .map(|client| client.open(b"file", open::READ | open::WRITE, 0).expect("open"))
        .collect();
    let maps: Vec<_> =
        files.iter().map(|file| file.map(0, PAGES * PAGE_BYTES, Protection::Write).expect("map")).collect();
    std::thread::scope(|scope| {
        for (nth, mapping) in maps.iter().enumerate() {
            scope.spawn(move || {
                for page in 0..PAGES {
                    store(mapping, page * PAGE_BYTES + 100 + nth, page as u8 ^ nth as u8);
                }
            });
        }
    });
    for mapping in &maps {
        for page in 0..PAGES {
            for nth in 0..maps.len() {
                assert_eq!(load(mapping, page * PAGE_BYTES + 100 + nth), page as u8 ^ nth as u8);
            }
        }
    }
    let mut bytes = [0; 3];
    files[0].read(100, &mut bytes).expect("read");
    assert_eq!(bytes, [0, 1, 2]);
    assert_eq!(files[0].stat().expect("stat"), (ino, rig.volume.inode(ino).expect("inode")));
    drop(maps);
    rig.volume.sync().expect("sync");
    check(&rig.volume);
}

#[test]
fn senseless_messages_are_refused_and_others_served() {
    use std::io::IoSlice;
    let rig = Rig::new();
    rig.file("file", 0o666, 0, 0);
    let mut dice = 88_172_645_463_325_252u64;
    let mut next = || {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        dice
    };
    for _ in 0..300 {
        let socket = rustix::net::socket_with(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )
        .expect("socket");
        let address = rustix::net::SocketAddrUnix::new(&rig.socket).expect("address");
        rustix::net::connect(&socket, &address).expect("connect");
        let hello = aquifer_volume::serve::protocol::Request {
            a: aquifer_volume::serve::protocol::VERSION,
            ..aquifer_volume::serve::protocol::Request::new(
                aquifer_volume::serve::protocol::Operation::Hello,
                0,
            )
        };
        let mut packets = vec![hello.encode()];
        for _ in 0..5 {
            let mut packet = hello.encode();
            packet[4] = (next() % 26) as u8;
            for byte in &mut packet[8..] {
                if next() % 2 == 0 {
                    *byte = next() as u8;
                }
            }
            packet.extend((0..next() % 40).map(|at| at as u8));
            packet.truncate(packet.len() - (next() % 8) as usize);
            packets.push(packet);
        }
        for packet in packets {
            let space = &mut rustix::net::SendAncillaryBuffer::default();
            let sent = rustix::net::sendmsg(
                &socket,
                &[IoSlice::new(&packet)],
                space,
                rustix::net::SendFlags::NOSIGNAL,
            );
            assert!(sent.is_ok(), "{sent:?}");
            let mut answer = [0; 1024];
            let (got, _) =
                rustix::net::recv(&socket, &mut answer, rustix::net::RecvFlags::empty()).expect("an answer");
            assert!(got > 0);
        }
    }
    assert_eq!(rig.run((0, 0), "map", &["file", "rw/w"]), "mapped f");
    check(&rig.volume);
}
