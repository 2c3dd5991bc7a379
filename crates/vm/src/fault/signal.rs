//! Faults as SIGBUS in the faulting thread: the default, and the fastest.
//!
//! The handler finds the engine by address in a fixed registry, resolves the fault and returns to the
//! instruction. Faults that are none of ours go to the handler that was there before.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use aquifer_sys::stripe::{STRIPES, stripe};
use aquifer_sys::{Backoff, Errno, ErrnoGuard, signal};

use crate::engine::Engine;
use crate::fault::report_in_fault;

/// Heaps of one process.
pub const HEAPS_MAX: usize = 16;

/// Handlers that may be using an engine now, in a cache line of their own.
#[repr(align(64))]
struct Users(AtomicU32);

struct Registered {
    engine: AtomicPtr<Engine>,
    users: [Users; STRIPES],
}

static REGISTRY: [Registered; HEAPS_MAX] = [const {
    Registered {
        engine: AtomicPtr::new(std::ptr::null_mut()),
        users: [const { Users(AtomicU32::new(0)) }; STRIPES],
    }
}; HEAPS_MAX];
static INSTALLING: Mutex<()> = Mutex::new(());
static INSTALLED: AtomicBool = AtomicBool::new(false);

struct Previous(UnsafeCell<Option<libc::sigaction>>);

// SAFETY: written once under INSTALLING before INSTALLED is set with release; only read afterwards.
unsafe impl Sync for Previous {}

static PREVIOUS: Previous = Previous(UnsafeCell::new(None));

/// Makes the engine's faults reach it. It stays registered until the guard is dropped.
///
/// # Errors
/// `EBUSY` if there are [`HEAPS_MAX`] heaps already, or the kernel's answer to `sigaction`.
pub fn register(engine: Arc<Engine>) -> Result<Registration, Errno> {
    install()?;
    let pointer = Arc::as_ptr(&engine).cast_mut();
    for (index, slot) in REGISTRY.iter().enumerate() {
        let free = std::ptr::null_mut();
        if slot.engine.compare_exchange(free, pointer, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return Ok(Registration { index, _engine: engine });
        }
    }
    Err(Errno::EBUSY)
}

/// An engine whose faults are handled.
pub struct Registration {
    index: usize,
    _engine: Arc<Engine>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let slot = &REGISTRY[self.index];
        slot.engine.store(std::ptr::null_mut(), Ordering::SeqCst);
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
    // SAFETY: the handler is async-signal-safe and chains to the action that is returned.
    let previous = unsafe { signal::install_sigbus(on_sigbus)? };
    // SAFETY: we hold INSTALLING and INSTALLED is still false, so nobody reads it. A fault in this
    // instant finds no engine and no previous action and is treated as the default.
    unsafe { *PREVIOUS.0.get() = Some(previous) };
    INSTALLED.store(true, Ordering::Release);
    Ok(())
}

extern "C" fn on_sigbus(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    let _errno = ErrnoGuard::new();
    // SAFETY: the kernel calls the handler with valid pointers.
    let (address, write) = unsafe { (signal::fault_address(info), signal::fault_is_write(context)) };
    if resolve_in_fault(address, write) {
        return;
    }
    // SAFETY: set before INSTALLED; a handler that runs earlier takes the default branch.
    let previous =
        INSTALLED.load(Ordering::Acquire).then(|| unsafe { &*PREVIOUS.0.get() }).and_then(Option::as_ref);
    match previous {
        // SAFETY: these are the arguments that the kernel gave us.
        Some(previous) => unsafe { signal::chain(previous, signal, info, context) },
        // SAFETY: ends the process the way an unhandled SIGBUS does.
        None => unsafe { signal::raise_default(signal) },
    }
}

/// Whether `address` belonged to a heap and is accessible now.
fn resolve_in_fault(address: usize, write: bool) -> bool {
    for slot in &REGISTRY {
        if slot.engine.load(Ordering::Relaxed).is_null() {
            continue;
        }
        let users = &slot.users[stripe()].0;
        users.fetch_add(1, Ordering::SeqCst);
        let engine = slot.engine.load(Ordering::SeqCst);
        // SAFETY: the registration keeps the engine alive until `users` is zero again.
        let outcome = unsafe { engine.as_ref() }
            .and_then(|engine| engine.page_at(address).map(|page| engine.resolve_in_fault(page, write)));
        users.fetch_sub(1, Ordering::Release);
        match outcome {
            Some(Ok(())) => return true,
            Some(Err(error)) => {
                report_in_fault(&error);
                return false;
            }
            None => {}
        }
    }
    false
}
