//! TLS 1.3 of one connection.
//!
//! ```text
//! reader: socket ──> incoming ──┐                       ┌──> plain bytes
//!                               ├── session (a moment) ─┤
//! writer: plain bytes ──────────┘                       └──> outgoing ──> socket
//! ```
//!
//! One thread reads and one writes at the same time, and either may wait on the socket for long. So the session, which both need, is locked only while bytes
//! pass through it, never while anybody waits. Locks in this order: `incoming` or `outgoing`, then `session`.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustls::{ServerConfig, ServerConnection};

use super::socket::Socket;

/// A record with its head has a little more than 16 KiB.
const INCOMING_BYTES: usize = 18 << 10;
/// What the session holds at most before it has to be sent; a reply takes several turns.
const OUTGOING_BYTES: usize = 64 << 10;

/// Why a connection was not sealed.
#[derive(Debug)]
pub enum SealError {
    /// The client's certificate, or its words, are not those of a friend.
    Refused(rustls::Error),
    /// It went away.
    BrokeOff,
    /// It took too long.
    Slow,
    /// The socket failed.
    Io(io::Error),
}

impl From<io::Error> for SealError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => SealError::Slow,
            ErrorKind::UnexpectedEof => SealError::BrokeOff,
            _ => SealError::Io(error),
        }
    }
}

/// A sealed connection, apart from its socket.
pub struct Seal {
    session: Mutex<ServerConnection>,
    incoming: Mutex<Incoming>,
    outgoing: Mutex<Vec<u8>>,
}

/// Sealed bytes that came and were not opened yet.
struct Incoming {
    bytes: Box<[u8]>,
    begin: usize,
    end: usize,
}

impl Seal {
    /// Agrees with the client on keys, and sees who it is.
    ///
    /// # Errors
    /// [`SealError`]. A client that is refused was told.
    pub fn agree(config: &Arc<ServerConfig>, socket: &Socket, deadline: Instant) -> Result<Seal, SealError> {
        let mut session = ServerConnection::new(Arc::clone(config)).map_err(SealError::Refused)?;
        session.set_buffer_limit(Some(OUTGOING_BYTES));
        let seal = Seal {
            session: Mutex::new(session),
            incoming: Mutex::new(Incoming::new()),
            outgoing: Mutex::new(Vec::with_capacity(OUTGOING_BYTES)),
        };
        while lock(&seal.session).is_handshaking() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(SealError::Slow);
            }
            socket.set_patience(Some(left))?;
            let opened = seal.take_words(socket)?;
            let told = seal.send(socket, &[]);
            opened.map_err(SealError::Refused)?;
            told?;
        }
        Ok(seal)
    }

    /// Takes what the socket has of the client's part of the agreement.
    fn take_words(&self, socket: &Socket) -> Result<Result<(), rustls::Error>, SealError> {
        let mut incoming = lock(&self.incoming);
        match incoming.fill(socket) {
            Ok(true) => Ok(incoming.open_agreement(&mut lock(&self.session))),
            Ok(false) => Err(SealError::BrokeOff),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(Ok(())),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads opened bytes; 0 at the end.
    pub fn read(&self, socket: &Socket, buf: &mut [u8]) -> io::Result<usize> {
        let mut incoming = lock(&self.incoming);
        loop {
            {
                let mut session = lock(&self.session);
                match session.reader().read(buf) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    read => return read,
                }
                if !incoming.is_empty() {
                    let opened = incoming.open(&mut session);
                    opened.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
                    continue;
                }
            }
            // An end without a word is an end: the protocol inside has its own.
            if !incoming.fill(socket)? {
                return Ok(0);
            }
        }
    }

    /// Seals and sends the beginning of `buf`; gives how much that was.
    pub fn write(&self, socket: &Socket, buf: &[u8]) -> io::Result<usize> {
        self.send(socket, buf)
    }

    /// Says that no more comes.
    pub fn close(&self, socket: &Socket) -> io::Result<()> {
        lock(&self.session).send_close_notify();
        self.send(socket, &[]).map(drop)
    }

    /// Sends what the session has to say, and the beginning of `plain` after it.
    fn send(&self, mut socket: &Socket, plain: &[u8]) -> io::Result<usize> {
        let mut outgoing = lock(&self.outgoing);
        let mut session = lock(&self.session);
        let taken = if plain.is_empty() { 0 } else { session.writer().write(plain)? };
        outgoing.clear();
        while session.wants_write() {
            session.write_tls(&mut *outgoing)?;
        }
        drop(session);
        socket.write_all(&outgoing)?;
        Ok(taken)
    }
}

impl Incoming {
    fn new() -> Self {
        Incoming { bytes: vec![0; INCOMING_BYTES].into(), begin: 0, end: 0 }
    }

    fn is_empty(&self) -> bool {
        self.begin == self.end
    }

    /// Takes what the socket has, once everything before it was opened; `false` at the end.
    fn fill(&mut self, mut socket: &Socket) -> io::Result<bool> {
        assert!(self.is_empty(), "nothing is overwritten");
        let read = socket.read(&mut self.bytes)?;
        (self.begin, self.end) = (0, read);
        Ok(read > 0)
    }

    /// Hands some bytes to the session, whose opened bytes have been read.
    fn open(&mut self, session: &mut ServerConnection) -> Result<(), rustls::Error> {
        match session.read_tls(&mut &self.bytes[self.begin..self.end]) {
            Ok(taken) if taken > 0 => self.begin += taken,
            // Nothing comes after the word that nothing comes.
            _ => return Err(rustls::Error::General("bytes came after its last word".into())),
        }
        session.process_new_packets().map(drop)
    }

    /// Hands over what belongs to the agreement; what follows may be requests, and has time.
    fn open_agreement(&mut self, session: &mut ServerConnection) -> Result<(), rustls::Error> {
        while !self.is_empty() && session.is_handshaking() {
            self.open(session)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal")
    }
}

/// A thread that panicked takes the connection with it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
