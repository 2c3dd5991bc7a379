//! Handlers and masks by the functions of BSD and System V, for which the C library calls itself.

use libc::{SIGBUS, SIGSEGV, SIGSYS, c_int, sighandler_t, sigset_t};

use crate::hooks::signals::{signal, sigprocmask, sigsuspend};
use crate::real::real;

/// System V's wish that a signal be blocked (`SIG_HOLD`).
const HOLD: sighandler_t = 2;

/// The signals 1 to 32, as a word has them.
fn set_of(mask: c_int) -> sigset_t {
    // SAFETY: zeros are a valid set, which is our own.
    unsafe {
        let mut set: sigset_t = std::mem::zeroed();
        (1..=32).filter(|n| mask >> (n - 1) & 1 == 1).for_each(|n| {
            libc::sigaddset(&raw mut set, n);
        });
        set
    }
}

fn mask_of(set: &sigset_t) -> c_int {
    // SAFETY: the set is valid.
    (1..=32).filter(|&n| unsafe { libc::sigismember(set, n) } == 1).fold(0, |mask, n| mask | 1 << (n - 1))
}

fn change(how: c_int, set: &sigset_t) -> Option<sigset_t> {
    // SAFETY: zeros are a valid set, and both are our own.
    unsafe {
        let mut before: sigset_t = std::mem::zeroed();
        (sigprocmask(how, set, &raw mut before) == 0).then_some(before)
    }
}

/// As `sigblock` of BSD.
#[unsafe(no_mangle)]
pub extern "C" fn sigblock(mask: c_int) -> c_int {
    change(libc::SIG_BLOCK, &set_of(mask)).map_or(-1, |before| mask_of(&before))
}

/// As `sigsetmask` of BSD.
#[unsafe(no_mangle)]
pub extern "C" fn sigsetmask(mask: c_int) -> c_int {
    change(libc::SIG_SETMASK, &set_of(mask)).map_or(-1, |before| mask_of(&before))
}

/// As `sigpause` of BSD.
#[unsafe(no_mangle)]
pub extern "C" fn sigpause(mask: c_int) -> c_int {
    let set = set_of(mask);
    // SAFETY: a set of our own.
    unsafe { sigsuspend(&raw const set) }
}

fn one(how: c_int, number: c_int) -> c_int {
    // SAFETY: a set of our own.
    unsafe {
        let mut set: sigset_t = std::mem::zeroed();
        if libc::sigaddset(&raw mut set, number) != 0 || change(how, &set).is_none() { -1 } else { 0 }
    }
}

/// As `sighold` of System V.
#[unsafe(no_mangle)]
pub extern "C" fn sighold(number: c_int) -> c_int {
    one(libc::SIG_BLOCK, number)
}

/// As `sigrelse` of System V.
#[unsafe(no_mangle)]
pub extern "C" fn sigrelse(number: c_int) -> c_int {
    one(libc::SIG_UNBLOCK, number)
}

/// # Safety
/// As the manual page of `sigset` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigset(number: c_int, handler: sighandler_t) -> sighandler_t {
    if matches!(number, SIGBUS | SIGSYS | SIGSEGV) {
        let how = if handler == HOLD { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
        one(how, number);
        // SAFETY: passed on to the caller.
        return if handler == HOLD { HOLD } else { unsafe { signal(number, handler) } };
    }
    match real!(sigset: unsafe extern "C" fn(c_int, sighandler_t) -> sighandler_t) {
        // SAFETY: passed on to the caller.
        Some(real) => unsafe { real(number, handler) },
        None => libc::SIG_ERR,
    }
}
