//! Which signals may come in.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr;

/// Signals the processor raises for the instruction at hand. They are never blocked: the kernel
/// kills a process whose fault cannot be delivered.
pub(super) const FAULT_SIGNALS: [i32; 5] =
    [libc::SIGBUS, libc::SIGSEGV, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];

/// Every signal except those of a fault and SIGABRT, with which broken invariants end the process.
pub(super) fn blockable_signals() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: `set` is writable, and sigfillset initialises it before the other calls read it.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        for signal in FAULT_SIGNALS.into_iter().chain([libc::SIGABRT]) {
            libc::sigdelset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

/// Whether no signal handler can interrupt this thread, except for those of faults: [`SignalsBlocked`] lives, or it is in the handler
/// of a fault. Asks the kernel.
pub fn are_blocked() -> bool {
    let mut now = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the set is writable, initialised by zeros, and filled in by the kernel.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), now.as_mut_ptr());
        // These stand for all.
        [libc::SIGTERM, libc::SIGALRM, libc::SIGPROF]
            .into_iter()
            .all(|signal| libc::sigismember(now.as_ptr(), signal) == 1)
    }
}

/// While this lives, no signal handler interrupts this thread, except for faults (SIGBUS, SIGSEGV,
/// SIGFPE, SIGILL, SIGTRAP) and SIGABRT. What arrives meanwhile is delivered after the drop.
///
/// Guards nest; they must be dropped in the reverse order of their making.
#[must_use = "signals are let in again when the guard drops"]
pub struct SignalsBlocked {
    saved: libc::sigset_t,
    /// The mask belongs to one thread, and so does the guard.
    not_send: PhantomData<*mut ()>,
}

impl SignalsBlocked {
    /// Blocks this thread's signals.
    pub fn new() -> SignalsBlocked {
        let mut saved = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: both sets live for the call, which changes this thread's mask only. It fails
        // only for an unknown first argument.
        let saved = unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &blockable_signals(), saved.as_mut_ptr());
            saved.assume_init()
        };
        SignalsBlocked { saved, not_send: PhantomData }
    }
}

impl Default for SignalsBlocked {
    fn default() -> Self {
        SignalsBlocked::new()
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: the set was filled in by the kernel for this thread.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.saved, ptr::null_mut()) };
    }
}
