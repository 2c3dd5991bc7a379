//! Stacks for handlers.
//!
//! The kernel writes on a handler's stack, so that must be there. And a handler that touches absent memory is interrupted by
//! the one that brings it in, on the same stack, which needs more room than programs leave. So a stack that is small
//! or lies in managed memory has a substitute. The program is told of its own.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::OnceLock;

use libc::{c_int, stack_t};

use crate::hooks::missing;
use crate::real::real;
use crate::route::{owns, route};

/// Of a substitute; what fault handlers need and much more.
const BYTES: usize = 256 << 10;
/// The kernel refuses smaller ones.
const BYTES_MIN: usize = libc::MINSIGSTKSZ;

type Sigaltstack = unsafe extern "C" fn(*const stack_t, *mut stack_t) -> c_int;

/// A thread's substitute, which ends with the thread: by a key, since the C library allocates for destructors of thread-local storage,
/// perhaps by a malloc of the program that has not begun.
struct Substitute {
    /// What the program has given.
    given: Cell<Option<stack_t>>,
    base: Cell<*mut c_void>,
}

thread_local! {
    static SUBSTITUTE: Substitute =
        const { Substitute { given: Cell::new(None), base: Cell::new(std::ptr::null_mut()) } };
}

impl Substitute {
    /// Where it is; mapped when it is first needed.
    fn base(&self) -> Option<*mut c_void> {
        if self.base.get().is_null() {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
            // SAFETY: new memory.
            let base = unsafe {
                libc::mmap(std::ptr::null_mut(), BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
            };
            if base == libc::MAP_FAILED {
                return None;
            }
            self.base.set(base);
            if let Some(&key) = END.get() {
                // SAFETY: the key is there; where the C library has no memory for its value the substitute stays.
                unsafe { libc::pthread_setspecific(key, base) };
            }
        }
        Some(self.base.get())
    }
}

/// The key whose value is a thread's substitute.
static END: OnceLock<libc::pthread_key_t> = OnceLock::new();

/// To be called before the program begins: the C library has room for the values of the first keys.
pub fn prepare_substitutes() {
    let mut key = 0;
    // SAFETY: the function takes what is set.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(end_substitute)) } == 0 {
        let _ = END.set(key);
    }
}

unsafe extern "C" fn end_substitute(base: *mut c_void) {
    let none = stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    let Some(real) = real!(sigaltstack: Sigaltstack) else { return };
    // SAFETY: the kernel refuses if the thread is on it. Then it stays.
    unsafe {
        if real(&raw const none, std::ptr::null_mut()) == 0 {
            SUBSTITUTE.with(|own| {
                own.given.set(None);
                own.base.set(std::ptr::null_mut());
            });
            libc::munmap(base, BYTES);
        }
    }
}

/// # Safety
/// As the manual page of `sigaltstack` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaltstack(stack: *const stack_t, before: *mut stack_t) -> c_int {
    let Some(real) = real!(sigaltstack: Sigaltstack) else { return missing() };
    // SAFETY: passed on to the caller.
    let given = unsafe { stack.as_ref() }.copied();
    SUBSTITUTE.with(|own| {
        let mut passed = given;
        let substituted = given.filter(|given| {
            given.ss_flags & libc::SS_DISABLE == 0
                && given.ss_size >= BYTES_MIN
                && route().is_some()
                && (given.ss_size < BYTES || owns(given.ss_sp))
        });
        if let Some(given) = substituted
            && let Some(base) = own.base()
        {
            passed = Some(stack_t { ss_sp: base, ss_size: BYTES, ..given });
        }
        // SAFETY: zeros are a valid stack, and both are our own.
        let mut previous: stack_t = unsafe { std::mem::zeroed() };
        let pointer = passed.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the substitute lives as long as the thread.
        let outcome = unsafe { real(pointer, &raw mut previous) };
        if outcome != 0 {
            return outcome;
        }
        if let Some(own) = own.given.get().filter(|_| previous.ss_flags & libc::SS_DISABLE == 0) {
            (previous.ss_sp, previous.ss_size) = (own.ss_sp, own.ss_size);
        }
        if given.is_some() {
            own.given.set(substituted);
        }
        // SAFETY: passed on to the caller.
        if let Some(before) = unsafe { before.as_mut() } {
            *before = previous;
        }
        0
    })
}
