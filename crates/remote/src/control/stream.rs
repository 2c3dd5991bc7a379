//! A TCP connection, sealed by TLS 1.3 or within one machine.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aquifer_device::own;
use aquifer_sys::descriptors;
use rustix::net::sockopt;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConnection, ServerConnection, StreamOwned};

use super::channel::Wire;
use super::identity::{Identity, Peer};

/// Which peers may speak.
#[derive(Clone, Debug)]
pub enum Security {
    /// Anybody on this machine, and nobody else.
    Loopback,
    /// Hosts of a cluster, which know each other by their certificates.
    Cluster(Arc<Identity>),
}

trait Duplex: Read + Write + Send {
    /// The certificate that the other side has shown.
    fn certificate(&self) -> Option<&CertificateDer<'static>> {
        None
    }
}

impl Duplex for Limited {}

impl Duplex for StreamOwned<ClientConnection, Limited> {
    fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.conn.peer_certificates()?.first()
    }
}

impl Duplex for StreamOwned<ServerConnection, Limited> {
    fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.conn.peer_certificates()?.first()
    }
}

/// A connection for a [`Channel`](super::Channel).
pub struct Stream {
    inner: Box<dyn Duplex>,
    /// The same connection, for what has nothing to do with its bytes.
    socket: TcpStream,
    until: Arc<Until>,
    /// Descriptors of both, which a program that knows nothing of them must not close.
    owned: [RawFd; 2],
}

/// When the message that is under way must have come or gone.
#[derive(Debug, Default)]
struct Until(Mutex<Option<Instant>>);

impl Until {
    fn set(&self, moment: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = moment;
    }

    /// What is left; for ever, if there is no such moment.
    fn left(&self) -> io::Result<Option<Duration>> {
        let moment = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = moment.map(|moment| moment.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

/// The socket, below the sealing. Each wait on it ends with the message's deadline: what a peer sends in between does not move it.
struct Limited {
    socket: TcpStream,
    until: Arc<Until>,
}

impl Read for Limited {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.until.left()?)?;
        self.socket.read(buf)
    }
}

impl Write for Limited {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.until.left()?)?;
        self.socket.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

impl Stream {
    /// The side that connected.
    ///
    /// # Errors
    /// The socket's. Whether the other side is of the cluster shows when the first message is sent.
    pub fn connected(socket: TcpStream, security: &Security) -> io::Result<Stream> {
        Stream::over(socket, |socket| {
            Ok(match security {
                Security::Loopback => Box::new(socket),
                Security::Cluster(identity) => {
                    let session = ClientConnection::new(identity.client(), Identity::server_name());
                    Box::new(StreamOwned::new(session.map_err(io::Error::other)?, socket))
                }
            })
        })
    }

    /// The side that was connected to.
    ///
    /// # Errors
    /// As [`Stream::connected`].
    pub fn accepted(socket: TcpStream, security: &Security) -> io::Result<Stream> {
        Stream::over(socket, |socket| {
            Ok(match security {
                Security::Loopback => Box::new(socket),
                Security::Cluster(identity) => {
                    let session = ServerConnection::new(identity.server()).map_err(io::Error::other)?;
                    Box::new(StreamOwned::new(session, socket))
                }
            })
        })
    }

    fn over(
        socket: TcpStream,
        seal: impl FnOnce(Limited) -> io::Result<Box<dyn Duplex>>,
    ) -> io::Result<Stream> {
        let socket = own(socket);
        let second = own(prepare(&socket)?);
        let owned = [second.as_raw_fd(), socket.as_raw_fd()];
        let until: Arc<Until> = Arc::default();
        let inner = seal(Limited { socket, until: Arc::clone(&until) })?;
        Ok(Stream { inner, socket: second, until, owned })
    }

    /// The host of the cluster at the other side, once a message has come from there; `None` without a cluster.
    #[must_use]
    pub fn peer(&self) -> Option<Peer> {
        Peer::of(self.inner.certificate()?)
    }

    /// What ends the connection from another thread.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn ender(&self) -> io::Result<Ender> {
        Ender::of(&self.socket)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.owned.into_iter().for_each(descriptors::forget);
    }
}

/// How long nothing may come before the other machine is asked whether it is there, how often it is asked, and how often in vain.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_COUNT: u32 = 3;

/// Messages are short and waited for. A machine that is cut off says nothing; a process that is stopped has a kernel that answers.
fn prepare(socket: &TcpStream) -> io::Result<TcpStream> {
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(socket, KEEPALIVE_COUNT)?;
    socket.try_clone()
}

impl Wire for Stream {
    fn end_at(&mut self, moment: Option<Instant>) {
        self.until.set(moment);
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buf)
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.inner.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Ends a connection on which another thread may wait.
#[derive(Debug)]
pub struct Ender {
    socket: TcpStream,
}

impl Ender {
    /// What ends the connection of `socket`.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn of(socket: &TcpStream) -> io::Result<Ender> {
        Ok(Ender { socket: own(socket.try_clone()?) })
    }

    /// Closes the stream. Threads that wait on it get an error.
    pub fn end(&self) {
        // It may have ended by itself.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl Drop for Ender {
    fn drop(&mut self) {
        descriptors::forget(self.socket.as_raw_fd());
    }
}
