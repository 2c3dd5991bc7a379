//! Messages of a userfaultfd, for a handler thread.

use core::ffi::c_int;
use core::mem::size_of;
use core::ptr;

use super::{Userfaultfd, abi};
use crate::errno::{Errno, Result};

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A thread touched a registered page and sleeps until it is resolved or woken.
    PageFault {
        /// The page, or the exact address with [`super::Features::EXACT_ADDRESS`].
        address: usize,
        /// The access was a write.
        write: bool,
        /// The page is present but write-protected.
        write_protected: bool,
        /// The page is absent.
        missing: bool,
        /// The thread that sleeps, with [`super::Features::THREAD_ID`]; else 0.
        thread_id: u32,
    },
    /// A message of another kind, which must have been asked for by its feature.
    Other(u8),
}

/// What [`Userfaultfd::poll`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// There is something for [`Userfaultfd::read_event`].
    pub events: bool,
    /// The other descriptor is readable.
    pub woken: bool,
    /// The descriptor tells nothing: a process that shares it makes its readers wait, or no features were agreed on.
    pub is_mute: bool,
}

impl Userfaultfd {
    /// The next message, or `None` if there is none now.
    ///
    /// # Errors
    /// The kernel's; no message is lost.
    ///
    /// # Context
    /// Does not block. Signal-safe.
    pub fn read_event(&self) -> Result<Option<Event>> {
        let mut message = abi::Message::default();
        let message_ptr = ptr::from_mut(&mut message);
        // A process that shares the descriptor can have its readers wait. Linux before 6.10 knows no read that does not wait in any case.
        let mut waits = !self.is_of_other;
        loop {
            let (fd, bytes) = (self.raw_fd(), size_of::<abi::Message>());
            let returned = if waits {
                // SAFETY: the kernel writes one message of this size, all of it plain integers.
                unsafe { libc::read(fd, message_ptr.cast(), bytes) }
            } else {
                let into = libc::iovec { iov_base: message_ptr.cast(), iov_len: bytes };
                // SAFETY: as above; the vector lives for the call.
                unsafe { libc::preadv2(fd, &raw const into, 1, -1, libc::RWF_NOWAIT) }
            };
            match Errno::check(returned as i64) {
                Ok(_) => return Ok(Some(decode(&message))),
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno(libc::EOPNOTSUPP)) if !waits => waits = true,
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for a message, until `wake_fd` (an eventfd, say; -1 for none) is readable, or until
    /// `timeout_ms` milliseconds are over (-1: no limit). A signal ends the wait early, with
    /// neither of the two ready.
    ///
    /// # Errors
    /// The kernel's.
    ///
    /// # Context
    /// Blocks. Signal-safe.
    pub fn poll(&self, wake_fd: c_int, timeout_ms: i32) -> Result<Ready> {
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut entries = [entry(self.raw_fd()), entry(wake_fd)];
        // SAFETY: the array lives for the call and has the length that is passed on.
        let returned = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as _, timeout_ms) };
        match Errno::check(i64::from(returned)) {
            Ok(_) => {
                let ready = |at: usize| entries[at].revents != 0;
                let is_mute = entries[0].revents & libc::POLLERR != 0;
                Ok(Ready { events: ready(0), woken: ready(1), is_mute })
            }
            Err(Errno::EINTR) => Ok(Ready { events: false, woken: false, is_mute: false }),
            Err(error) => Err(error),
        }
    }
}

fn decode(message: &abi::Message) -> Event {
    if message.event != abi::EVENT_PAGE_FAULT {
        return Event::Other(message.event);
    }
    Event::PageFault {
        address: message.address as usize,
        write: message.flags & abi::FAULT_WRITE != 0,
        write_protected: message.flags & abi::FAULT_WP != 0,
        missing: message.flags & (abi::FAULT_WP | abi::FAULT_MINOR) == 0,
        thread_id: message.thread_id,
    }
}
