//! SIGBUS, by which the kernel reports an absent or write-protected page of a userfaultfd to the thread that touched it, and SIGSEGV, by which it reports a
//! page that may not be touched.

mod chain;
mod child;
mod fault;
mod mask;

pub use chain::{chain, raise_default};
pub use child::{Forwarding, hold_for_program};
pub use fault::{fault_address, fault_is_write, has_mark, is_page_fault, send_sigbus};
pub use mask::{CancellationDisabled, SignalsBlocked, are_blocked};

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use libc::siginfo_t;

use crate::errno::{Errno, Result};
use mask::blockable_signals;

/// A handler as `SA_SIGINFO` calls it: signal number, what happened, and the interrupted context.
pub type Handler = extern "C" fn(i32, *mut siginfo_t, *mut c_void);

static ROOM_ON_ALTERNATE_STACKS: AtomicBool = AtomicBool::new(false);

/// Promises that every alternate stack of this process has room for the handler of [`install`] beside one of the program's, 64 KiB, and is
/// always there.
pub fn alternate_stacks_have_room() {
    ROOM_ON_ALTERNATE_STACKS.store(true, Ordering::Relaxed);
}

/// Makes `handler` the process's handler of SIGBUS or SIGSEGV and returns what was there before, for
/// [`chain`] and [`restore`].
///
/// The handler runs on the stack that faulted: alternate stacks are often just large enough for a
/// handler that reports and dies. Where all have room ([`alternate_stacks_have_room`]) it runs on that of the thread, if there is one: then
/// the stack that faulted may itself be absent. Everything is blocked except
/// the signals by which the processor reports a fault. The signal itself is blocked too (there is no
/// `SA_NODEFER`): a page fault inside the handler would be one of our own bugs, and kills the
/// process at the spot instead of recursing.
///
/// # Safety
/// `handler` does only what is async-signal-safe, and preserves `errno`.
///
/// # Errors
/// The kernel's; the earlier handler stays then.
pub unsafe fn install(signal: i32, handler: Handler) -> Result<libc::sigaction> {
    // SAFETY: all fields are integers or an optional function pointer; zeros are valid for them.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler as usize;
    let on_stack = if ROOM_ON_ALTERNATE_STACKS.load(Ordering::Relaxed) { libc::SA_ONSTACK } else { 0 };
    action.sa_flags = libc::SA_SIGINFO | on_stack;
    action.sa_mask = blockable_signals();
    // SAFETY: the caller answers for the handler.
    unsafe { set_action(signal, &action) }
}

/// Makes `previous`, an answer of [`install`], the process's handler of the signal again.
///
/// # Safety
/// The handler in `previous` still exists: its library has not been unloaded.
///
/// # Errors
/// The kernel's; the present handler stays then.
pub unsafe fn restore(signal: i32, previous: &libc::sigaction) -> Result<()> {
    // SAFETY: the caller answers for the handler.
    unsafe { set_action(signal, previous) }.map(drop)
}

/// Whether the signal has its default action, which a handler that has run may have restored.
///
/// # Context
/// Signal-safe.
pub fn is_default(signal: i32) -> bool {
    let mut now = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the structure lives for the call, which changes nothing.
    let returned = unsafe { real_sigaction()(signal, ptr::null(), now.as_mut_ptr()) };
    // SAFETY: filled in by the call, and zeros were valid before.
    returned == 0 && unsafe { now.assume_init() }.sa_sigaction == libc::SIG_DFL
}

/// As `sigaction` of the C library.
pub type Sigaction = unsafe extern "C" fn(i32, *const libc::sigaction, *mut libc::sigaction) -> i32;

static SIGACTION: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Names the `sigaction` that reaches the kernel. A library that stands in front of the C library, and so is what
/// this crate would find by that name, says here what it stands in front of.
///
/// # Safety
/// `function` does what `sigaction` does.
pub unsafe fn set_real_sigaction(function: Sigaction) {
    SIGACTION.store(function as *mut c_void, Ordering::Release);
}

fn real_sigaction() -> Sigaction {
    let function = SIGACTION.load(Ordering::Acquire);
    if function.is_null() {
        return libc::sigaction;
    }
    // SAFETY: stored by `set_real_sigaction`.
    unsafe { core::mem::transmute::<*mut c_void, Sigaction>(function) }
}

/// # Safety
/// A handler in `action` is fit to run as a handler of `signal`.
unsafe fn set_action(signal: i32, action: &libc::sigaction) -> Result<libc::sigaction> {
    let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: both structures live for the call; the caller answers for the handler.
    let returned = unsafe { real_sigaction()(signal, ptr::from_ref(action), previous.as_mut_ptr()) };
    Errno::check(i64::from(returned))?;
    // SAFETY: filled in by the call, and zeros were valid before.
    Ok(unsafe { previous.assume_init() })
}

#[cfg(test)]
mod tests;
