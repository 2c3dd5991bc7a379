//! Somebody who is told of faults that were resolved in the thread that took them: at most one in a process. And somebody who is told of a thread's
//! first fault.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

use aquifer_base::Found;
use aquifer_sys::own;

/// A fault that was resolved.
pub struct ResolvedFault {
    /// The interrupted thread's registers, a `ucontext_t`.
    pub context: *const c_void,
    /// What was touched.
    pub address: usize,
    /// What was found.
    pub found: Found,
    /// How long the thread has waited.
    pub duration: Duration,
}

/// Is called in the fault handler, in the thread that faulted.
pub type Observer = fn(&ResolvedFault);

static OBSERVER: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Has the observer told of every fault from now on, in place of the one before.
///
/// # Context
/// The observer runs in a signal handler: it allocates nothing, takes no lock that a faulting thread can hold, touches
/// no managed memory, and does not unwind.
pub fn observe(observer: Observer) {
    OBSERVER.store(observer as *mut c_void, Ordering::Release);
}

/// Is called in the fault handler, with the interrupted thread's registers, a `ucontext_t`.
pub type Newcomer = fn(*mut c_void);

static NEWCOMER: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Has `newcomer` told of faults of threads for which `is_caught` of their own words is not set.
///
/// # Context
/// As that of [`observe`].
pub fn expect(newcomer: Newcomer) {
    NEWCOMER.store(newcomer as *mut c_void, Ordering::Release);
}

pub(super) fn tell_newcomer_in_fault(context: *mut c_void) {
    let newcomer = NEWCOMER.load(Ordering::Acquire);
    if !newcomer.is_null() && !own::with(|own| own.is_caught.get()) {
        // SAFETY: stored by `expect`, which takes functions of this type.
        unsafe { std::mem::transmute::<*mut c_void, Newcomer>(newcomer)(context) };
    }
}

pub(super) fn observer_in_fault() -> Option<Observer> {
    let observer = OBSERVER.load(Ordering::Acquire);
    // SAFETY: stored by `observe`, which takes functions of this type.
    (!observer.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, Observer>(observer) })
}
