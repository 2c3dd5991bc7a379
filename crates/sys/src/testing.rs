//! What several tests of this crate need.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::uffd::{Features, Userfaultfd};

/// Signal handlers belong to the whole process: tests that change them take turns.
pub fn signal_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A userfaultfd, or `None` and the reason on standard error where it is not permitted.
pub fn uffd_or_skip(wanted: Features) -> Option<Userfaultfd> {
    Userfaultfd::open(wanted).inspect_err(|error| eprintln!("skipped: userfaultfd: {error}")).ok()
}

/// Runs `body` in a forked child and returns how the child ended, as `waitpid` tells it.
///
/// `body` may use only what is safe in the child of a program with threads: no allocation, no panic.
pub fn in_child(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs only `body`, under the condition above, and ends without unwinding.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: plain calls with valid arguments; the child leaves here.
        unsafe {
            libc::setrlimit(libc::RLIMIT_CORE, &no_core);
            libc::_exit(body());
        }
    }
    let mut status = 0;
    // SAFETY: `status` is writable and `child` is ours.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status
}

/// Whether the child with this status was killed by `signal`.
pub fn died_of(status: i32, signal: i32) -> bool {
    libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == signal
}

/// Whether the child with this status ended by itself with code 0.
pub fn ended_well(status: i32) -> bool {
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

/// Makes system calls of this number fail with EPERM in this thread, as profiles of containers do; whether that could be done.
pub fn forbid(number: libc::c_long) -> bool {
    const LOAD_NUMBER: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut filter = [
        step(LOAD_NUMBER, 0, 0, 0),
        step(JUMP_IF_EQUAL, 0, 1, number as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: both calls change this thread only; the program and its filter live until the second returns.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    }
}
