//! Faults as SIGBUS in the faulting thread: the default, and the fastest.
//!
//! The handler finds whose memory it is by address in a fixed registry, resolves the fault and returns to the
//! instruction. Faults that are none of ours go to the handler that was there before.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use aquifer_base::Found;
use aquifer_sys::stripe::{STRIPES, stripe};
use aquifer_sys::{Backoff, Errno, ErrnoGuard, signal, spin};

use crate::recess;

use super::observer::{ResolvedFault, observer_in_fault, tell_newcomer_in_fault};

/// Heaps and volumes of one process.
pub const HEAPS_MAX: usize = 16;

/// Memory whose faults are resolved in the faulting thread.
pub trait FaultTarget: Send + Sync {
    /// Makes the page at `address` accessible; `None` if it is not this memory's.
    ///
    /// # Context
    /// Called in a signal handler of the thread that faulted.
    fn resolve_in_fault(&self, address: usize, write: bool) -> Option<Resolved>;
}

/// What became of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resolved {
    /// The page is accessible.
    Found(Found),
    /// It cannot be had at this moment. Signals that came meanwhile are handled first; then the instruction faults again.
    Again,
    /// It cannot be had, after a line on standard error that says why.
    Failed,
}

/// Handlers that may be using a target now, in a cache line of their own.
#[repr(align(64))]
struct Users(AtomicU32);

struct Registered {
    /// A pointer of one word to a pointer of two.
    target: AtomicPtr<Arc<dyn FaultTarget>>,
    users: [Users; STRIPES],
}

static REGISTRY: [Registered; HEAPS_MAX] = [const {
    Registered {
        target: AtomicPtr::new(std::ptr::null_mut()),
        users: [const { Users(AtomicU32::new(0)) }; STRIPES],
    }
}; HEAPS_MAX];
static INSTALLING: Mutex<()> = Mutex::new(());
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// What is done with a SIGBUS that is none of ours; null is the default. Replaced ones are kept, because a handler may
/// still be looking at them.
static NEXT: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());

/// Replaces what is done with a SIGBUS that is none of ours, once a heap was opened, and returns what was done before;
/// `None` if none was opened yet. `None` as argument leaves it.
pub fn replace_next(action: Option<&libc::sigaction>) -> Option<libc::sigaction> {
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if !INSTALLED.load(Ordering::Acquire) {
        return None;
    }
    let before = match action {
        Some(action) => NEXT.swap(Box::into_raw(Box::new(*action)), Ordering::AcqRel),
        None => NEXT.load(Ordering::Acquire),
    };
    // SAFETY: zeros are a valid action, the default; what the pointer refers to is never freed.
    Some(unsafe { before.as_ref().copied().unwrap_or_else(|| std::mem::zeroed()) })
}

/// Makes the target's faults reach it. It stays registered until the guard is dropped.
///
/// # Errors
/// `EBUSY` if there are [`HEAPS_MAX`] heaps already, or the kernel's answer to `sigaction`.
pub fn register(target: Arc<dyn FaultTarget>) -> Result<Registration, Errno> {
    install()?;
    let target = Box::new(target);
    let pointer = std::ptr::from_ref(&*target).cast_mut();
    for (index, slot) in REGISTRY.iter().enumerate() {
        let free = std::ptr::null_mut();
        if slot.target.compare_exchange(free, pointer, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return Ok(Registration { index, _target: target });
        }
    }
    Err(Errno::EBUSY)
}

/// Memory whose faults are handled.
pub struct Registration {
    index: usize,
    _target: Box<Arc<dyn FaultTarget>>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let slot = &REGISTRY[self.index];
        slot.target.store(std::ptr::null_mut(), Ordering::SeqCst);
        let mut backoff = Backoff::new();
        for users in &slot.users {
            while users.0.load(Ordering::SeqCst) != 0 {
                backoff.wait();
            }
        }
    }
}

fn install() -> Result<(), Errno> {
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if INSTALLED.load(Ordering::Acquire) {
        return Ok(());
    }
    spin::faults_are_resolved();
    // SAFETY: the handler is async-signal-safe and chains to the action that is returned.
    let previous = unsafe { signal::install_sigbus(on_sigbus)? };
    // A fault in this instant finds no target and is treated as the default.
    NEXT.store(Box::into_raw(Box::new(previous)), Ordering::Release);
    INSTALLED.store(true, Ordering::Release);
    Ok(())
}

extern "C" fn on_sigbus(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    let _errno = ErrnoGuard::new();
    let _cancellation = signal::CancellationDisabled::new();
    // SAFETY: the kernel calls the handler with valid pointers.
    let (is_fault, address, write) = unsafe {
        (signal::is_page_fault(info), signal::fault_address(info), signal::fault_is_write(context))
    };
    // SAFETY: as above.
    if !is_fault && unsafe { recess::grant_in_fault(info) } {
        return;
    }
    let observer = observer_in_fault().map(|observer| (observer, Instant::now()));
    match if is_fault { resolve_in_fault(address, write) } else { Resolved::Failed } {
        Resolved::Found(found) => {
            tell_newcomer_in_fault(context);
            if let Some((observer, began)) = observer {
                observer(&ResolvedFault { context, address, found, duration: began.elapsed() });
            }
            return;
        }
        Resolved::Again => return,
        Resolved::Failed => {}
    }
    // SAFETY: what it refers to is never freed or changed.
    match unsafe { NEXT.load(Ordering::Acquire).as_ref() } {
        // SAFETY: these are the arguments that the kernel gave us.
        Some(previous) => unsafe { signal::chain(previous, signal, info, context) },
        // SAFETY: ends the process the way an unhandled SIGBUS does.
        None => unsafe { signal::raise_default(signal) },
    }
}

/// What became of a fault at `address`, which failed if it is nobody's.
fn resolve_in_fault(address: usize, write: bool) -> Resolved {
    for slot in &REGISTRY {
        if slot.target.load(Ordering::Relaxed).is_null() {
            continue;
        }
        let users = &slot.users[stripe()].0;
        users.fetch_add(1, Ordering::SeqCst);
        let target = slot.target.load(Ordering::SeqCst);
        // SAFETY: the registration keeps the target alive until `users` is zero again.
        let outcome = unsafe { target.as_ref() }.and_then(|target| target.resolve_in_fault(address, write));
        users.fetch_sub(1, Ordering::Release);
        if let Some(outcome) = outcome {
            return outcome;
        }
    }
    Resolved::Failed
}
