//! Descriptors that the library has for itself in a process that does not know of them.
//!
//! A program that closes all descriptors, or gives their numbers to others, would have the library write to its files.
//! A library that stands in front of `close` asks here.
//!
//! The kernel gives the lowest number that is free, and programs count on that: they close one and open what is to have its number, or ask
//! for small ones. So the library's own have large ones, and are kept open: what is opened for a moment only takes a small number for that moment.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::process;

/// Descriptors from here on are not noted; programs seldom open 65,536 of them.
const NOTED_MAX: i32 = 1 << 16;

static NOTED: [AtomicU64; NOTED_MAX as usize / 64] = [const { AtomicU64::new(0) }; NOTED_MAX as usize / 64];

fn place(fd: i32) -> Option<(&'static AtomicU64, u64)> {
    (0..NOTED_MAX).contains(&fd).then(|| (&NOTED[fd as usize / 64], 1 << (fd % 64)))
}

/// Programs seldom ask for numbers from here on, or from three quarters of what they may have, if that is less.
const OWN_MIN: u64 = 768;

/// From now on the descriptor is the library's own. It is given a large number if there is one; which.
///
/// # Context
/// System calls only; signal-safe.
#[must_use]
pub fn own(fd: i32) -> i32 {
    let least = process::descriptors_max().map_or(OWN_MIN, |most| OWN_MIN.min(most / 4 * 3)) as i32;
    // By the calls themselves: a program's own functions may be such that ask us.
    // SAFETY: plain numbers.
    let large = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_DUPFD_CLOEXEC, least) } as i32;
    if large < 0 {
        note(fd);
        return fd;
    }
    note(large);
    // SAFETY: the descriptor is the caller's, who knows it by its new number from here on.
    unsafe { libc::syscall(libc::SYS_close, fd) };
    large
}

/// As [`own`], of a descriptor that cannot be given another number.
pub fn note(fd: i32) {
    if let Some((word, bit)) = place(fd) {
        word.fetch_or(bit, Ordering::Relaxed);
    }
}

/// It is closed next.
pub fn forget(fd: i32) {
    if let Some((word, bit)) = place(fd) {
        word.fetch_and(!bit, Ordering::Relaxed);
    }
}

/// Whether the descriptor is the library's own. Signal-safe.
pub fn is_own(fd: i32) -> bool {
    place(fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// The first own descriptor from `fd` on. Signal-safe.
pub fn next_own(fd: u32) -> Option<u32> {
    let mut at = fd as usize;
    while at < NOTED_MAX as usize {
        let rest = NOTED[at / 64].load(Ordering::Relaxed) >> (at % 64);
        if rest != 0 {
            return Some(at as u32 + rest.trailing_zeros());
        }
        at = (at / 64 + 1) * 64;
    }
    None
}

/// Takes the numbers of standard input, output and error that are free, until it is dropped: what the library opens meanwhile gets
/// others. A program that has closed them opens its own there, or writes there without a look.
pub struct StandardNumbers([i32; 3]);

impl StandardNumbers {
    /// Takes those that are free.
    #[must_use]
    pub fn take() -> Self {
        let mut taken = Self([-1; 3]);
        for number in &mut taken.0 {
            // By the call itself: a program's own `open` may be one that asks us.
            let flags = libc::O_PATH | libc::O_CLOEXEC;
            // SAFETY: a path that ends with a zero byte.
            let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, c"/".as_ptr(), flags) } as i32;
            *number = fd;
            if !(0..=2).contains(&fd) {
                break;
            }
        }
        taken
    }
}

impl Drop for StandardNumbers {
    fn drop(&mut self) {
        for fd in self.0.into_iter().filter(|&fd| fd >= 0) {
            // SAFETY: the descriptor is ours.
            unsafe { libc::syscall(libc::SYS_close, fd) };
        }
    }
}

/// Closes an own descriptor.
pub fn close(fd: i32) {
    forget(fd);
    // SAFETY: the descriptor is the caller's to close.
    unsafe { libc::close(fd) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_descriptors_are_found_in_order() {
        let noted = [40_000, 40_001, 40_063, 40_064, 41_000];
        noted.into_iter().for_each(note);
        let mut found = Vec::new();
        let mut at = 40_000;
        while let Some(fd) = next_own(at).filter(|&fd| fd < 42_000) {
            found.push(fd as i32);
            at = fd + 1;
        }
        assert_eq!(found, noted);
        assert!(is_own(40_063) && !is_own(40_062) && !is_own(-1) && !is_own(i32::MAX));
        noted.into_iter().for_each(forget);
        assert!(!noted.into_iter().any(is_own) && next_own(u32::MAX).is_none());
    }

    #[test]
    fn own_descriptors_have_large_numbers() {
        let ends = &mut [0; 2];
        // SAFETY: the kernel writes the two descriptors.
        assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
        let owned = ends.map(own);
        assert!(owned.into_iter().all(|fd| fd as u64 >= OWN_MIN && is_own(fd)), "{owned:?}");
        // SAFETY: the descriptors are the test's.
        let flags = unsafe { libc::fcntl(owned[1], libc::F_GETFD) };
        assert_eq!(flags, libc::FD_CLOEXEC);
        owned.into_iter().for_each(close);
        assert!(!is_own(owned[0]));
    }
}
