//! Packets to a server, and what comes back.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg,
    socket_with,
};

/// A connection.
pub struct Packets(OwnedFd);

impl Packets {
    /// Connects to a server, which answers within `patience`.
    pub fn connect(path: &Path, patience: Duration) -> Self {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None).expect("a socket");
        connect(&socket, &SocketAddrUnix::new(path).expect("an address")).expect("connected");
        set_socket_timeout(&socket, Timeout::Recv, Some(patience)).expect("a limit");
        Packets(socket)
    }

    /// Sends a packet; `false` if the server has ended the connection.
    pub fn send(&self, packet: &[u8], beside: &[BorrowedFd<'_>]) -> bool {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !beside.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(beside)));
        }
        sendmsg(&self.0, &[IoSlice::new(packet)], &mut control, SendFlags::NOSIGNAL).is_ok()
    }

    /// The next packet, with the descriptor beside it; `None` if the server has ended the connection.
    ///
    /// # Panics
    /// When none comes.
    pub fn receive(&self) -> Option<(Vec<u8>, Option<OwnedFd>)> {
        let mut bytes = vec![0; 128 << 10];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let into = &mut [IoSliceMut::new(&mut bytes)];
        let got = match recvmsg(&self.0, into, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::AGAIN) => panic!("no answer comes"),
            Err(_) => return None,
            Ok(got) if got.bytes == 0 => return None,
            Ok(got) => got.bytes,
        };
        let descriptor = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        bytes.truncate(got);
        Some((bytes, descriptor))
    }
}
