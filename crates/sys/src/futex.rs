//! Waiting on a word of memory.

use core::ptr;
use core::sync::atomic::AtomicU32;

use crate::errno::{Errno, Result};

/// Sleeps until [`wake`] is called for `word`, if `word` still holds `expected`.
///
/// Wakes without a reason are possible; the caller looks at the word again in every case. The word
/// must not lie in managed memory: the kernel reads it, and a kernel read of an absent page fails.
///
/// # Errors
/// [`Errno::EAGAIN`] if the word held something else, [`Errno::ETIMEDOUT`] after `timeout_ns`
/// nanoseconds, [`Errno::EINTR`] if a signal handler ran.
///
/// # Context
/// Blocks. Signal-safe.
pub fn wait(word: &AtomicU32, expected: u32, timeout_ns: Option<u64>) -> Result<()> {
    let limit = timeout_ns.map(timespec_from_ns);
    let limit_ptr = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the word and the time limit live until the call returns; the kernel only reads them.
    let returned = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            limit_ptr,
        )
    };
    Errno::check(returned).map(drop)
}

/// Wakes at most `count` threads that sleep on `word` and returns how many there were.
///
/// # Context
/// Does not block. Signal-safe.
pub fn wake(word: &AtomicU32, count: u32) -> usize {
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    // SAFETY: the kernel uses the word's address as a name and does not write to it.
    let returned = unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, count)
    };
    // The address of a live atomic is aligned and mapped, so the call has no reason to fail.
    usize::try_from(returned).unwrap_or(0)
}

pub(crate) fn timespec_from_ns(ns: u64) -> libc::timespec {
    const NS_PER_S: u64 = 1_000_000_000;
    libc::timespec { tv_sec: (ns / NS_PER_S) as libc::time_t, tv_nsec: (ns % NS_PER_S) as libc::c_long }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn returns_at_once_if_the_word_changed() {
        assert_eq!(wait(&AtomicU32::new(1), 0, None), Err(Errno::EAGAIN));
    }

    #[test]
    fn gives_up_after_the_time_limit() {
        let word = AtomicU32::new(0);
        while wait(&word, 0, Some(1000)) != Err(Errno::ETIMEDOUT) {}
    }

    #[test]
    fn a_sleeper_is_woken() {
        let word = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while word.load(Ordering::Acquire) == 0 {
                    let _ = wait(&word, 0, None);
                }
            });
            word.store(1, Ordering::Release);
            wake(&word, u32::MAX);
        });
        assert_eq!(wake(&word, 1), 0);
    }
}
