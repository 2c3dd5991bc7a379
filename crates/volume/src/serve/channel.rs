//! A connection: packets, with a descriptor beside them now and then.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, chmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, UCred,
    acceptfrom_with, bind, connect, listen, recvmsg, sendmsg, shutdown, socket_with, sockopt,
};

use super::protocol::PACKET_BYTES_MAX;
use crate::error::{Result, VolumeError};

/// One end of a connection.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
}

/// What came.
#[derive(Debug)]
pub struct Packet {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What came beside it.
    pub descriptors: Vec<OwnedFd>,
}

/// Most descriptors that the kernel takes with a packet. There is room for all: to close one may take as long as its sender wishes, and the kernel closes
/// those for which there is no room before the packet is there.
const DESCRIPTORS_MAX: usize = 253;
/// Time after which a connection is tried again for which the system had no room.
const AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

pub(super) fn failed(step: &'static str) -> impl Fn(Errno) -> VolumeError {
    move |errno| VolumeError::System { step, errno: errno.raw_os_error() }
}

fn new_socket() -> Result<OwnedFd> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(failed("making a socket"))
}

fn address(path: &Path) -> Result<SocketAddrUnix> {
    SocketAddrUnix::new(path).map_err(failed("naming the socket"))
}

/// Waits for connections at `path`.
///
/// # Errors
/// The system's.
pub fn listen_at(path: &Path) -> Result<OwnedFd> {
    let socket = new_socket()?;
    bind(&socket, &address(path)?).map_err(failed("binding the socket"))?;
    // Permissions are checked for each file, so any user may connect.
    chmod(path, Mode::from_raw_mode(0o666)).map_err(failed("letting others use the socket"))?;
    listen(&socket, 64).map_err(failed("listening on the socket"))?;
    Ok(socket)
}

impl Channel {
    /// Connects to the process that listens at `path`.
    ///
    /// # Errors
    /// The system's.
    pub fn connect(path: &Path) -> Result<Self> {
        let socket = new_socket()?;
        connect(&socket, &address(path)?).map_err(failed("connecting to the process that has the volume"))?;
        Ok(Channel { socket })
    }

    /// The next who connects; `None` once nobody listens any more.
    ///
    /// # Errors
    /// The system's.
    pub fn accept(listening: &OwnedFd) -> Result<Option<Self>> {
        loop {
            match acceptfrom_with(listening, SocketFlags::CLOEXEC) {
                Ok((socket, _)) => return Ok(Some(Channel { socket })),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::INVAL) => return Ok(None),
                // Programs that are connected go on, and this one waits for its turn.
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    let mut watched = [PollFd::new(listening, PollFlags::empty())];
                    let ended = poll(&mut watched, Some(&AGAIN));
                    if ended.is_ok() && watched[0].revents().contains(PollFlags::HUP) {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(failed("accepting a connection")(error)),
            }
        }
    }

    /// Process, user and group of the peer, as the kernel knows them.
    ///
    /// # Errors
    /// The system's.
    pub fn peer(&self) -> Result<UCred> {
        sockopt::socket_peercred(&self.socket).map_err(failed("asking who has connected"))
    }

    /// Sends a packet.
    ///
    /// # Errors
    /// The system's; `EPIPE` when the other end is gone.
    pub fn send(&self, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) -> Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        let descriptors = descriptor.as_slice();
        if !descriptors.is_empty() {
            beside.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        loop {
            match sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut beside, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(failed("sending to the other end")(error)),
            }
        }
    }

    /// The next packet; `None` when the other end is gone.
    ///
    /// # Errors
    /// The system's; `EMSGSIZE` for a packet that is too long.
    pub fn receive(&self) -> Result<Option<Packet>> {
        let mut bytes = vec![0; PACKET_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let into = &mut [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.socket, into, &mut beside, RecvFlags::CMSG_CLOEXEC) {
                Ok(received) => break received,
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Ok(None),
                Err(error) => return Err(failed("receiving from the other end")(error)),
            }
        };
        let mut descriptors = Vec::new();
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(came) = message {
                descriptors.extend(came);
            }
        }
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(failed("receiving from the other end")(Errno::MSGSIZE));
        }
        if received.bytes == 0 {
            return Ok(None);
        }
        bytes.truncate(received.bytes);
        Ok(Some(Packet { bytes, descriptors }))
    }

    /// Ends the connection: both ends find that the other is gone.
    pub fn end(&self) {
        // It may have ended already.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Ends the wait of `Channel::accept`.
pub fn stop_listening(listening: &OwnedFd) {
    // It may have ended already.
    let _ = shutdown(listening, Shutdown::Both);
}
