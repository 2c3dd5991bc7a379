//! Memory that makes nothing durable any more after it once could not.
//!
//! After an error nobody knows what is durable: the operating system may show what the disk never got, and answer a second try well (Rebello et
//! al., "Can Applications Recover from fsync Failures?", ATC 2020). What is there can be read, and room can still be missing without harm.

use std::io;
use std::sync::OnceLock;

use super::{Counts, Persist};
use crate::error::{Error, Result};

/// Any memory, behind a latch that its first error closes.
pub(crate) struct Latched {
    below: Box<dyn Persist>,
    /// The operating system's number of that error.
    failed: OnceLock<i32>,
}

impl Latched {
    pub(crate) fn new(below: Box<dyn Persist>) -> Self {
        Self { below, failed: OnceLock::new() }
    }

    #[inline]
    fn unless_failed<T>(&self, persist: impl FnOnce(&dyn Persist) -> Result<T>) -> Result<T> {
        if let Some(&errno) = self.failed.get() {
            return Err(Error::io("it failed before; making changes durable")(io::Error::from_raw_os_error(
                errno,
            )));
        }
        let outcome = persist(&*self.below);
        if let Err(error) = &outcome {
            self.remember(error);
        }
        outcome
    }

    #[cold]
    fn remember(&self, error: &Error) {
        let errno = match error {
            Error::Io { source, .. } => source.raw_os_error(),
            _ => None,
        };
        let _ = self.failed.set(errno.unwrap_or(libc::EIO));
    }
}

impl Persist for Latched {
    fn len_bytes(&self) -> u64 {
        self.below.len_bytes()
    }

    fn grow(&self, len_bytes: u64) -> Result<()> {
        self.below.grow(len_bytes)
    }

    fn reserve(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.below.reserve(offset, len_bytes)
    }

    fn persist(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.unless_failed(|below| below.persist(offset, bytes))
    }

    #[cfg(feature = "in-place")]
    fn persist_in_place(&self, ranges: &[(u64, &[u8])]) -> Result<()> {
        self.unless_failed(|below| below.persist_in_place(ranges))
    }

    fn store(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.unless_failed(|below| below.store(offset, bytes))
    }

    fn sync(&self, ranges: &[(u64, u64)]) -> Result<()> {
        self.unless_failed(|below| below.sync(ranges))
    }

    fn settle(&self, ranges: &[(u64, u64)]) -> Result<()> {
        self.unless_failed(|below| below.settle(ranges))
    }

    fn read(&self, offset: u64, out: &mut [u8]) {
        self.below.read(offset, out);
    }

    fn punch(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.below.punch(offset, len_bytes)
    }

    fn refill(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.below.refill(offset, len_bytes)
    }

    fn is_read_only(&self) -> bool {
        self.below.is_read_only()
    }

    fn counts(&self) -> &Counts {
        self.below.counts()
    }
}
