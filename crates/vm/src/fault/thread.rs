//! Faults read by a thread of the library.
//!
//! Slower than SIGBUS by two context switches, but a system call that is given an absent page waits for
//! it instead of failing with EFAULT (where the kernel allows that without restriction).
//!
//! A fault that was read may be over before it is resolved: somebody else brings the page in, the toucher goes on, and may free
//! what it touched. Where nothing is there any more, that is no reason to end the process.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use aquifer_sys::helper::Helper;
use aquifer_sys::{Errno, Event, Ready, descriptors, spin};

use super::abort_in_fault;
use super::signal::{FaultTarget, Resolved};

/// Threads that handle the faults of one heap: as many reads can be under way at once.
pub const HANDLERS: usize = 4;

/// Memory whose faults are read.
pub trait FaultSource: FaultTarget {
    /// Waits for a fault, or until the descriptor `stop` can be read.
    ///
    /// # Errors
    /// The kernel's.
    fn wait_for_faults(&self, stop: i32) -> Result<Ready, Errno>;

    /// The next fault that waits.
    ///
    /// # Errors
    /// The kernel's.
    fn next_event(&self) -> Result<Option<Event>, Errno>;

    /// Goes up before any memory ceases to be allocated.
    fn frees(&self) -> u64;

    /// As [`FaultTarget::resolve_in_fault`] for a fault that was read when [`FaultSource::frees`] was `frees` at least. If memory that is
    /// not allocated may have been when the fault was read, the answer is [`Resolved::Again`].
    fn resolve_read_in_fault(&self, address: usize, write: bool, frees: u64) -> Option<Resolved>;

    /// Has the threads that sleep for the page at `address` try again.
    ///
    /// # Errors
    /// The kernel's.
    fn wake_in_fault(&self, address: usize) -> Result<(), Errno>;
}

/// The running handler threads; they end when this is dropped.
pub struct Handlers {
    stop: OwnedFd,
    threads: Vec<Helper>,
}

/// Starts the threads that resolve the faults of `source`.
///
/// # Errors
/// No thread or descriptor could be made.
pub fn start(source: &Arc<dyn FaultSource>) -> io::Result<Handlers> {
    spin::faults_are_resolved();
    // SAFETY: a plain system call; the result is checked.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and ours.
    let stop = unsafe { OwnedFd::from_raw_fd(descriptors::own(fd)) };
    let mut handlers = Handlers { stop, threads: Vec::new() };
    for _ in 0..HANDLERS {
        let (source, stop) = (source.clone(), handlers.stop.as_raw_fd());
        let thread = Helper::start(c"aquifer-fault", move || run(&*source, stop));
        handlers.threads.push(thread.map_err(|errno| io::Error::from_raw_os_error(errno.0))?);
    }
    Ok(handlers)
}

impl Drop for Handlers {
    fn drop(&mut self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: writes eight bytes of ours to our eventfd.
        unsafe { libc::write(self.stop.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        for thread in self.threads.drain(..) {
            thread.join();
        }
        descriptors::forget(self.stop.as_raw_fd());
    }
}

fn run(source: &dyn FaultSource, stop: i32) {
    loop {
        match source.wait_for_faults(stop) {
            Ok(ready) if ready.woken => return,
            Ok(_) => {}
            Err(_) => abort_in_fault(b"waiting for faults failed\n"),
        }
        loop {
            let frees = source.frees();
            let Ok(Some(event)) = source.next_event() else { break };
            if let Event::PageFault { address, write, write_protected, .. } = event {
                resolve(source, address, write || write_protected, frees);
            }
        }
    }
}

fn resolve(source: &dyn FaultSource, address: usize, write: bool, frees: u64) {
    match source.resolve_read_in_fault(address, write, frees) {
        Some(Resolved::Found(_)) | None => {}
        Some(Resolved::Again) => {
            // The thread that faulted does so again, if it still sleeps.
            if source.wake_in_fault(address).is_err() {
                abort_in_fault(b"waking a thread that faulted failed\n");
            }
        }
        Some(Resolved::Failed) => {
            // The thread that faulted sleeps in the kernel and cannot be given an error; the process ends as
            // it would on a SIGBUS that nobody handles.
            // SAFETY: ends the process.
            unsafe { aquifer_sys::signal::raise_default(libc::SIGBUS) };
        }
    }
}
