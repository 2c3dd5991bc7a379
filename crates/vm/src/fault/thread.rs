//! Faults read by a thread of the library.
//!
//! Slower than SIGBUS by two context switches, but a system call that is given an absent page waits for
//! it instead of failing with EFAULT (where the kernel allows that without restriction).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use aquifer_sys::{Event, descriptors, spin};

use crate::engine::Engine;
use crate::error::FaultError;
use crate::fault::{abort_in_fault, report_in_fault};
use crate::helper::Helper;

/// Threads that handle the faults of one heap: as many reads can be under way at once.
pub const HANDLERS: usize = 4;

/// The running handler threads; they end when this is dropped.
pub struct Handlers {
    stop: OwnedFd,
    threads: Vec<Helper>,
}

/// Starts the threads that resolve the engine's faults.
///
/// # Errors
/// No thread or descriptor could be made.
pub fn start(engine: &Arc<Engine>) -> io::Result<Handlers> {
    spin::faults_are_resolved();
    // SAFETY: a plain system call; the result is checked.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and ours.
    let stop = unsafe { OwnedFd::from_raw_fd(fd) };
    descriptors::note(fd);
    let mut handlers = Handlers { stop, threads: Vec::new() };
    for _ in 0..HANDLERS {
        let (engine, stop) = (engine.clone(), handlers.stop.as_raw_fd());
        handlers.threads.push(Helper::start(c"aquifer-fault", move || run(&engine, stop))?);
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

fn run(engine: &Engine, stop: i32) {
    loop {
        match engine.uffd.poll(stop, -1) {
            Ok(ready) if ready.woken => return,
            Ok(_) => {}
            Err(_) => abort_in_fault(b"waiting for faults failed\n"),
        }
        while let Ok(Some(event)) = engine.uffd.read_event() {
            if let Event::PageFault { address, write, write_protected, .. } = event {
                resolve(engine, address, write || write_protected);
            }
        }
    }
}

fn resolve(engine: &Engine, address: usize, write: bool) {
    let Some(page) = engine.page_at(address) else { return };
    match engine.fault(page, write) {
        Ok(_) => {}
        Err(FaultError::Again { page, reason }) => {
            engine.note_again_in_fault(page, address, reason);
            // The thread that faulted does so again.
            if engine.wake_in_fault(page).is_err() {
                abort_in_fault(b"waking a thread that faulted failed\n");
            }
        }
        Err(error) => {
            report_in_fault(&error);
            // The thread that faulted sleeps in the kernel and cannot be given an error; the process ends as
            // it would on a SIGBUS that nobody handles.
            // SAFETY: ends the process.
            unsafe { aquifer_sys::signal::raise_default(libc::SIGBUS) };
        }
    }
}
