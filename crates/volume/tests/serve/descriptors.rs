//! Clients that send descriptors which nobody asked for, and such as are hard to get rid of.

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};

use aquifer_volume::serve::protocol::{Operation, PAYLOAD_BYTES_MAX, Request};

use super::raw::Raw;
use super::victim::{Victim, in_time};
use super::*;

/// Both ends of a pipe: the first one ends when all copies of the second are closed.
fn pipe() -> (std::io::PipeReader, OwnedFd) {
    let (reader, writer) = std::io::pipe().expect("pipe");
    (reader, writer.into())
}

fn assert_closed(mut reader: std::io::PipeReader) {
    in_time("the server closes what it does not need", move || {
        assert_eq!(reader.read(&mut [0]).expect("read"), 0);
    });
}

fn attach(handle: u32) -> Vec<u8> {
    Request { a: 4096, b: 1, ..Request::new(Operation::Attach, handle) }.encode()
}

#[test]
fn a_view_without_a_userfaultfd_is_refused() {
    let rig = Rig::new();
    rig.file("file", 0o644, 0, 0);
    let mut victim = Victim::new(&rig);
    let (reader, writer) = pipe();
    let folder = std::fs::File::open("/proc").expect("a folder");
    let socket = std::os::unix::net::UnixDatagram::unbound().expect("socket");
    let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).expect("eventfd");
    let epoll = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::empty()).expect("epoll");
    let memory = rustix::fs::memfd_create(c"anon_inode:[userfaultfd]", rustix::fs::MemfdFlags::empty())
        .expect("memory");
    for descriptor in
        [writer.as_fd(), folder.as_fd(), socket.as_fd(), event.as_fd(), epoll.as_fd(), memory.as_fd()]
    {
        let raw = Raw::connect(&rig.socket);
        let handle = raw.open("file", open::READ);
        assert!(raw.send(&attach(handle), &[descriptor]));
        let answer = raw.receive();
        assert!(answer.is_none_or(|(answer, _)| answer.errno != 0), "this is no userfaultfd");
        victim.go_on();
    }
    drop(writer);
    assert_closed(reader);
    victim.end(&rig);
}

#[test]
fn many_descriptors_beside_a_message_are_closed() {
    let rig = Rig::new();
    rig.file("file", 0o644, 0, 0);
    let mut victim = Victim::new(&rig);
    for count in [2, 5, 253] {
        let (reader, writer) = pipe();
        let raw = Raw::connect(&rig.socket);
        let handle = raw.open("file", open::READ);
        assert!(raw.send(&attach(handle), &vec![writer.as_fd(); count]));
        drop(writer);
        assert_closed(reader);
        victim.go_on();
    }
    victim.end(&rig);
}

#[test]
fn descriptors_beside_messages_that_want_none_are_closed() {
    let rig = Rig::new();
    rig.file("file", 0o644, 0, 0);
    let victim = Victim::new(&rig);
    let (reader, writer) = pipe();
    for operation in aquifer_volume::serve::protocol::OPERATIONS {
        let raw = Raw::connect(&rig.socket);
        raw.send(&Request::new(operation, 1).encode(), &[writer.as_fd()]);
        raw.receive();
    }
    drop(writer);
    assert_closed(reader);
    victim.end(&rig);
}

/// A connection whose end waits for a peer that reads nothing: to close the last descriptor of it takes as long as its sender wishes.
#[test]
fn a_descriptor_that_takes_long_to_close_keeps_no_server_from_ending() {
    const ANSWERS: usize = 8;
    let rig = Rig::new();
    rig.volume.write(rig.file("file", 0o644, 0, 0), 0, &[5; PAYLOAD_BYTES_MAX]).expect("write");
    let victim = Victim::new(&rig);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let sender = std::net::TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
    sender.set_nonblocking(true).expect("nonblocking");
    while std::io::Write::write(&mut &sender, &[0; 65536]).is_ok() {}
    let forever = Some(Duration::from_secs(3600));
    rustix::net::sockopt::set_socket_linger(&sender, forever).expect("linger");
    sender.set_nonblocking(false).expect("blocking");
    let raw = Raw::connect(&rig.socket);
    let handle = raw.open("file", open::READ);
    // The server waits for its answers to be read, so that ours is not the last copy.
    let read = Request { b: PAYLOAD_BYTES_MAX as u64, ..Request::new(Operation::Read, handle) }.encode();
    assert!((0..ANSWERS).all(|_| raw.send(&read, &[])));
    assert!(raw.send(&attach(handle), &[sender.as_fd()]));
    drop(sender);
    for _ in 0..ANSWERS {
        raw.receive().expect("an answer");
    }
    drop(raw);
    victim.end(&rig);
    let volume = Arc::downgrade(&rig.volume);
    drop(rig);
    assert_eq!(volume.strong_count(), 0, "the volume can be closed");
    drop(listener);
}

/// A client that has the memory of many files, at a server that may have few descriptors.
#[test]
fn a_server_without_descriptors_goes_on() {
    let rig = Rig::new();
    assert_eq!(rig.run((0, 0), "few descriptors", &[]), "went on");
}

/// The server and its clients, in a process of their own.
pub fn few_descriptors() -> String {
    let rig = Rig::new();
    for nth in 0..400 {
        rig.file(&format!("{nth}"), 0o666, 0, 0);
    }
    let mut victim = Victim::new(&rig);
    limit_descriptors(300);
    let raw = Raw::connect(&rig.socket);
    let mut refused = 0;
    for nth in 0..400 {
        let handle = raw.open(&format!("{nth}"), open::READ | open::WRITE);
        let (answer, _) = raw.ask(&Request::new(Operation::Pages, handle), None);
        refused += u32::from(answer.errno != 0);
    }
    assert!(refused > 0, "there are not that many descriptors");
    victim.go_on();
    // There is no descriptor for one more connection until others end.
    let late = Raw::unconnected();
    limit_descriptors(3);
    late.connect_to(&rig.socket);
    std::thread::sleep(Duration::from_millis(100));
    victim.go_on();
    limit_descriptors(1000);
    in_time("a client that waits for a descriptor", || assert_eq!(late.hello().errno, 0));
    drop(raw);
    victim.end(&rig);
    drop((late, rig));
    "went on".into()
}

fn limit_descriptors(count: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = Rlimit { current: Some(count), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).expect("limit");
}
