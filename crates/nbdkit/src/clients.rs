//! Sockets of clients. nbdkit has them and names none, so they are found among the descriptors of this process.

use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use rustix::io::fcntl_dupfd_cloexec;
use rustix::net::{Shutdown, SocketAddrAny, getpeername, getsockname, shutdown, sockopt};

/// The descriptors of this process, by their numbers.
const DESCRIPTORS: &str = "/proc/self/fd";

/// Where clients connect.
#[derive(Clone, Debug)]
pub struct Listening {
    address: SocketAddrAny,
}

/// What of a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Half {
    /// The client is not listened to any more, and hears replies.
    Requests,
    /// All.
    Both,
}

impl Listening {
    /// The socket at `descriptor`, at which nbdkit listens.
    ///
    /// # Errors
    /// It is no socket.
    pub fn at(descriptor: RawFd) -> io::Result<Self> {
        let socket = copy_of(descriptor)?;
        Ok(Listening { address: getsockname(&socket)? })
    }

    /// Turns away every client that connects from now on.
    pub fn close(&self, descriptor: RawFd) {
        // Where it fails, nobody listens any more.
        let _ = copy_of(descriptor).and_then(|socket| Ok(shutdown(&socket, Shutdown::Both)?));
    }

    /// Whether anybody is connected.
    pub fn has_clients(&self) -> bool {
        self.clients().next().is_some()
    }

    /// Shuts down the sockets of clients whose addresses are `wanted`. Threads that read them find the end.
    pub fn shut_down_clients(&self, half: Half, wanted: impl Fn(&SocketAddrAny) -> bool) {
        let how = if half == Half::Requests { Shutdown::Read } else { Shutdown::Both };
        for socket in self.clients() {
            if getpeername(&socket).is_ok_and(|peer| peer.is_none_or(|peer| wanted(&peer))) {
                // A client that has left needs no end.
                let _ = shutdown(&socket, how);
            }
        }
    }

    /// Copies of the clients' sockets. Each stays the same socket, should its number be another's meanwhile.
    fn clients(&self) -> impl Iterator<Item = OwnedFd> {
        let names = fs::read_dir(DESCRIPTORS).into_iter().flatten();
        let numbers = names.filter_map(|name| name.ok()?.file_name().to_str()?.parse::<RawFd>().ok());
        numbers.filter_map(|number| copy_of(number).ok()).filter(|socket| self.is_client(socket))
    }

    /// Whether the socket was accepted here: it has this address, or one of the machine's with this port, and does not listen.
    fn is_client(&self, socket: &OwnedFd) -> bool {
        let is_at = |own: SocketAddrAny| match (port(&own), port(&self.address)) {
            (Some(own), Some(here)) => own == here,
            _ => own == self.address,
        };
        getsockname(socket).is_ok_and(is_at)
            && sockopt::socket_acceptconn(socket).is_ok_and(|listens| !listens)
    }
}

fn port(address: &SocketAddrAny) -> Option<u16> {
    std::net::SocketAddr::try_from(address.clone()).ok().map(|address| address.port())
}

/// A second descriptor of what is at `number`.
fn copy_of(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the number is used for one call only, which fails if there is no descriptor.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(fcntl_dupfd_cloexec(borrowed, 0)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn clients_of_one_listener_end_and_others_do_not() {
        let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let mut pairs = listeners.each_ref().map(|listener| {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (client, listener.accept().unwrap().0)
        });
        let listening = Listening::at(listeners[0].as_raw_fd()).unwrap();
        let none = |_: &SocketAddrAny| false;
        assert!(listening.has_clients());
        listening.shut_down_clients(Half::Both, none);
        pairs[0].0.write_all(b"a").unwrap();
        assert_eq!(pairs[0].1.read(&mut [0]).unwrap(), 1);
        listening.shut_down_clients(Half::Requests, |_| true);
        assert_eq!(pairs[0].1.read(&mut [0]).unwrap(), 0);
        pairs[0].1.write_all(b"a reply").unwrap();
        assert_eq!(pairs[0].0.read(&mut [0; 8]).unwrap(), 7);
        listening.shut_down_clients(Half::Both, |_| true);
        assert_eq!(pairs[0].0.read(&mut [0]).unwrap(), 0);
        let (client, served) = &mut pairs[1];
        client.write_all(b"a").unwrap();
        assert_eq!(served.read(&mut [0]).unwrap(), 1);
        TcpStream::connect(listeners[0].local_addr().unwrap()).unwrap();
    }

    #[test]
    fn clients_of_unix_sockets_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let mut client = UnixStream::connect(&path).unwrap();
        let _served = listener.accept().unwrap();
        Listening::at(listener.as_raw_fd()).unwrap().shut_down_clients(Half::Both, |_| true);
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    }
}
