use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::SeqCst};

use super::*;
use crate::errno::ErrnoGuard;
use crate::memory::page_size;
use crate::testing::{died_of, ended_well, in_child, signal_turn};

/// Whom [`chaining`] hands on to.
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());
static CALLS: AtomicUsize = AtomicUsize::new(0);
static LAST_ADDRESS: AtomicUsize = AtomicUsize::new(0);
static MASKED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn chaining(signal: i32, info: *mut siginfo_t, context: *mut c_void) {
    let _errno = ErrnoGuard::new();
    let previous = PREVIOUS.load(SeqCst);
    // SAFETY: set before the handler was installed; the arguments are this handler's.
    unsafe { chain(&*previous, signal, info, context) };
}

extern "C" fn with_info(_: i32, info: *mut siginfo_t, _: *mut c_void) {
    CALLS.fetch_add(1, SeqCst);
    // SAFETY: a handler's argument.
    LAST_ADDRESS.store(unsafe { fault_address(info) }, SeqCst);
}

extern "C" fn plain(_: i32) {
    CALLS.fetch_add(100, SeqCst);
    for (signal, digit) in [(libc::SIGBUS, 1), (libc::SIGUSR1, 10), (libc::SIGUSR2, 100)] {
        if is_blocked(signal) {
            MASKED.fetch_add(digit, SeqCst);
        }
    }
}

fn is_blocked(signal: i32) -> bool {
    let mut set = MaybeUninit::zeroed();
    // SAFETY: the set is writable and filled in by the call.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), set.as_mut_ptr());
        libc::sigismember(&set.assume_init(), signal) == 1
    }
}

fn action(handler: usize, flags: i32) -> libc::sigaction {
    // SAFETY: zeros are valid for the structure.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    action
}

/// Puts `chaining` in front of `previous` while `body` runs.
fn behind_ours<T>(mut previous: libc::sigaction, body: impl FnOnce() -> T) -> T {
    PREVIOUS.store(&mut previous, SeqCst);
    // SAFETY: the handler is fit; `previous` lives until the original is back.
    let original = unsafe { install(libc::SIGBUS, chaining) }.expect("install");
    let result = body();
    // SAFETY: the original handler is the test harness's own.
    unsafe { restore(libc::SIGBUS, &original) }.expect("restore");
    result
}

/// Touches memory beyond the end of a file, which raises SIGBUS in earnest.
fn touch_beyond_the_file() {
    // SAFETY: the mapping is this function's, and reading it raises the signal it is made for.
    unsafe {
        let fd = libc::memfd_create(c"empty".as_ptr(), libc::MFD_CLOEXEC);
        let map = libc::mmap(ptr::null_mut(), page_size(), libc::PROT_READ, libc::MAP_SHARED, fd, 0);
        map.cast::<u8>().read_volatile();
    }
}

fn raise() {
    // SAFETY: sends a signal to this thread.
    unsafe { libc::raise(libc::SIGBUS) };
}

#[test]
fn a_previous_handler_with_information_gets_it() {
    let _turn = signal_turn();
    CALLS.store(0, SeqCst);
    LAST_ADDRESS.store(usize::MAX, SeqCst);
    behind_ours(action(with_info as *const () as usize, libc::SA_SIGINFO), raise);
    assert_eq!(CALLS.load(SeqCst), 1);
    assert_ne!(LAST_ADDRESS.load(SeqCst), usize::MAX);
}

#[test]
fn a_plain_previous_handler_runs_under_its_own_mask() {
    let _turn = signal_turn();
    CALLS.store(0, SeqCst);
    MASKED.store(0, SeqCst);
    let mut previous = action(plain as *const () as usize, 0);
    // SAFETY: the set is a valid, empty one.
    unsafe { libc::sigaddset(&mut previous.sa_mask, libc::SIGUSR1) };
    behind_ours(previous, raise);
    assert_eq!(CALLS.load(SeqCst), 100);
    // SIGUSR1 as asked; neither SIGBUS nor what only our handler blocks.
    assert_eq!(MASKED.load(SeqCst), 10);
}

#[test]
fn a_fault_nobody_handles_kills_the_process() {
    let _turn = signal_turn();
    for nobody in [libc::SIG_DFL, libc::SIG_IGN] {
        let status = behind_ours(action(nobody, 0), || {
            in_child(|| {
                touch_beyond_the_file();
                0
            })
        });
        assert!(died_of(status, libc::SIGBUS), "{status:#x}");
    }
}

#[test]
fn a_signal_that_was_sent_dies_or_is_ignored() {
    let _turn = signal_turn();
    let sent = || {
        in_child(|| {
            raise();
            0
        })
    };
    assert!(died_of(behind_ours(action(libc::SIG_DFL, 0), sent), libc::SIGBUS));
    assert!(ended_well(behind_ours(action(libc::SIG_IGN, 0), sent)));
}

#[test]
fn raise_default_ends_the_process() {
    let _turn = signal_turn();
    // SAFETY: the child ends there, as it should.
    let status = in_child(|| unsafe { raise_default(libc::SIGBUS) });
    assert!(died_of(status, libc::SIGBUS), "{status:#x}");
    // SAFETY: the same.
    let status = in_child(|| unsafe { raise_default(libc::SIGCHLD) });
    assert_eq!(libc::WEXITSTATUS(status), 128 + libc::SIGCHLD);
}

#[test]
fn blocked_signals_wait_and_faults_do_not() {
    let outer = SignalsBlocked::new();
    {
        let _inner = SignalsBlocked::new();
        assert!(are_blocked());
        assert!(is_blocked(libc::SIGUSR1) && is_blocked(libc::SIGTERM));
        assert!(mask::FAULT_SIGNALS.into_iter().all(|fault| !is_blocked(fault)));
    }
    assert!(is_blocked(libc::SIGUSR1), "the outer guard still holds");
    drop(outer);
    assert!(!is_blocked(libc::SIGUSR1) && !are_blocked());
}
