//! Threads that are made once memory is managed: their calls are caught from their first instruction on.

use std::arch::naked_asm;
use std::ffi::c_void;

use aquifer_sys::insiders;
use libc::{c_int, pthread_attr_t, pthread_t};

use super::dispatch::{begin_in_thread, is_prepared};
use crate::real::real;
use crate::route::route;

/// What a thread runs. A function returns these two words in registers.
#[repr(C)]
struct Work {
    run: *mut c_void,
    argument: *mut c_void,
}

/// Whether the thread is the program's, and may be given managed memory.
fn is_of_program(run: *mut c_void) -> bool {
    is_prepared() && !insiders::is_one(run as usize) && route().is_some_and(|route| route.heap.is_managed())
}

/// # Safety
/// As the manual page of `pthread_create` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    run: *mut c_void,
    argument: *mut c_void,
) -> c_int {
    type Create =
        unsafe extern "C" fn(*mut pthread_t, *const pthread_attr_t, *mut c_void, *mut c_void) -> c_int;
    let Some(real) = real!(pthread_create: Create) else { return libc::EAGAIN };
    if !is_of_program(run) {
        // SAFETY: passed on to the caller.
        return unsafe { real(thread, attributes, run, argument) };
    }
    let work = Box::into_raw(Box::new(Work { run, argument }));
    // SAFETY: the same; the new thread has the box.
    let outcome = unsafe { real(thread, attributes, begin as *const () as *mut c_void, work.cast()) };
    if outcome != 0 {
        // SAFETY: there is no thread that has it.
        drop(unsafe { Box::from_raw(work) });
    }
    outcome
}

/// Leaves no frame behind: a thread that ends by `pthread_exit` unwinds its stack.
#[unsafe(naked)]
extern "C" fn begin(_work: *mut c_void) -> *mut c_void {
    naked_asm!(
        "sub rsp, 8",
        "call {take}",
        "add rsp, 8",
        "mov rdi, rdx",
        "jmp rax",
        take = sym take,
    )
}

extern "C" fn take(work: *mut Work) -> Work {
    begin_in_thread();
    // SAFETY: the box that `pthread_create` above has given to this thread alone.
    *unsafe { Box::from_raw(work) }
}
