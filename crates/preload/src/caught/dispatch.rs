//! Where system calls are caught, and what is done then.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use aquifer_sys::signal::{self, Sigaction};
use aquifer_sys::{ErrnoGuard, insiders, own};
use aquifer_vm::fault::observer;
use libc::{SIGSYS, c_int, c_long, siginfo_t, ucontext_t};

use super::calls;
use crate::hooks::raw::{OF_LIBRARY, OWN_CODE, direct};
use crate::real::real;

/// Of the kernel's `prctl.h`.
const SET_DISPATCH: c_int = 59;
const ON: c_long = 1;
const OFF: c_long = 0;
/// What a caught call's signal says, of `siginfo.h`.
const BY_DISPATCH: c_int = 2;
/// Bytes of the instruction `syscall`.
const INSTRUCTION_BYTES: libc::greg_t = 2;

/// Where calls are not caught: first byte and length; no length if none are caught.
static START: AtomicUsize = AtomicUsize::new(0);
static LEN: AtomicUsize = AtomicUsize::new(0);
/// The process: a child that shares its memory until it ends (`vfork`) is another, with the words of its parent's thread.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// The kernel looks here: 1 says that calls from elsewhere are caught.
static SELECTOR: AtomicU8 = AtomicU8::new(1);

static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
static INSTALLING: Mutex<()> = Mutex::new(());
/// What the program does on SIGSYS. Replaced ones are kept, because a handler may still be looking at them.
static NEXT: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());

unsafe extern "C" {
    fn gnu_get_libc_version() -> *const libc::c_char;
}

/// Whether all calls of the C library are made by the instructions of one module: before 2.34, those that wait were part of another.
fn is_one_module() -> bool {
    // SAFETY: a string of the C library's.
    let version = unsafe { CStr::from_ptr(gnu_get_libc_version()) }.to_str().unwrap_or("");
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (2, 34)
}

/// What this library calls while it brings memory in. Where something else stands in front of one of them and makes the call by an instruction of its own,
/// that would be caught in the middle of the library's work.
const NEEDED: [&CStr; 20] = [
    c"syscall",
    c"ioctl",
    c"vmsplice",
    c"pipe2",
    c"madvise",
    c"mmap",
    c"munmap",
    c"mremap",
    c"read",
    c"write",
    c"pread",
    c"pread64",
    c"pwrite",
    c"pwrite64",
    c"readv",
    c"writev",
    c"preadv",
    c"pwritev",
    c"poll",
    c"close",
];

fn is_alone() -> bool {
    NEEDED.iter().all(|name| {
        // SAFETY: the name ends with a zero byte.
        let first = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) } as usize;
        insiders::is_one(first)
    })
}

/// Looks up what is needed, and installs the handler. Nothing is caught yet.
pub fn prepare() {
    type Syscall = unsafe extern "C" fn(c_long) -> c_long;
    let (Some(syscall), Some(sigaction)) = (real!(syscall: Syscall), real!(sigaction: Sigaction)) else {
        return;
    };
    let syscall = syscall as usize;
    let own = prepare as *const () as usize;
    let (mut range, mut own_range) = ((0, 0), None);
    insiders::note_modules(|module| {
        if module.has(syscall) && module.name.starts_with(b"libc.so") {
            range = (module.start, module.len);
        }
        if module.has(own) {
            own_range = Some([module.start, module.len]);
        }
        false
    });
    let Some([own_start, own_len]) = own_range else { return };
    if range.1 == 0 || !is_one_module() || !is_alone() {
        return;
    }
    OF_LIBRARY.store(syscall, Ordering::Release);
    // SAFETY: zeros are valid actions; the handler passes signals of other causes on.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_sigsys as *const () as usize;
        // The call may wait: what may interrupt it is what could without us.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART;
        let mut before = Box::new(std::mem::zeroed());
        if sigaction(SIGSYS, &raw const action, &raw mut *before) != 0 {
            return;
        }
        NEXT.store(Box::into_raw(before), Ordering::Release);
    }
    IS_INSTALLED.store(true, Ordering::Release);
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    START.store(range.0, Ordering::Relaxed);
    LEN.store(range.1, Ordering::Release);
    OWN_CODE[0].store(own_start, Ordering::Relaxed);
    OWN_CODE[1].store(own_len, Ordering::Release);
    observer::expect(begin_after_fault);
}

/// Whether calls may be caught.
pub fn is_prepared() -> bool {
    LEN.load(Ordering::Acquire) > 0
}

/// Whether calls by the instruction before `address` are never caught: the C library's.
pub fn is_not_caught(address: usize) -> bool {
    address.wrapping_sub(START.load(Ordering::Relaxed)) < LEN.load(Ordering::Acquire)
}

/// As `replace_next` of SIGBUS.
pub fn replace_next(action: Option<&libc::sigaction>) -> Option<libc::sigaction> {
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if !IS_INSTALLED.load(Ordering::Acquire) {
        return None;
    }
    let before = match action {
        Some(action) => NEXT.swap(Box::into_raw(Box::new(*action)), Ordering::AcqRel),
        None => NEXT.load(Ordering::Acquire),
    };
    // SAFETY: zeros are a valid action, the default; what the pointer refers to is never freed.
    Some(unsafe { before.as_ref().copied().unwrap_or_else(|| std::mem::zeroed()) })
}

/// The set of SIGSYS alone, as the kernel has it.
static SIGSYS_ALONE: u64 = 1 << (SIGSYS - 1);

/// From now on the calling thread's calls are caught.
pub fn begin_in_thread() {
    if own::with(|own| own.is_caught.get()) {
        return;
    }
    let _errno = ErrnoGuard::new();
    if begin() {
        // SAFETY: a set of our own.
        unsafe {
            let set = &raw const SIGSYS_ALONE as usize;
            direct(libc::SYS_rt_sigprocmask, libc::SIG_UNBLOCK as usize, set, 0, size_of::<u64>(), 0, 0);
        }
    }
}

/// The same, in the handler of a thread's first fault.
fn begin_after_fault(context: *mut c_void) {
    if begin() {
        // SAFETY: the kernel has saved 8 bytes of the thread's mask there, and takes them when the handler returns.
        unsafe {
            let mask = (&raw mut (*context.cast::<ucontext_t>()).uc_sigmask).cast::<u64>();
            *mask &= !SIGSYS_ALONE;
        }
    }
}

fn begin() -> bool {
    let len = LEN.load(Ordering::Acquire);
    if len > 0 && PROCESS.load(Ordering::Relaxed) != std::process::id() {
        return false;
    }
    own::with(|own| {
        // Asked once, whatever comes of it.
        own.is_caught.set(true);
        if len == 0 || own.is_helper.get() {
            return false;
        }
        // SAFETY: the selector lives as long as the process.
        let outcome = unsafe {
            let selector = SELECTOR.as_ptr() as usize;
            direct(
                libc::SYS_prctl,
                SET_DISPATCH as usize,
                ON as usize,
                START.load(Ordering::Relaxed),
                len,
                selector,
                0,
            )
        };
        outcome == 0
    })
}

/// In a child, for which the kernel catches nothing.
pub fn forget() {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    forget_thread();
}

fn forget_thread() {
    own::with(|own| own.is_caught.set(false));
}

/// The call runs as it is when the handler returns, and those that follow, until the thread waits for its next page.
fn leave_alone(registers: &mut libc::mcontext_t) {
    // SAFETY: plain numbers.
    unsafe { direct(libc::SYS_prctl, SET_DISPATCH as usize, OFF as usize, 0, 0, 0, 0) };
    forget_thread();
    registers.gregs[libc::REG_RIP as usize] -= INSTRUCTION_BYTES;
}

extern "C" fn on_sigsys(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let _errno = ErrnoGuard::new();
    // SAFETY: the kernel calls the handler with valid pointers.
    let (code, registers) = unsafe { ((*info).si_code, &mut (*context.cast::<ucontext_t>()).uc_mcontext) };
    if code != BY_DISPATCH {
        // SAFETY: these are the arguments that the kernel gave us; what the pointer refers to is never freed.
        match unsafe { NEXT.load(Ordering::Acquire).as_ref() } {
            // SAFETY: the same.
            Some(next) => unsafe { signal::chain(next, signal, info, context) },
            // SAFETY: ends the process the way an unhandled SIGSYS does.
            None => unsafe { signal::raise_default(signal) },
        }
        return;
    }
    let register = |n: c_int| registers.gregs[n as usize];
    let number = register(libc::REG_RAX);
    let arguments = [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10, libc::REG_R8, libc::REG_R9]
        .map(|n| register(n) as usize);
    match calls::make(number, arguments) {
        Some(answer) => registers.gregs[libc::REG_RAX as usize] = answer,
        None => leave_alone(registers),
    }
}
