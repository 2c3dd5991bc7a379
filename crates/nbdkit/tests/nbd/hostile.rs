//! Hostile clients, silent ones, and peers that do not speak NBD: other clients are served.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use crate::client::{Client, READ, WRITE};
use crate::served::{Served, Wishes};

/// Serves one that does as `harm` says beside one that is served before and after.
fn others_are_served(harm: impl FnOnce(&mut Client)) {
    let Some(served) = Served::new() else { return };
    let mut bystander = Client::begun(served.address);
    assert_eq!(bystander.write(0, 0, &[7; 4096]), 0);
    let mut client = Client::greeted(served.address);
    harm(&mut client);
    assert!(client.is_cut_off());
    assert_eq!(bystander.read(0, 4096), Ok(vec![7; 4096]));
    bystander.leave();
    Client::begun(served.address).leave();
}

fn begin(client: &mut Client) {
    client.option(1, b"");
    client.take(10);
}

#[test]
fn no_option() {
    others_are_served(|client| client.send(b"GET / HTTP/1.1\r\n"));
}

#[test]
fn an_option_that_is_too_long() {
    let head = |len: u32| [&b"IHAVEOPT"[..], &[0, 0, 0, 7], &len.to_be_bytes()].concat();
    others_are_served(|client| client.send(&head(u32::MAX)));
}

#[test]
fn an_export_that_is_not_here() {
    others_are_served(|client| client.option(1, b"secret\x1b[2J"));
}

#[test]
fn no_request() {
    others_are_served(|client| {
        begin(client);
        client.send(&[0x55; 28]);
    });
}

#[test]
fn a_write_that_is_too_long() {
    others_are_served(|client| {
        begin(client);
        client.request(WRITE, 0, 1, 0, u32::MAX);
        client.fall_silent();
    });
}

#[test]
fn an_end_in_the_middle() {
    others_are_served(|client| {
        begin(client);
        client.request(WRITE, 0, 1, 0, 4096);
        client.send(&[1; 100]);
        client.fall_silent();
    });
}

/// Sockets on which nobody says a word take no places of clients: they have not shown that they are any.
#[test]
fn silent_sockets_lock_nobody_out() {
    let Some(served) = Served::with(Wishes { connections: Some(2), ..Wishes::default() }) else { return };
    let silent: Vec<TcpStream> = (0..64).map(|_| TcpStream::connect(served.address).unwrap()).collect();
    let halves: Vec<Client> = (0..16)
        .map(|_| {
            let mut client = Client::greeted(served.address);
            client.send(b"IHAVE");
            client
        })
        .collect();
    let mut clients = [Client::begun(served.address), Client::begun(served.address)];
    for client in &mut clients {
        assert_eq!(client.write(0, 0, &[1; 4096]), 0);
        assert_eq!(client.read(0, 4096), Ok(vec![1; 4096]));
    }
    drop((silent, halves));
}

#[test]
fn silent_sockets_go() {
    let patience = Wishes { settings: &["patience=1"], ..Wishes::default() };
    let Some(served) = Served::with(patience) else { return };
    let mut silent = Client::greeted(served.address);
    let mut half = Client::greeted(served.address);
    half.send(b"IHAVE");
    let mut idle = Client::begun(served.address);
    assert!(silent.is_left() && half.is_left());
    // A client that has begun is idle for as long as it likes.
    assert_eq!(idle.write(0, 0, &[1; 4096]), 0);
    assert_eq!(idle.read(0, 4096), Ok(vec![1; 4096]));
}

#[test]
fn slow_clients_harm_no_others() {
    let Some(served) = Served::new() else { return };
    let mut stopped: Vec<Client> = (0..8).map(|_| Client::begun(served.address)).collect();
    for (at, client) in stopped.iter_mut().enumerate() {
        match at % 3 {
            0 => client.send(&0x2560_9513u32.to_be_bytes()),
            1 => {
                client.request(WRITE, 0, 1, 0, 4 << 20);
                client.send(&[1; 100]);
            }
            // More than the sockets hold.
            _ => (0..2).for_each(|cookie| client.request(READ, 0, cookie, 0, 32 << 20)),
        }
    }
    let mut client = Client::begun(served.address);
    assert_eq!(client.write(0, 0, &[7; 4096]), 0);
    assert_eq!(client.read(0, 4096), Ok(vec![7; 4096]));
    client.leave();
    served.end().unwrap();
}

/// A client that leaves while replies to several of its requests are on their way.
#[test]
fn clients_that_leave_early_harm_no_others() {
    let Some(served) = Served::new() else { return };
    let mut bystander = Client::begun(served.address);
    assert_eq!(bystander.write(0, 0, &[7; 4096]), 0);
    for _ in 0..50 {
        let mut client = Client::begun(served.address);
        (0..16).for_each(|cookie| client.request(READ, 0, cookie, 0, 4 << 20));
        client.take(16);
        drop(client);
        assert_eq!(bystander.read(0, 4096), Ok(vec![7; 4096]));
    }
    served.end().unwrap();
}

#[test]
fn sixty_four_clients_are_served_at_once() {
    let Some(served) = Served::with(Wishes { connections: Some(64), ..Wishes::default() }) else { return };
    let mut clients: Vec<Client> = (0..64).map(|_| Client::begun(served.address)).collect();
    for round in 0..4u8 {
        for (at, client) in clients.iter_mut().enumerate() {
            client.request(WRITE, 0, at as u64, at as u64 * 4096, 4096);
            client.send(&[at as u8 ^ round; 4096]);
        }
        for (at, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.reply(), (0, at as u64));
        }
        for (at, client) in clients.iter_mut().enumerate() {
            let other = (at + 7) % 64;
            assert_eq!(client.read(other as u64 * 4096, 4096), Ok(vec![other as u8 ^ round; 4096]));
        }
    }
}

#[test]
fn more_clients_than_there_is_room_for() {
    let Some(served) = Served::with(Wishes { connections: Some(2), ..Wishes::default() }) else { return };
    let mut clients = [Client::begun(served.address), Client::begun(served.address)];
    let mut stream = TcpStream::connect(served.address).unwrap();
    assert!(matches!(stream.read(&mut [0]), Ok(0)), "it is turned away");
    assert_eq!(clients[0].write(0, 0, &[1; 4096]), 0);
    let [first, second] = clients;
    first.leave();
    second.leave();
    // nbdkit counts a client until after its socket is closed.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_greeted(&served) {
        assert!(Instant::now() < deadline, "there is room, and nobody is served");
        std::thread::yield_now();
    }
    Client::begun(served.address).leave();
}

fn is_greeted(served: &Served) -> bool {
    let mut stream = TcpStream::connect(served.address).unwrap();
    stream.read_exact(&mut [0; 18]).is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever comes after the greeting or in place of requests, the next client is served.
    #[test]
    fn garbage(has_begun in any::<bool>(), bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let Some(served) = Served::new() else { return Ok(()) };
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
