//! A connected client: its socket, and what seals it.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustls::ServerConfig;

use super::pace::Pace;
use super::seal::{Seal, SealError};
use super::socket::Socket;

/// The last words of a sealed connection may take this long.
const FAREWELL: Duration = Duration::from_secs(5);

/// A connected client. Reading and writing go on at once, through `&Stream`, each by one thread at a time.
#[derive(Debug)]
pub struct Stream {
    socket: Socket,
    /// There once the client has asked for it and shown who it is.
    seal: OnceLock<Seal>,
    pace: Pace,
}

impl Stream {
    pub fn new(socket: Socket) -> Self {
        Stream { socket, seal: OnceLock::new(), pace: Pace::new() }
    }

    /// See [`Socket::prepare`].
    pub fn prepare(&self) -> io::Result<()> {
        self.socket.prepare()
    }

    /// See [`Socket::set_patience`].
    pub fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        self.socket.set_patience(patience)
    }

    /// See [`Socket::shut_down`].
    pub fn shut_down(&self, how: Shutdown) {
        self.socket.shut_down(how);
    }

    /// Whether the client gets on.
    pub fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Fills `buf` with bytes that the client owes.
    pub fn receive(&self, buf: &mut [u8]) -> io::Result<()> {
        let _waiting = self.pace.receiving();
        let mut stream = self;
        stream.read_exact(buf)
    }

    /// Sends a reply, or a part of one.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let _waiting = self.pace.sending();
        let mut stream = self;
        stream.write_all(bytes)
    }

    /// Ends the connection, whose place another client takes.
    pub fn send_away(&self) {
        self.pace.send_away();
        self.shut_down(Shutdown::Both);
    }

    /// Seals everything from here on, in both directions. What lies in the socket already counts as the client's first sealed bytes: what somebody slipped in
    /// before is taken for those, and refused.
    ///
    /// # Errors
    /// [`SealError`]: the connection is of no use.
    pub fn seal(&self, config: &Arc<ServerConfig>, deadline: Instant) -> Result<(), SealError> {
        let seal = Seal::agree(config, &self.socket, deadline)?;
        // Only the thread that negotiates comes here, and a negotiation seals once.
        let _ = self.seal.set(seal);
        Ok(())
    }

    /// Tells a client that has left in order that nothing was cut off.
    pub fn say_farewell(&self) {
        if let Some(seal) = self.seal.get()
            && self.set_patience(Some(FAREWELL)).is_ok()
        {
            // It may be gone already.
            let _ = seal.close(&self.socket);
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.seal.get() {
            Some(seal) => seal.read(&self.socket, buf),
            None => (&self.socket).read(buf),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self.seal.get() {
            Some(seal) => seal.write(&self.socket, buf),
            None => (&self.socket).write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
