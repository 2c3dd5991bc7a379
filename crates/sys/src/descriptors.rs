//! Descriptors that the library has for itself in a process that does not know of them.
//!
//! A program that closes all descriptors, or gives their numbers to others, would have the library write to its files.
//! A library that stands in front of `close` asks here.

use core::sync::atomic::{AtomicU64, Ordering};

/// Descriptors from here on are not noted; programs seldom have so many.
const NOTED_MAX: i32 = 1 << 16;

static NOTED: [AtomicU64; NOTED_MAX as usize / 64] = [const { AtomicU64::new(0) }; NOTED_MAX as usize / 64];

fn place(fd: i32) -> Option<(&'static AtomicU64, u64)> {
    (0..NOTED_MAX).contains(&fd).then(|| (&NOTED[fd as usize / 64], 1 << (fd % 64)))
}

/// From now on the descriptor is the library's own.
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
}
