//! Which signals may come in.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr;

/// Signals that are raised for the instruction at hand, SIGSYS for a system call that is caught. They are never blocked: the kernel
/// kills a process whose fault cannot be delivered.
pub(super) const FAULT_SIGNALS: [i32; 6] =
    [libc::SIGBUS, libc::SIGSEGV, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

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

/// `pthread_sigmask` by the system call itself: a program's own may be one that asks us.
///
/// # Safety
/// Both are NULL or valid; only as many bytes as the kernel has signals are looked at and changed.
unsafe fn change_mask(how: libc::c_int, set: *const libc::sigset_t, before: *mut libc::sigset_t) {
    const KERNEL_BYTES: usize = 8;
    // SAFETY: passed on to the caller. It fails only for an unknown first argument.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, set, before, KERNEL_BYTES) };
}

/// Whether no signal handler can interrupt this thread, except for those of faults: [`SignalsBlocked`] lives, or it is in the handler
/// of a fault. Asks the kernel.
pub fn are_blocked() -> bool {
    let mut now = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the set is writable, initialised by zeros, and filled in by the kernel.
    unsafe {
        change_mask(libc::SIG_BLOCK, ptr::null(), now.as_mut_ptr());
        // These stand for all.
        [libc::SIGTERM, libc::SIGALRM, libc::SIGPROF]
            .into_iter()
            .all(|signal| libc::sigismember(now.as_ptr(), signal) == 1)
    }
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
}

const PTHREAD_CANCEL_DISABLE: libc::c_int = 1;

/// Disables cancellation of this thread while it lives. Memory accesses and allocations are no cancellation
/// points natively, so the library's calls in them must not be any: the thread would leave them half done.
///
/// # Context
/// Changes a word of the thread's own. Signal-safe.
#[must_use = "the thread may be cancelled again when the guard drops"]
pub struct CancellationDisabled {
    saved: libc::c_int,
    /// The state belongs to one thread, and so does the guard.
    not_send: PhantomData<*mut ()>,
}

impl CancellationDisabled {
    /// Disables this thread's cancellation.
    pub fn new() -> CancellationDisabled {
        let mut saved = 0;
        // SAFETY: changes this thread's state only, and fails only for an unknown one.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut saved) };
        CancellationDisabled { saved, not_send: PhantomData }
    }
}

impl Default for CancellationDisabled {
    fn default() -> Self {
        CancellationDisabled::new()
    }
}

impl Drop for CancellationDisabled {
    fn drop(&mut self) {
        // SAFETY: as in `new`.
        unsafe { pthread_setcancelstate(self.saved, ptr::null_mut()) };
    }
}

/// While this lives, no signal handler interrupts this thread, except for faults (SIGBUS, SIGSEGV,
/// SIGFPE, SIGILL, SIGTRAP) and SIGABRT, and it is not cancelled. What arrives meanwhile is delivered after the drop.
///
/// Guards nest; they must be dropped in the reverse order of their making.
#[must_use = "signals are let in again when the guard drops"]
pub struct SignalsBlocked {
    saved: libc::sigset_t,
    _cancellation: CancellationDisabled,
}

impl SignalsBlocked {
    /// Blocks this thread's signals.
    pub fn new() -> SignalsBlocked {
        let _cancellation = CancellationDisabled::new();
        let mut saved = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: both sets live for the call, which changes this thread's mask only. It fails
        // only for an unknown first argument.
        let saved = unsafe {
            change_mask(libc::SIG_BLOCK, &blockable_signals(), saved.as_mut_ptr());
            saved.assume_init()
        };
        SignalsBlocked { saved, _cancellation }
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
        unsafe { change_mask(libc::SIG_SETMASK, &self.saved, ptr::null_mut()) };
    }
}
