//! A client that says whatever it is told to.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use aquifer_sys::Userfaultfd;
use aquifer_sys::memory::{MappedRange, Protection, SharedMemory};
use aquifer_sys::uffd::Features;
use aquifer_volume::PAGE_BYTES;
use aquifer_volume::serve::protocol::{Answer, Operation, Request, VERSION};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

/// Most descriptors that the kernel takes with a packet.
const DESCRIPTORS_MAX: usize = 253;

/// A connection.
pub struct Raw(OwnedFd);

impl Raw {
    /// Connects and says the version.
    pub fn connect(socket: &Path) -> Self {
        let raw = Self::silent(socket);
        assert_eq!(raw.hello().errno, 0);
        raw
    }

    /// Connects and says nothing.
    pub fn silent(socket: &Path) -> Self {
        let raw = Self::unconnected();
        raw.connect_to(socket);
        raw
    }

    /// Connects it.
    pub fn connect_to(&self, socket: &Path) {
        rustix::net::connect(&self.0, &SocketAddrUnix::new(socket).expect("address")).expect("connect");
    }

    /// A socket without a connection.
    pub fn unconnected() -> Self {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let descriptor = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).expect("socket");
        // No answer comes so late.
        let timeout = rustix::net::sockopt::Timeout::Recv;
        rustix::net::sockopt::set_socket_timeout(&descriptor, timeout, Some(super::TOO_LONG))
            .expect("timeout");
        Raw(descriptor)
    }

    /// Says the version; what the server says to that.
    pub fn hello(&self) -> Answer {
        self.ask(&Request { a: VERSION, ..Request::new(Operation::Hello, 0) }, None).0
    }

    /// Sends a packet; whether somebody is there to get it.
    pub fn send(&self, bytes: &[u8], beside: &[BorrowedFd<'_>]) -> bool {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !beside.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(beside)));
        }
        rustix::net::sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).is_ok()
    }

    /// The next answer, with the descriptor that came with it; `None` if the server has ended the connection.
    pub fn receive(&self) -> Option<(Answer, Option<OwnedFd>)> {
        let mut bytes = vec![0; 128 << 10];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let into = &mut [IoSliceMut::new(&mut bytes)];
        let got = match rustix::net::recvmsg(&self.0, into, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::AGAIN) => panic!("no answer comes"),
            Err(_) => return None,
            Ok(got) if got.bytes == 0 => return None,
            Ok(got) => got,
        };
        let came = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        Some((Answer::decode(&bytes[..got.bytes]).expect("an answer"), came))
    }

    /// The answer, and the descriptor that came with it.
    pub fn ask(&self, request: &Request<'_>, beside: Option<BorrowedFd<'_>>) -> (Answer, Option<OwnedFd>) {
        assert!(self.send(&request.encode(), beside.as_slice()), "somebody is there");
        self.receive().expect("an answer")
    }

    /// Opens a file.
    pub fn open(&self, path: &str, flags: u64) -> u32 {
        let answer = self.try_open(path.as_bytes(), flags);
        assert_eq!(answer.errno, 0, "{path}: {}", String::from_utf8_lossy(&answer.bytes));
        answer.handle
    }

    /// What the server says to opening a file.
    pub fn try_open(&self, path: &[u8], flags: u64) -> Answer {
        self.ask(&Request { a: flags, b: 0o644, bytes: path, ..Request::new(Operation::Open, 0) }, None).0
    }

    /// The error number of a request without numbers, for a handle.
    pub fn errno_of(&self, operation: Operation, handle: u32) -> i32 {
        self.ask(&Request::new(operation, handle), None).0.errno.cast_signed()
    }

    /// The memory of a file.
    pub fn memory(&self, handle: u32) -> OwnedFd {
        self.ask(&Request::new(Operation::Pages, handle), None).1.expect("memory")
    }

    /// The answer to attaching `pages` pages at an address.
    pub fn attach(
        &self,
        handle: u32,
        address: u64,
        pages: u32,
        how: u64,
        faults: Option<&Userfaultfd>,
    ) -> Answer {
        let request =
            Request { a: address, b: pages.into(), c: how, ..Request::new(Operation::Attach, handle) };
        self.ask(&request, faults.map(descriptor_of)).0
    }

    /// Maps `pages` pages of a file as an honest client does, with a userfaultfd that the server has already or gets now.
    pub fn map(
        &self,
        handle: u32,
        pages: usize,
        access: Protection,
        faults: &Userfaultfd,
        is_new: bool,
    ) -> (MappedRange, u32) {
        let memory = shared(self.memory(handle));
        let range = memory.map(0, pages * PAGE_BYTES, access).expect("map");
        let is_private = matches!(access, Protection::CopyOnWrite | Protection::ReadPrivately);
        // SAFETY: the range is new, and the server resolves its faults.
        unsafe { faults.register_shared(range.base(), range.len(), !is_private) }.expect("register");
        let how = match access {
            Protection::Read => 0,
            Protection::Write => 1,
            _ => 2,
        };
        let answer = self.attach(handle, range.base() as u64, pages as u32, how, is_new.then_some(faults));
        assert_eq!(answer.errno, 0, "{}", String::from_utf8_lossy(&answer.bytes));
        (range, answer.handle)
    }
}

impl AsFd for Raw {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Memory that a server gave.
pub fn shared(memory: OwnedFd) -> SharedMemory {
    // SAFETY: the descriptor is given away here.
    unsafe { SharedMemory::from_raw_fd(std::os::fd::IntoRawFd::into_raw_fd(memory)) }
}

/// The descriptor of a userfaultfd, which is open while the result is used.
pub fn descriptor_of(faults: &Userfaultfd) -> BorrowedFd<'_> {
    // SAFETY: it lives as long as the borrow.
    unsafe { BorrowedFd::borrow_raw(faults.raw_fd()) }
}

/// A userfaultfd with the features of an honest client.
pub fn faults() -> Userfaultfd {
    faults_with(Features::NONE)
}

/// The same, with some more.
pub fn faults_with(more: Features) -> Userfaultfd {
    let honest = Features::MISSING_SHMEM
        | Features::MINOR_SHMEM
        | Features::WP_SHMEM
        | Features::PAGEFAULT_FLAG_WP
        | Features::POISON;
    Userfaultfd::open(honest | more).expect("a userfaultfd")
}
