//! Faults as SIGBUS in the faulting thread: the default, and the fastest. As SIGSEGV where pages are protected.
//!
//! The handler finds whose memory it is by address in a fixed registry, resolves the fault and returns to the
//! instruction. Faults outside of managed memory go to the handler that was installed before.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use aquifer_base::Found;
use aquifer_sys::counter::{STRIPES, stripe};
use aquifer_sys::{Backoff, Errno, ErrnoGuard, own, signal, spin};

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
    /// The page cannot be brought in now. Signals that came meanwhile are handled first; then the instruction
    /// faults again.
    Again,
    /// The page cannot be brought in, as a line on standard error has said.
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

/// A signal that tells of faults.
struct Handled {
    signal: i32,
    is_installed: AtomicBool,
    /// The action for signals that are not the heap's; null is the default. Replaced actions are kept,
    /// because a handler may still read them.
    next: AtomicPtr<libc::sigaction>,
}

impl Handled {
    const fn of(signal: i32) -> Self {
        Self { signal, is_installed: AtomicBool::new(false), next: AtomicPtr::new(std::ptr::null_mut()) }
    }

    fn install(&self) -> Result<(), Errno> {
        if self.is_installed.load(Ordering::Acquire) {
            return Ok(());
        }
        // SAFETY: the handler is async-signal-safe and chains to the action that is returned.
        let previous = unsafe { signal::install(self.signal, on_fault)? };
        // A fault in this instant finds no target and is treated as the default.
        self.next.store(Box::into_raw(Box::new(previous)), Ordering::Release);
        self.is_installed.store(true, Ordering::Release);
        Ok(())
    }
}

static BUS: Handled = Handled::of(libc::SIGBUS);
static SEGV: Handled = Handled::of(libc::SIGSEGV);

fn handled(signal: i32) -> Option<&'static Handled> {
    [&BUS, &SEGV].into_iter().find(|handled| handled.signal == signal)
}

/// Replaces the action for a SIGBUS or SIGSEGV that is not the heap's, and returns the action before. `None`
/// if no heap needed a handler yet, and for other signals. `None` as argument changes nothing.
pub fn replace_next(signal: i32, action: Option<&libc::sigaction>) -> Option<libc::sigaction> {
    let handled = handled(signal)?;
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if !handled.is_installed.load(Ordering::Acquire) {
        return None;
    }
    let before = match action {
        Some(action) => handled.next.swap(Box::into_raw(Box::new(*action)), Ordering::AcqRel),
        None => handled.next.load(Ordering::Acquire),
    };
    // SAFETY: zeros are a valid action, the default; what the pointer refers to is never freed.
    Some(unsafe { before.as_ref().copied().unwrap_or_else(|| std::mem::zeroed()) })
}

/// Makes the target's faults reach it; with `by_protection` they come as SIGSEGV too. It stays registered until the guard is dropped.
///
/// # Errors
/// `EBUSY` if there are [`HEAPS_MAX`] heaps already, or the kernel's answer to `sigaction`.
pub fn register(target: Arc<dyn FaultTarget>, by_protection: bool) -> Result<Registration, Errno> {
    install(by_protection)?;
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

fn install(by_protection: bool) -> Result<(), Errno> {
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    spin::faults_are_resolved();
    BUS.install()?;
    if by_protection { SEGV.install() } else { Ok(()) }
}

extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
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
    let came_as = signal;
    let mut signal = signal;
    match if is_fault { resolve_in_fault(address, write) } else { None } {
        // The program has protected it.
        Some(Resolved::Found(Found::Mapped))
            if signal == libc::SIGSEGV && comes_for_ever_in_fault(address) => {}
        Some(Resolved::Found(found)) => {
            tell_newcomer_in_fault(context);
            if let Some((observer, began)) = observer {
                observer(&ResolvedFault { context, address, found, duration: began.elapsed() });
            }
            return;
        }
        Some(Resolved::Again) => return,
        Some(Resolved::Failed) => {
            // A page that cannot be brought in raises SIGBUS, also where absent pages raise SIGSEGV.
            signal = libc::SIGBUS;
            // SAFETY: the handler's own, as the kernel would have filled it in for that: the code has the same number.
            unsafe { (*info).si_signo = signal };
        }
        None => {}
    }
    let next = handled(signal).map_or(std::ptr::null_mut(), |handled| handled.next.load(Ordering::Acquire));
    // SAFETY: what it refers to is never freed or changed.
    match unsafe { next.as_ref() } {
        // SAFETY: these are the arguments that the kernel gave us.
        Some(previous) => unsafe { signal::chain(previous, signal, info, context) },
        // SAFETY: ends the process the way an unhandled signal does.
        None => unsafe { signal::raise_default(signal) },
    }
    // A handler that wants the default action restores it and has the instruction run again, which raises the other signal here.
    if signal != came_as && signal::is_default(signal) {
        // SAFETY: as above.
        unsafe { signal::raise_default(signal) }
    }
}

/// Whether a page that is accessible, as far as is known here, is touched in vain: between two of its faults it may leave, but not a thousand times in a row.
fn comes_for_ever_in_fault(address: usize) -> bool {
    const TRIES: u32 = 1000;
    own::with(|own| {
        let is_same = own.address.replace(address) == address;
        let times = if is_same { own.times.get() + 1 } else { 0 };
        own.times.set(if times < TRIES { times } else { 0 });
        times >= TRIES
    })
}

/// What became of a fault at `address`; `None` if it is nobody's.
fn resolve_in_fault(address: usize, write: bool) -> Option<Resolved> {
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
        if outcome.is_some() {
            return outcome;
        }
    }
    None
}
