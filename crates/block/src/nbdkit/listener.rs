//! Where clients connect: an address of TCP, or a Unix socket.

use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with, sockopt,
};

/// Silence after which the kernel probes whether the other machine is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// Clients that wait to be accepted.
const BACKLOG: i32 = 16;

/// Where clients connect.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener, SocketAddr),
    /// With the file's inode, so that only the file that was made here is removed.
    Unix(UnixListener, PathBuf, u64),
}

/// Why nobody can connect.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {source}; name another address or port, or end who has it")]
    Address {
        /// The address.
        address: SocketAddr,
        /// The system's answer.
        source: io::Error,
    },
    /// Somebody listens at the socket.
    #[error("somebody serves {path} already; name another socket, or end that process", path = path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// The socket cannot be made.
    #[error("the socket {path} cannot be made: {source}; name another path", path = path.display())]
    Path {
        /// The socket.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl Listener {
    /// Listens at a TCP address. Without TLS, every client that reaches the address can read and write the
    /// device.
    ///
    /// # Errors
    /// [`ListenError::Address`].
    pub fn tcp(address: SocketAddr) -> Result<Self, ListenError> {
        let failed = |source| ListenError::Address { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        probe_silent(&listener).map_err(failed)?;
        Ok(Listener { socket: Socket::Tcp(listener, address) })
    }

    /// Listens at a new Unix socket, for this user only. Replaces the socket file of a process that was
    /// killed.
    ///
    /// # Errors
    /// [`ListenError::InUse`], [`ListenError::Path`].
    pub fn unix(path: &Path) -> Result<Self, ListenError> {
        let failed = |source| ListenError::Path { path: path.to_owned(), source };
        match UnixStream::connect(path) {
            Ok(_) => return Err(ListenError::InUse { path: path.to_owned() }),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && is_socket(path) => {
                fs::remove_file(path).map_err(failed)?;
            }
            // What else is there, bind says.
            Err(_) => {}
        }
        let listener = listen_privately(path).map_err(failed)?;
        let inode = fs::metadata(path).map_err(failed)?.ino();
        Ok(Listener { socket: Socket::Unix(listener, path.to_owned(), inode) })
    }

    /// The address with its port, if it is one of TCP.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Tcp(_, address) => Some(*address),
            Socket::Unix(..) => None,
        }
    }

    /// Another descriptor of the socket, for the process that takes clients.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        match &self.socket {
            Socket::Tcp(listener, _) => listener.as_fd().try_clone_to_owned(),
            Socket::Unix(listener, ..) => listener.as_fd().try_clone_to_owned(),
        }
    }
}

impl Drop for Listener {
    /// Removes the file of a Unix socket, so that a new client's connection is refused.
    fn drop(&mut self) {
        if let Socket::Unix(_, path, inode) = &self.socket
            && fs::metadata(path).is_ok_and(|found| found.ino() == *inode)
        {
            // Nobody is left to hear that it stays.
            let _ = fs::remove_file(path);
        }
    }
}

/// As an address that clients understand.
impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            Socket::Tcp(_, address) => write!(f, "nbd://{address}"),
            Socket::Unix(_, path, _) => write!(f, "nbd+unix:///?socket={}", path.display()),
        }
    }
}

/// Connections inherit it: a machine that is gone is noticed.
fn probe_silent(listener: &TcpListener) -> io::Result<()> {
    sockopt::set_socket_keepalive(listener, true)?;
    Ok(sockopt::set_tcp_keepidle(listener, KEEPALIVE_IDLE)?)
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

/// Nobody can connect before the mode of the file says who may: until then it is bound, but not listened at.
fn listen_privately(path: &Path) -> io::Result<UnixListener> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    let ready = fs::set_permissions(path, fs::Permissions::from_mode(0o600))
        .and_then(|()| Ok(listen(&socket, BACKLOG)?));
    if let Err(error) = ready {
        let _ = fs::remove_file(path);
        return Err(error);
    }
    Ok(UnixListener::from(socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_private_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = Listener::unix(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(Listener::unix(&path), Err(ListenError::InUse { .. })));
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_killed_process_left_is_replaced_and_files_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(Listener::unix(&path).unwrap());
        fs::write(&path, "data").unwrap();
        assert!(matches!(Listener::unix(&path), Err(ListenError::Path { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"data");
    }

    #[test]
    fn a_port_that_is_taken_is_said() {
        let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.address().unwrap();
        let text = Listener::tcp(address).unwrap_err().to_string();
        assert!(text.contains(&address.to_string()), "{text}");
        assert_eq!(listener.to_string(), format!("nbd://{address}"));
    }
}
