//! The connection over which a donor passes slabs: packets of a fixed length, with a descriptor beside them now and then.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::time::Duration;

use aquifer_device::own;
use aquifer_sys::descriptors;
use aquifer_sys::memory::SharedMemory;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    listen, recvmsg, sendmsg, socket_with,
};

use crate::transport::fabric::Token;

/// Bytes of a packet: a token, or a number and zeros.
const PACKET_BYTES: usize = size_of::<Token>();
/// A borrower looks at the clock so long for each transfer, so a donor cannot ask for more.
pub const DELAY_MAX: Duration = Duration::from_millis(1);
/// Borrowers that may wait for the donor at once.
const BACKLOG: i32 = 64;

/// One end of a connection, or where borrowers connect to.
#[derive(Debug)]
pub struct Passing {
    socket: OwnedFd,
}

/// What came.
#[derive(Debug)]
pub struct Packet {
    pub bytes: [u8; PACKET_BYTES],
    pub memory: Option<SharedMemory>,
}

impl Passing {
    fn new() -> rustix::io::Result<Passing> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Ok(Passing::own(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?))
    }

    /// A program that knows nothing of the descriptor must not close it.
    fn own(socket: OwnedFd) -> Passing {
        Passing { socket: own(socket) }
    }

    /// Waits for borrowers at a number; `EADDRINUSE` if somebody else has it.
    pub fn listen(number: u16) -> rustix::io::Result<Passing> {
        let passing = Passing::new()?;
        bind(&passing.socket, &name(number)?)?;
        listen(&passing.socket, BACKLOG)?;
        Ok(passing)
    }

    /// Connects to the donor at a number.
    pub fn connect(number: u16) -> rustix::io::Result<Passing> {
        let passing = Passing::new()?;
        connect(&passing.socket, &name(number)?)?;
        Ok(passing)
    }

    /// The next who has connected; `EAGAIN` if nobody has.
    pub fn accept(&self) -> rustix::io::Result<Passing> {
        accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).map(Passing::own)
    }

    /// Waits until something has come, for at most so long; says whether something has, be it the end.
    pub fn wait(&self, limit: Duration) -> rustix::io::Result<bool> {
        let limit = Timespec::try_from(limit).map_err(|_| Errno::INVAL)?;
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut polled, Some(&limit)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends a packet; `EAGAIN` if the other side takes none.
    pub fn send(&self, bytes: &[u8; PACKET_BYTES], memory: Option<&SharedMemory>) -> rustix::io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        // SAFETY: the memory has the descriptor open until it is dropped.
        let descriptor = memory.map(|memory| unsafe { BorrowedFd::borrow_raw(memory.raw_fd()) });
        let descriptors = descriptor.as_slice();
        if !descriptors.is_empty() {
            beside.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        loop {
            match sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut beside, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                outcome => return outcome.map(drop),
            }
        }
    }

    /// The packet that has come; `EAGAIN` if none has, `EPIPE` when the other side is gone, `EBADMSG` if it
    /// is malformed.
    pub fn receive(&self) -> rustix::io::Result<Packet> {
        let mut bytes = [0; PACKET_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let into = &mut [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.socket, into, &mut beside, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Err(Errno::PIPE),
                outcome => break outcome?,
            }
        };
        // All that came is taken, so that what is too much is closed.
        let mut came = Vec::new();
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                // SAFETY: each is open and was just received.
                came.extend(descriptors.map(|fd| unsafe { SharedMemory::from_raw_fd(fd.into_raw_fd()) }));
            }
        }
        if received.bytes == 0 {
            return Err(Errno::PIPE);
        }
        let is_cut = received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
        if is_cut || received.bytes != PACKET_BYTES || came.len() > 1 {
            return Err(Errno::BADMSG);
        }
        Ok(Packet { bytes, memory: came.pop() })
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        descriptors::forget(self.socket.as_raw_fd());
    }
}

impl AsFd for Passing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A name that is no file, known to programs that share the network namespace. It has no access rights: tokens let in.
fn name(number: u16) -> rustix::io::Result<SocketAddrUnix> {
    SocketAddrUnix::new_abstract_name(format!("aquifer-donor-{number}").as_bytes())
}

/// The packet that lets a borrower in.
pub fn of_delay(delay: Duration) -> [u8; PACKET_BYTES] {
    of_key(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX))
}

/// How long each transfer takes at least, as the packet says that lets a borrower in.
pub fn delay_of(bytes: &[u8; PACKET_BYTES]) -> Option<Duration> {
    key_of(bytes).map(Duration::from_nanos).filter(|delay| *delay <= DELAY_MAX)
}

/// The packet that says which slab.
pub fn of_key(key: u64) -> [u8; PACKET_BYTES] {
    let mut bytes = [0; PACKET_BYTES];
    bytes[..8].copy_from_slice(&key.to_le_bytes());
    bytes
}

/// Which slab a packet says.
pub fn key_of(bytes: &[u8; PACKET_BYTES]) -> Option<u64> {
    let (key, rest) = bytes.split_first_chunk()?;
    rest.iter().all(|byte| *byte == 0).then_some(u64::from_le_bytes(*key))
}
