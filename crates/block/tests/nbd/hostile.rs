//! Hostile clients, and peers that do not speak NBD: their connection ends with a sentence, and other clients
//! are served.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aquifer_block::nbd::Settings;
use aquifer_device::MemoryDevice;
use proptest::prelude::*;

use crate::client::{Client, READ, WRITE};
use crate::served::{DEVICE_BYTES, Served};

/// Serves one who does as `harm` says beside one who is served before and after.
fn others_are_served(harm: impl FnOnce(&mut Client), sentence: &str) {
    let served = Served::memory();
    let mut bystander = Client::begun(served.address);
    assert_eq!(bystander.write(0, 0, &[7; 4096]), 0);
    let mut client = Client::greeted(served.address);
    harm(&mut client);
    served.hear(sentence);
    assert!(client.is_left());
    assert_eq!(bystander.read(0, 4096), Ok(vec![7; 4096]));
    bystander.leave();
}

fn begin(client: &mut Client) {
    client.option(1, b"");
    client.take(10);
}

#[test]
fn no_option() {
    others_are_served(|client| client.send(b"GET / HTTP/1.1\r\n"), "is it a client of NBD?");
}

#[test]
fn an_option_that_is_too_long() {
    let head = |len: u32| [&b"IHAVEOPT"[..], &[0, 0, 0, 7], &len.to_be_bytes()].concat();
    others_are_served(|client| client.send(&head(u32::MAX)), "at most 16384 are taken");
}

#[test]
fn options_without_end() {
    let ask = |client: &mut Client| (0..65).for_each(|_| client.option(9, b""));
    // What was answered is still in the way of the end.
    let harm = |client: &mut Client| {
        ask(client);
        (0..64).for_each(|_| drop(client.option_reply(9)));
    };
    others_are_served(harm, "more than 64 options");
}

#[test]
fn an_export_that_is_not_here() {
    others_are_served(|client| client.option(1, b"secret\x1b[2J"), "is not here");
}

#[test]
fn no_request() {
    let harm = |client: &mut Client| {
        begin(client);
        client.send(&[0x55; 28]);
    };
    others_are_served(harm, "out of step");
}

#[test]
fn a_write_that_is_too_long() {
    let harm = |client: &mut Client| {
        begin(client);
        client.request(WRITE, 0, 1, 0, u32::MAX);
    };
    others_are_served(harm, "at most 33554432 are taken");
}

#[test]
fn an_end_in_the_middle() {
    let harm = |client: &mut Client| {
        begin(client);
        client.request(WRITE, 0, 1, 0, 4096);
        client.send(&[1; 100]);
        client.fall_silent();
    };
    others_are_served(harm, "broke off in the middle");
}

#[test]
fn more_clients_than_there_is_room_for() {
    let device = Arc::new(MemoryDevice::new(DEVICE_BYTES, 512));
    let served = Served::with(device, Settings { threads: 1, connections_max: 2, ..Settings::default() });
    let mut clients = [Client::begun(served.address), Client::begun(served.address)];
    let stream = std::net::TcpStream::connect(served.address).unwrap();
    served.hear("turned away");
    drop(stream);
    assert_eq!(clients[0].write(0, 0, &[1; 512]), 0);
    let [first, second] = clients;
    first.leave();
    second.leave();
    while served.stopper.connections() > 0 {
        std::thread::yield_now();
    }
    Client::begun(served.address).leave();
}

/// A server with 16 places, all of which have clients that stop as `stop` says, serves one more client.
fn one_more_is_served(stop: impl Fn(SocketAddr) -> Client) {
    let device = Arc::new(MemoryDevice::new(DEVICE_BYTES, 512));
    let served =
        Served::with(device, Settings { threads: 1, stall_max: Duration::ZERO, ..Settings::default() });
    let stopped: Vec<Client> = (0..16).map(|_| stop(served.address)).collect();
    let deadline = Instant::now() + Duration::from_secs(60);
    // The server may not have read yet what the others began: then it turns a client away.
    while !is_greeted(served.address) {
        assert!(Instant::now() < deadline, "nobody gave way, {} turned away", served.times("turned away"));
        std::thread::sleep(Duration::from_millis(5));
    }
    served.hear("gave its place to another client");
    drop(stopped);
}

fn is_greeted(address: SocketAddr) -> bool {
    TcpStream::connect(address).unwrap().read_exact(&mut [0; 18]).is_ok()
}

#[test]
fn half_a_negotiation_keeps_no_place() {
    one_more_is_served(|address| {
        let mut client = Client::greeted(address);
        client.send(b"IHAVE");
        client
    });
}

#[test]
fn half_a_request_keeps_no_place() {
    one_more_is_served(|address| {
        let mut client = Client::begun(address);
        client.send(&0x2560_9513u32.to_be_bytes());
        client
    });
}

#[test]
fn half_a_write_keeps_no_place() {
    one_more_is_served(|address| {
        let mut client = Client::begun(address);
        client.request(WRITE, 0, 1, 0, 4 << 20);
        client.send(&[1; 100]);
        client
    });
}

#[test]
fn replies_that_are_not_taken_keep_no_place() {
    one_more_is_served(|address| {
        let mut client = Client::begun(address);
        // More than the sockets hold.
        (0..2).for_each(|cookie| client.request(READ, 0, cookie, 0, 32 << 20));
        client
    });
}

#[test]
fn idle_clients_keep_their_places() {
    let device = Arc::new(MemoryDevice::new(DEVICE_BYTES, 512));
    let settings = Settings { threads: 1, connections_max: 2, ..Settings::default() };
    let served = Served::with(device, settings);
    let mut clients = [Client::begun(served.address), Client::begun(served.address)];
    clients.iter_mut().for_each(|client| assert_eq!(client.write(0, 0, &[1; 512]), 0));
    assert!(!is_greeted(served.address));
    served.hear("turned away");
    clients.iter_mut().for_each(|client| assert_eq!(client.write(0, 0, &[1; 512]), 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever comes after the greeting or in place of requests, the next client is served.
    #[test]
    fn garbage(has_begun in any::<bool>(), bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let served = Served::memory();
        let mut client = Client::greeted(served.address);
        if has_begun {
            begin(&mut client);
        }
        // The server may have had enough before the last byte.
        let _ = client.stream.write_all(&bytes);
        let _ = client.stream.shutdown(Shutdown::Write);
        while !client.is_left() {}
        Client::begun(served.address).leave();
    }
}
