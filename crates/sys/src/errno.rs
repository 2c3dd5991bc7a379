//! The kernel's error numbers.

use core::fmt;

/// An error number of the kernel, as `errno` holds it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

/// The outcome of a kernel call.
pub type Result<T> = core::result::Result<T, Errno>;

impl Errno {
    /// Try again; also a futex whose word had changed already.
    pub const EAGAIN: Errno = Errno(libc::EAGAIN);
    /// Busy; a page that is pinned or shared cannot be moved.
    pub const EBUSY: Errno = Errno(libc::EBUSY);
    /// Something is there already.
    pub const EEXIST: Errno = Errno(libc::EEXIST);
    /// An address the kernel cannot read or write.
    pub const EFAULT: Errno = Errno(libc::EFAULT);
    /// A signal came in between.
    pub const EINTR: Errno = Errno(libc::EINTR);
    /// An argument is invalid, or this kernel does not know it.
    pub const EINVAL: Errno = Errno(libc::EINVAL);
    /// Nothing of that name; also a range that is not registered, or was unmapped.
    pub const ENOENT: Errno = Errno(libc::ENOENT);
    /// No memory, or the limit on mappings is reached.
    pub const ENOMEM: Errno = Errno(libc::ENOMEM);
    /// No space left on the device.
    pub const ENOSPC: Errno = Errno(libc::ENOSPC);
    /// This kernel has no such system call.
    pub const ENOSYS: Errno = Errno(libc::ENOSYS);
    /// Not permitted.
    pub const EPERM: Errno = Errno(libc::EPERM);
    /// No such process; also a userfaultfd whose process is gone.
    pub const ESRCH: Errno = Errno(libc::ESRCH);
    /// The time given for waiting is over.
    pub const ETIMEDOUT: Errno = Errno(libc::ETIMEDOUT);

    /// The error of this thread's latest failed call.
    pub fn last() -> Errno {
        // SAFETY: the C library returns a pointer to this thread's errno, valid while it lives.
        Errno(unsafe { *libc::__errno_location() })
    }

    /// The symbolic name, for the numbers this crate meets.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            libc::EACCES => "EACCES",
            libc::EAGAIN => "EAGAIN",
            libc::EBADF => "EBADF",
            libc::EBUSY => "EBUSY",
            libc::EEXIST => "EEXIST",
            libc::EFAULT => "EFAULT",
            libc::EINTR => "EINTR",
            libc::EINVAL => "EINVAL",
            libc::EIO => "EIO",
            libc::EMFILE => "EMFILE",
            libc::ENODEV => "ENODEV",
            libc::ENOENT => "ENOENT",
            libc::ENOMEM => "ENOMEM",
            libc::ENOSPC => "ENOSPC",
            libc::ENOSYS => "ENOSYS",
            libc::EOPNOTSUPP => "EOPNOTSUPP",
            libc::EPERM => "EPERM",
            libc::ESRCH => "ESRCH",
            libc::ETIMEDOUT => "ETIMEDOUT",
            _ => return None,
        })
    }

    /// `Ok` with a non-negative return value, or the error behind a negative one.
    pub(crate) fn check(returned: i64) -> Result<usize> {
        usize::try_from(returned).map_err(|_| Errno::last())
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for Errno {}

/// Saves `errno` when made and restores it when dropped; a signal handler's first line.
#[must_use = "errno is restored when the guard drops"]
pub struct ErrnoGuard {
    saved: i32,
}

impl ErrnoGuard {
    /// Remembers this thread's `errno`.
    pub fn new() -> ErrnoGuard {
        ErrnoGuard { saved: Errno::last().0 }
    }
}

impl Default for ErrnoGuard {
    fn default() -> Self {
        ErrnoGuard::new()
    }
}

impl Drop for ErrnoGuard {
    fn drop(&mut self) {
        // SAFETY: as in `Errno::last`; the pointer belongs to this thread alone.
        unsafe { *libc::__errno_location() = self.saved };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail_with_ebadf() -> Errno {
        // SAFETY: closing a descriptor that cannot exist fails and does nothing else.
        Errno::check(i64::from(unsafe { libc::close(-1) })).unwrap_err()
    }

    #[test]
    fn names_known_numbers_and_counts_the_others() {
        assert_eq!(format!("{} {:?}", Errno::ENOENT, Errno::EINVAL), "ENOENT (2) EINVAL (22)");
        assert_eq!(Errno(4095).to_string(), "errno 4095");
        assert_eq!(fail_with_ebadf(), Errno(libc::EBADF));
    }

    #[test]
    fn the_guard_restores_errno() {
        // SAFETY: the pointer belongs to this thread.
        unsafe { *libc::__errno_location() = libc::ENOSPC };
        {
            let _guard = ErrnoGuard::new();
            fail_with_ebadf();
            assert_eq!(Errno::last(), Errno(libc::EBADF));
        }
        assert_eq!(Errno::last(), Errno::ENOSPC);
    }
}
