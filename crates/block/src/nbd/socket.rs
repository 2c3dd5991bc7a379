//! A connected socket, TCP or Unix.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::sockopt;

/// Silence after which the kernel probes whether the other machine is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// A connected socket. Reading and writing go on at once, through `&Socket`.
#[derive(Debug)]
pub enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Requests and replies leave at once, and a machine that is gone is noticed.
    pub fn prepare(&self) -> io::Result<()> {
        if let Socket::Tcp(stream) = self {
            stream.set_nodelay(true)?;
            sockopt::set_socket_keepalive(stream, true)?;
            sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
        }
        Ok(())
    }

    /// How long one read or write may take; `None` for as long as it likes.
    pub fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => {
                stream.set_read_timeout(patience)?;
                stream.set_write_timeout(patience)
            }
            Socket::Unix(stream) => {
                stream.set_read_timeout(patience)?;
                stream.set_write_timeout(patience)
            }
        }
    }

    /// Wakes the threads that wait on the socket: readers find the end, and with [`Shutdown::Both`] writers
    /// get an error.
    pub fn shut_down(&self, how: Shutdown) {
        // A socket that is shut down already, or that its peer has left, has no waiting thread.
        let _ = match self {
            Socket::Tcp(stream) => stream.shutdown(how),
            Socket::Unix(stream) => stream.shutdown(how),
        };
    }
}

impl Read for &Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => (&mut &*stream).read(buf),
            Socket::Unix(stream) => (&mut &*stream).read(buf),
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => (&mut &*stream).write(buf),
            Socket::Unix(stream) => (&mut &*stream).write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
