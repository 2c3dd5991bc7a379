//! A thread that forks has closed the gates and waits for a lock of the C library, whose holder waits at a gate: in a handler that came while
//! it was in `malloc`, or in `fflush`. Then there is a recess, in which all go on.
//!
//! The waiting thread asks for a recess by a SIGBUS to the thread that forks, the one signal that this thread
//! does not block. Its handler, in the midst of that wait, opens the gates for a while and closes them again:
//! nothing is copied while a thread is inside.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU8;

use aquifer_sys::signal;

/// Its address marks signals that ask.
static MARK: AtomicU8 = AtomicU8::new(0);
/// What the thread that forks does then.
static RECESS: OnceLock<fn()> = OnceLock::new();

/// Has `recess` run in a handler of the thread that is asked.
pub(crate) fn install(recess: fn()) {
    RECESS.get_or_init(|| recess);
}

/// Asks the thread that forks. If it does no more, nothing happens.
pub(crate) fn ask_in_fault(thread: u32) {
    if RECESS.get().is_some() {
        signal::send_sigbus(thread, &MARK);
    }
}

/// In a handler of SIGBUS: grants what is asked for; false if the signal does not ask.
///
/// # Safety
/// `info` is the second argument of the handler.
pub(crate) unsafe fn grant_in_fault(info: *const libc::siginfo_t) -> bool {
    // SAFETY: passed on to the caller.
    let asks = unsafe { signal::has_mark(info, &MARK) };
    if asks && let Some(recess) = RECESS.get() {
        recess();
    }
    asks
}
