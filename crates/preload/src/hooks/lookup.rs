//! Functions that a program looks up by name, as other languages do that call C (ctypes). In the C library itself, by its handle, it would find those
//! behind the ones that stand in front: they know nothing of managed memory, and nothing here would know of what they have done to it.
//!
//! What is behind a library, and what is found by default, depends on who asks: these calls come to the C library from where they were made.

use std::arch::naked_asm;
use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::route::is_insider;

type Lookup = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// `dlsym` of the C library.
static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Finds `dlsym` of the C library, by the other function that looks up.
extern "C" fn find_real() {
    let version = if cfg!(target_arch = "x86_64") { c"GLIBC_2.2.5" } else { c"GLIBC_2.17" };
    // SAFETY: the names end with zero bytes.
    let found = unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
    let found = if found.is_null() { (nothing as Lookup) as *mut c_void } else { found };
    REAL.store(found, Ordering::Release);
}

/// Where the C library has no such function.
unsafe extern "C" fn nothing(_library: *mut c_void, _name: *const c_char) -> *mut c_void {
    std::ptr::null_mut()
}

/// # Safety
/// As the manual page of `dlsym` says.
#[unsafe(no_mangle)]
#[unsafe(naked)]
#[cfg(target_arch = "x86_64")]
pub unsafe extern "C" fn dlsym(_library: *mut c_void, _name: *const c_char) -> *mut c_void {
    naked_asm!(
        "2:",
        "mov rax, qword ptr [rip + {real}]",
        "test rax, rax",
        "jz 3f",
        // RTLD_NEXT and RTLD_DEFAULT are -1 and 0.
        "lea r11, [rdi + 1]",
        "cmp r11, 1",
        "ja {in_library}",
        "jmp rax",
        "3:",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {find_real}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "jmp 2b",
        real = sym REAL,
        in_library = sym in_library,
        find_real = sym find_real,
    )
}

/// # Safety
/// As the manual page of `dlsym` says.
#[unsafe(no_mangle)]
#[unsafe(naked)]
#[cfg(target_arch = "aarch64")]
pub unsafe extern "C" fn dlsym(_library: *mut c_void, _name: *const c_char) -> *mut c_void {
    naked_asm!(
        "2:",
        "adrp x16, {real}",
        "ldr x16, [x16, :lo12:{real}]",
        "cbz x16, 3f",
        // RTLD_NEXT and RTLD_DEFAULT are -1 and 0.
        "add x17, x0, #1",
        "cmp x17, #1",
        "b.hi {in_library}",
        "br x16",
        "3:",
        "stp x0, x1, [sp, #-32]!",
        "str x30, [sp, #16]",
        "bl {find_real}",
        "ldr x30, [sp, #16]",
        "ldp x0, x1, [sp], #32",
        "b 2b",
        real = sym REAL,
        in_library = sym in_library,
        find_real = sym find_real,
    )
}

/// As `dlsym`, with the handle of a library.
unsafe extern "C" fn in_library(library: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: it was found, and has this type.
    let real = unsafe { std::mem::transmute::<*mut c_void, Lookup>(REAL.load(Ordering::Acquire)) };
    // SAFETY: passed on to the caller.
    let found = unsafe { real(library, name) };
    if found.is_null() || !is_insider(found.addr()) {
        return found;
    }
    // SAFETY: as above.
    let first = unsafe { real(libc::RTLD_DEFAULT, name) };
    if first.is_null() {
        // SAFETY: takes nothing. The caller's lookup was no error.
        unsafe { libc::dlerror() };
    }
    // A program that has put its own in front of the C library's wants what is behind.
    if is_insider(first.addr()) { first } else { found }
}
