//! System calls that a program makes by their numbers. Of those, waiting for a word in memory is what locks of other languages than C do. All others
//! are made as those that a program makes by instructions of its own, where these are caught, and are passed on as they are elsewhere.

use std::arch::naked_asm;
#[cfg(target_arch = "x86_64")]
use std::sync::atomic::AtomicUsize;

use libc::{c_int, c_long};

use crate::span::Pin;

/// # Safety
/// As the manual page of `syscall` says.
#[unsafe(no_mangle)]
#[unsafe(naked)]
#[cfg(target_arch = "x86_64")]
pub unsafe extern "C" fn syscall(_number: c_long) -> c_long {
    naked_asm!(
        "cmp rdi, {futex}",
        "je {wait}",
        "mov rax, [rsp]",
        "sub rax, qword ptr [rip + {own}]",
        "cmp rax, qword ptr [rip + {own} + 8]",
        "jae {other}",
        "jmp {direct}",
        futex = const libc::SYS_futex,
        wait = sym futex,
        other = sym by_number,
        own = sym OWN_CODE,
        direct = sym direct,
    )
}

/// Code whose calls are passed on as they are, first byte and length: that of this library, which calls itself by this name. All until it is known.
#[cfg(target_arch = "x86_64")]
pub static OWN_CODE: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(usize::MAX)];

#[cfg(target_arch = "x86_64")]
extern "C" fn by_number(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    match crate::caught::make(number, [a, b, c, d, e, f]) {
        Some(answer) if (-4095..0).contains(&answer) => failed(answer),
        Some(answer) => answer,
        // SAFETY: passed on to the caller of `syscall`.
        None => unsafe { direct(number, a, b, c, d, e, f) },
    }
}

/// `syscall` of the C library, whose instructions are never caught; 0 while it is not known. It is not looked up when it is needed: fault handlers come
/// this way.
#[cfg(target_arch = "x86_64")]
pub static OF_LIBRARY: AtomicUsize = AtomicUsize::new(0);

/// As `syscall` of the C library.
///
/// # Safety
/// As the manual page of `syscall` says.
#[unsafe(naked)]
#[cfg(target_arch = "x86_64")]
pub unsafe extern "C" fn direct(
    _number: c_long,
    _a: usize,
    _b: usize,
    _c: usize,
    _d: usize,
    _e: usize,
    _f: usize,
) -> c_long {
    naked_asm!(
        "mov rax, qword ptr [rip + {of_library}]",
        "test rax, rax",
        "jz 3f",
        "jmp rax",
        "3:",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 2f",
        "ret",
        "2:",
        "mov rdi, rax",
        "jmp {failed}",
        failed = sym failed,
        of_library = sym OF_LIBRARY,
    )
}

/// # Safety
/// As the manual page of `syscall` says.
#[unsafe(no_mangle)]
#[unsafe(naked)]
#[cfg(target_arch = "aarch64")]
pub unsafe extern "C" fn syscall(_number: c_long) -> c_long {
    naked_asm!(
        "cmp x0, #{futex}",
        "b.eq {wait}",
        "b {direct}",
        futex = const libc::SYS_futex,
        wait = sym futex,
        direct = sym direct,
    )
}

/// As `syscall` of the C library. It cannot be asked for that here: fault handlers come this way.
#[unsafe(naked)]
#[cfg(target_arch = "aarch64")]
unsafe extern "C" fn direct(
    _number: c_long,
    _a: usize,
    _b: usize,
    _c: usize,
    _d: usize,
    _e: usize,
    _f: usize,
) -> c_long {
    naked_asm!(
        "mov x8, x0",
        "mov x0, x1",
        "mov x1, x2",
        "mov x2, x3",
        "mov x3, x4",
        "mov x4, x5",
        "mov x5, x6",
        "svc #0",
        "cmn x0, #4095",
        "b.cs 2f",
        "ret",
        "2:",
        "b {failed}",
        failed = sym failed,
    )
}

extern "C" fn failed(answer: c_long) -> c_long {
    crate::route::set_errno(-answer as c_int);
    -1
}

/// Whether the fourth argument of a futex operation is a time, and whether there is a second word. A caller
/// of `syscall` sets only the arguments of the operation: the other registers hold anything, also addresses
/// of managed memory.
fn has_time_and_other(op: usize) -> (bool, bool) {
    match op as c_int & libc::FUTEX_CMD_MASK {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET | libc::FUTEX_LOCK_PI | libc::FUTEX_LOCK_PI2 => {
            (true, false)
        }
        libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE | libc::FUTEX_WAKE_OP | libc::FUTEX_CMP_REQUEUE_PI => {
            (false, true)
        }
        libc::FUTEX_WAIT_REQUEUE_PI => (true, true),
        _ => (false, false),
    }
}

/// The words that the kernel looks at, and the time, are in place.
pub extern "C" fn futex(
    number: c_long,
    word: usize,
    op: usize,
    value: usize,
    time: usize,
    other: usize,
    last: usize,
) -> c_long {
    let _word = Pin::new(word, 4);
    let (has_time, has_other) = has_time_and_other(op);
    let _time = has_time.then(|| Pin::new(time, size_of::<libc::timespec>()));
    let _other = has_other.then(|| Pin::new(other, 4));
    // SAFETY: passed on to the caller of `syscall`.
    unsafe { direct(number, word, op, value, time, other, last) }
}
