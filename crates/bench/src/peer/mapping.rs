//! A mapping of the kernel's, unmapped when dropped.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

use crate::error::{Error, Result};

/// Readable and writable memory from `mmap`.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is plain memory; nothing about it belongs to one thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// `bytes` of zeroed private memory in ordinary pages.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn anonymous(bytes: usize) -> Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let mapping = Self::new(bytes, flags, -1)?;
        mapping.advise(libc::MADV_NOHUGEPAGE)?;
        Ok(mapping)
    }

    /// The first `bytes` of `file`, shared with it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn shared(file: &File, bytes: usize) -> Result<Self> {
        Self::new(bytes, libc::MAP_SHARED, file.as_raw_fd())
    }

    fn new(bytes: usize, flags: libc::c_int, fd: libc::c_int) -> Result<Self> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: without MAP_FIXED the kernel chooses a free range.
        let base = unsafe { libc::mmap(ptr::null_mut(), bytes, rights, flags, fd, 0) };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => Ok(Self { base, bytes }),
            _ => Err(Error::last_os("mapping", "memory")),
        }
    }

    /// First byte; aligned to a page.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Length.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives the kernel a piece of `madvise` advice about the whole mapping.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn advise(&self, advice: libc::c_int) -> Result<()> {
        // SAFETY: the range is ours. Advice that discards contents leaves zeros, which are valid
        // for the atomics and bytes that mappings are used as.
        match unsafe { libc::madvise(self.base.as_ptr().cast(), self.bytes, advice) } {
            0 => Ok(()),
            _ => Err(Error::last_os("advising", "memory")),
        }
    }

    /// The same about a part of it, which begins at a multiple of a page.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn advise_range(&self, range: std::ops::Range<usize>, advice: libc::c_int) -> Result<()> {
        assert!(range.start <= range.end && range.end <= self.bytes, "inside the mapping");
        // SAFETY: the range is ours, as above.
        match unsafe { libc::madvise(self.base.as_ptr().add(range.start).cast(), range.len(), advice) } {
            0 => Ok(()),
            _ => Err(Error::last_os("advising", "memory")),
        }
    }

    /// Waits until changed pages of a shared mapping are in its file and on the device.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn sync_all(&self) -> Result<()> {
        // SAFETY: the range is ours.
        match unsafe { libc::msync(self.base.as_ptr().cast(), self.bytes, libc::MS_SYNC) } {
            0 => Ok(()),
            _ => Err(Error::last_os("syncing", "a mapping")),
        }
    }

    /// Writes changed pages of a shared mapping to its file.
    pub fn sync(&self) {
        // SAFETY: the range is ours. A failure only delays the writes.
        unsafe { libc::msync(self.base.as_ptr().cast(), self.bytes, libc::MS_SYNC) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is ours, and views of it borrow the mapping.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
