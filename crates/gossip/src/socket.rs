//! The datagrams of gossip: sealed on their way out, opened on their way in.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};

use crate::drops::Dropped;
use crate::seal::{DATAGRAM_BYTES_MAX, Seal, now};

/// A port of UDP that nobody waits for.
pub(crate) struct SealedSocket {
    socket: UdpSocket,
    seal: Seal,
    incoming: Box<[u8]>,
}

/// A datagram that came.
pub(crate) struct Incoming<'a> {
    pub from: SocketAddr,
    /// The message in it.
    pub message: Result<&'a [u8], Dropped>,
}

impl SealedSocket {
    /// # Errors
    /// The socket cannot be one that nobody waits for, or the kernel gives no random bytes.
    pub fn new(socket: UdpSocket, key: Option<[u8; 32]>) -> io::Result<SealedSocket> {
        socket.set_nonblocking(true)?;
        // One byte more than the longest, so that what is longer shows.
        let incoming = vec![0; DATAGRAM_BYTES_MAX + 1].into();
        Ok(SealedSocket { socket, seal: Seal::new(key)?, incoming })
    }

    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Sends a message. Whether it went out: what is lost is told again, or asked for again.
    pub fn send(&mut self, to: SocketAddr, message: &[u8]) -> bool {
        let datagram = self.seal.seal(message, now());
        self.socket.send_to(&datagram, to).is_ok()
    }

    /// The next datagram that has come.
    ///
    /// # Errors
    /// There is none, or the system could not receive, which it says of datagrams that were sent, too.
    pub fn receive(&mut self) -> Result<Incoming<'_>, ErrorKind> {
        let (len, from) = self.socket.recv_from(&mut self.incoming).map_err(|error| error.kind())?;
        let message = self.seal.open(&mut self.incoming[..len], now()).map_err(Dropped::Refused);
        Ok(Incoming { from, message })
    }
}
