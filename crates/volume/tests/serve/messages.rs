//! Clients that do not keep to the messages: lengths, orders, handles and paths that are not so, and answers that nobody reads.

use std::os::fd::AsFd;

use aquifer_volume::serve::protocol::{APPEND_BYTES_MAX, OPERATIONS, Operation, PAYLOAD_BYTES_MAX, Request};
use rustix::net::SendFlags;

use super::raw::Raw;
use super::victim::{Victim, in_time};
use super::*;

const READ_WRITE: u64 = open::READ | open::WRITE;

#[test]
fn packets_of_any_length_are_refused_or_end_the_connection() {
    let rig = Rig::new();
    let mut victim = Victim::new(&rig);
    let whole = Request { bytes: &[7; PAYLOAD_BYTES_MAX], ..Request::new(Operation::Append, 1) }.encode();
    let mut longer = whole.clone();
    longer.resize(127 << 10, 7);
    for len in [0, 1, 4, 35, 36, 37, whole.len(), whole.len() + 1, 100 << 10, 127 << 10] {
        let raw = Raw::connect(&rig.socket);
        assert!(raw.send(&longer[..len], &[]));
        assert!(raw.receive().is_none_or(|(answer, _)| answer.errno != 0), "{len} bytes");
    }
    longer.resize(140 << 10, 7);
    let raw = Raw::connect(&rig.socket);
    if raw.send(&longer, &[]) {
        assert!(raw.receive().is_none(), "more than a packet can have");
    }
    victim.go_on();
    victim.end(&rig);
}

/// A client that asks and asks, and reads no answer: it waits, and nobody else does.
#[test]
fn answers_that_nobody_reads_stop_nobody() {
    let rig = Rig::new();
    rig.volume.write(rig.file("file", 0o644, 0, 0), 0, &[5; 100_000]).expect("write");
    let mut victim = Victim::new(&rig);
    let mut waiting = Vec::new();
    for _ in 0..20 {
        let raw = Raw::connect(&rig.socket);
        let handle = raw.open("file", open::READ);
        let read = Request { b: PAYLOAD_BYTES_MAX as u64, ..Request::new(Operation::Read, handle) }.encode();
        while rustix::net::send(raw.as_fd(), &read, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).is_ok() {}
        waiting.push(raw);
        victim.go_on();
    }
    victim.end(&rig);
    // The server ends while they are there.
    drop(rig);
    drop(waiting);
}

#[test]
fn connections_that_end_in_the_middle_leave_nothing() {
    let rig = Rig::new();
    let ino = rig.file("file", 0o666, 0, 0);
    let mut victim = Victim::new(&rig);
    for round in 0..100u8 {
        let raw = Raw::connect(&rig.socket);
        let handle = raw.open("file", READ_WRITE);
        let request =
            |operation, a| Request { a, b: 70, bytes: &[9; 30_000], ..Request::new(operation, handle) };
        let half = request(Operation::Append, 1).encode();
        for packet in [&half, &request(Operation::Write, 1 << 20).encode(), &half, &half] {
            raw.send(packet, &[]);
        }
        if round % 2 == 0 {
            rustix::net::shutdown(raw.as_fd(), rustix::net::Shutdown::Both).expect("shutdown");
        }
        drop(raw);
    }
    victim.go_on();
    assert_eq!(rig.volume.inode(ino).expect("inode").size_bytes, (PAGES * PAGE_BYTES) as u64, "half a step");
    victim.end(&rig);
}

#[test]
fn a_handle_is_of_one_connection() {
    let rig = Rig::new();
    rig.file("file", 0o666, 0, 0);
    let victim = Victim::new(&rig);
    let (owner, thief) = (Raw::connect(&rig.socket), Raw::connect(&rig.socket));
    let handle = owner.open("file", READ_WRITE);
    for operation in OPERATIONS.into_iter().filter(|operation| *operation as u16 > 2) {
        for handle in [0, 1, 2, 3, handle, u32::MAX] {
            let errno = thief.errno_of(operation, handle);
            let of_handle = matches!(
                operation,
                Operation::Close
                    | Operation::Read
                    | Operation::Write
                    | Operation::Stat
                    | Operation::Truncate
                    | Operation::Pages
                    | Operation::Attach
                    | Operation::Detach
                    | Operation::Append
                    | Operation::Punch
                    | Operation::List
            );
            assert!(!of_handle || errno == libc::EBADF, "{operation:?} of {handle}: {errno}");
        }
    }
    assert_eq!(owner.errno_of(Operation::Stat, handle), 0);
    assert_eq!(
        (owner.errno_of(Operation::Close, handle), owner.errno_of(Operation::Close, handle)),
        (0, libc::EBADF)
    );
    victim.end(&rig);
}

#[test]
fn paths_lead_nowhere_else() {
    let rig = Rig::new();
    let mut victim = Victim::new(&rig);
    let raw = Raw::connect(&rig.socket);
    let long = [b'x'; PAYLOAD_BYTES_MAX];
    let deep = [&b"a/../"[..]; 10_000].concat();
    let paths: [&[u8]; 10] = [
        b"",
        b"\0",
        b"victim\0",
        b"/etc/passwd",
        b"../../../etc/passwd",
        b"..\0/..",
        &long,
        &long[..300],
        &deep,
        b"no/../victim",
    ];
    let by_path = [
        Operation::Open,
        Operation::MakeFolder,
        Operation::Remove,
        Operation::Rename,
        Operation::StatPath,
        Operation::Link,
        Operation::Symlink,
        Operation::ReadLink,
    ];
    for operation in by_path {
        for path in paths {
            for a in [0, 1, path.len() as u64, u64::MAX] {
                let request = Request { a, bytes: path, ..Request::new(operation, 0) };
                let (answer, _) = raw.ask(&request, None);
                assert_ne!(
                    answer.errno,
                    0,
                    "{operation:?} {a} {}",
                    String::from_utf8_lossy(&path[..path.len().min(30)])
                );
            }
        }
    }
    victim.go_on();
    victim.end(&rig);
}

/// A hundred thousand handles: some are opened, the others refused with a number that programs know.
#[test]
fn a_user_has_so_many_handles() {
    let rig = Rig::new();
    rig.file("file", 0o644, 0, 0);
    let mut victim = Victim::new(&rig);
    let raws: Vec<Raw> = (0..25).map(|_| Raw::connect(&rig.socket)).collect();
    let (mut opened, mut refused) = (0, 0);
    for raw in &raws {
        for _ in 0..4000 {
            match raw.try_open(b"file", open::READ).errno.cast_signed() {
                0 => opened += 1,
                errno => {
                    assert!([libc::EMFILE, libc::EDQUOT].contains(&errno), "{errno}");
                    refused += 1;
                    break;
                }
            }
        }
    }
    assert!(refused > 0 && opened <= HANDLES_OF_USER_MAX, "{opened} are open, {refused} were refused");
    victim.go_on();
    let files = rig.volume.space().expect("space").files;
    drop(raws);
    in_time("their end", || {
        while Raw::connect(&rig.socket).try_open(b"file", open::READ).errno != 0 {
            std::thread::yield_now();
        }
    });
    assert_eq!(rig.volume.space().expect("space").files, files);
    victim.end(&rig);
}

/// What all programs of a user may have open.
const HANDLES_OF_USER_MAX: usize = 32 << 10;

/// Files that are removed and held open: they go when their holder does, also if there are many.
#[test]
fn removed_files_that_are_held_go_with_their_holder() {
    let rig = Rig::new();
    let mut victim = Victim::new(&rig);
    let files = rig.volume.space().expect("space").files;
    let raw = Raw::connect(&rig.socket);
    for nth in 0..4000 {
        let name = format!("{nth}").into_bytes();
        assert_eq!(raw.try_open(&name, READ_WRITE | open::CREATE).errno, 0);
        let (answer, _) = raw.ask(&Request { bytes: &name, ..Request::new(Operation::Remove, 0) }, None);
        assert_eq!(answer.errno, 0);
    }
    victim.go_on();
    drop(raw);
    in_time("the end of nameless files", || {
        while rig.volume.space().expect("space").files > files {
            std::thread::yield_now();
        }
    });
    victim.end(&rig);
}

/// Steps that append are kept until their last bytes come: for all programs of a user as much as a few steps have.
#[test]
fn halves_of_steps_take_bounded_ram() {
    let rig = Rig::new();
    rig.file("file", 0o666, 0, 0);
    let victim = Victim::new(&rig);
    let raws: Vec<Raw> = (0..40).map(|_| Raw::connect(&rig.socket)).collect();
    let mut kept = 0;
    for raw in &raws {
        let handle = raw.open("file", READ_WRITE);
        let piece =
            Request { a: 1, bytes: &[1; PAYLOAD_BYTES_MAX], ..Request::new(Operation::Append, handle) };
        for _ in 0..APPEND_BYTES_MAX / PAYLOAD_BYTES_MAX {
            let (answer, _) = raw.ask(&piece, None);
            if answer.errno != 0 {
                assert_eq!(answer.errno.cast_signed(), libc::EDQUOT);
                break;
            }
            kept += PAYLOAD_BYTES_MAX;
        }
    }
    assert!(kept <= 8 * APPEND_BYTES_MAX, "{kept} bytes are kept");
    victim.end(&rig);
}
