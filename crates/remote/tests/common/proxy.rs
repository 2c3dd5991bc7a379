//! A proxy before a donor, which holds bytes back, swallows them, or lets a message trickle.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// Bytes of a message that begins to trickle, and does not end while a test runs.
const TRICKLE: &[u8; 4] = &60_000u32.to_le_bytes();
const DROP_INTERVAL: Duration = Duration::from_millis(200);

/// What becomes of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Way {
    /// To the other side.
    Through,
    /// Nowhere: the other side seems to have stopped.
    Nowhere,
    /// In their place comes a message that never ends.
    Trickling,
}

/// It listens until the process ends.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    server: SocketAddr,
    way: AtomicU8,
    /// Bytes that may still go to the server.
    allowed: Mutex<usize>,
    changed: Condvar,
    is_holding: AtomicBool,
}

impl Proxy {
    pub fn before(server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind((server.ip(), 0)).expect("listen");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            server,
            way: AtomicU8::new(Way::Through as u8),
            allowed: Mutex::new(usize::MAX),
            changed: Condvar::new(),
            is_holding: AtomicBool::new(false),
        });
        thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                for client in listener.incoming() {
                    let client = client.expect("a client");
                    let server = TcpStream::connect(shared.server).expect("the server");
                    server.set_nodelay(true).expect("a socket");
                    client.set_nodelay(true).expect("a socket");
                    shared.pump(&client, &server, true);
                    shared.pump(&server, &client, false);
                }
            }
        });
        Proxy { address, shared }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What becomes of all bytes that come from now on.
    pub fn take(&self, way: Way) {
        self.shared.way.store(way as u8, SeqCst);
    }

    /// Lets this number of bytes go to the server, and keeps what comes behind them.
    pub fn hold_after(&self, bytes: usize) {
        *self.shared.allowed.lock().expect("a count") = bytes;
    }

    /// Whether it keeps bytes.
    pub fn is_holding(&self) -> bool {
        self.shared.is_holding.load(SeqCst)
    }

    /// Lets go what it keeps.
    pub fn release(&self) {
        self.hold_after(usize::MAX);
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn pump(self: &Arc<Shared>, from: &TcpStream, to: &TcpStream, is_to_server: bool) {
        let [mut from, mut to] = [from, to].map(|socket| socket.try_clone().expect("a descriptor"));
        let shared = Arc::clone(self);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(came @ 1..) = from.read(&mut bytes) {
                if !shared.pass(&mut to, &bytes[..came], is_to_server) {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
        });
    }

    /// Whether there is somebody at the other end.
    fn pass(&self, to: &mut TcpStream, mut bytes: &[u8], is_to_server: bool) -> bool {
        let way = self.way.load(SeqCst);
        if way == Way::Nowhere as u8 {
            return true;
        }
        if way == Way::Trickling as u8 && !is_to_server {
            trickle(to);
            return false;
        }
        while is_to_server && !bytes.is_empty() {
            let mut allowed = self.allowed.lock().expect("a count");
            while *allowed == 0 {
                self.is_holding.store(true, SeqCst);
                allowed = self.changed.wait(allowed).expect("a count");
            }
            let part = bytes.len().min(*allowed);
            if *allowed != usize::MAX {
                *allowed -= part;
            }
            drop(allowed);
            if to.write_all(&bytes[..part]).is_err() {
                return false;
            }
            bytes = &bytes[part..];
        }
        to.write_all(bytes).is_ok()
    }
}

/// Sends a message a byte at a time, until nobody takes it any more.
pub fn trickle(to: &mut TcpStream) {
    let mut bytes = TRICKLE.iter().copied().chain(std::iter::repeat(b' '));
    while bytes.next().is_some_and(|byte| to.write_all(&[byte]).is_ok()) {
        thread::sleep(DROP_INTERVAL);
    }
}
