//! Memory that survives.

pub mod counts;
pub mod emulated;
pub mod flash;
mod latched;
pub mod memory;

use crate::error::Result;

pub use counts::Counts;
pub use emulated::{Emulated, Latency};
pub use flash::FlashFile;
pub(crate) use latched::Latched;
pub use memory::{Medium, MemoryFile};

/// Bytes that are durable once they were persisted.
///
/// All offsets and lengths are multiples of 4. Ranges that are persisted at the same time do not overlap.
pub trait Persist: Send + Sync {
    /// Bytes that there are now.
    fn len_bytes(&self) -> u64;

    /// Makes it at least this long; the new bytes are zeros. The length is durable when something beyond the old one was persisted.
    ///
    /// # Errors
    /// There is no room; it is as long as before.
    fn grow(&self, len_bytes: u64) -> Result<()>;

    /// Takes memory for a range behind the end, for [`Persist::grow`] to find there; the length stays. Where that cannot be done, nothing is.
    ///
    /// # Errors
    /// There is no room; parts of the range may have some.
    fn reserve(&self, _offset: u64, _len_bytes: u64) -> Result<()> {
        Ok(())
    }

    /// Writes `bytes` at `offset` and waits until they are durable.
    ///
    /// # Errors
    /// The device's. Then some of the bytes may be durable, and nothing should be persisted any more.
    fn persist(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Writes several ranges where older bytes are, and waits until all are durable: once, where that can be done. They stay in
    /// the caches.
    ///
    /// # Errors
    /// As [`Persist::persist`].
    #[cfg(feature = "in-place")]
    fn persist_in_place(&self, ranges: &[(u64, &[u8])]) -> Result<()> {
        ranges.iter().try_for_each(|&(offset, bytes)| self.persist(offset, bytes))
    }

    /// Writes `bytes` at `offset`, where they are seen at once. They are durable after a [`Persist::sync`] of their range that is called
    /// when this has returned, or, as here, already.
    ///
    /// # Errors
    /// As [`Persist::persist`].
    fn store(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.persist(offset, bytes)
    }

    /// Waits until what was stored in some ranges is durable: where each begins, and how long it is.
    ///
    /// # Errors
    /// As [`Persist::persist`].
    fn sync(&self, _ranges: &[(u64, u64)]) -> Result<()> {
        Ok(())
    }

    /// Makes durable what is seen in some ranges, also if another process stored it, and the device refused it.
    ///
    /// # Errors
    /// As [`Persist::persist`].
    fn settle(&self, ranges: &[(u64, u64)]) -> Result<()> {
        self.sync(ranges)
    }

    /// Copies bytes that are there. Zeros come from beyond the end; anything from where somebody writes now.
    fn read(&self, offset: u64, out: &mut [u8]);

    /// Gives the memory of a range back; it reads as zeros. Before it is persisted again, [`Persist::refill`] it.
    ///
    /// # Errors
    /// The device's; the range is as before or zeros.
    fn punch(&self, offset: u64, len_bytes: u64) -> Result<()>;

    /// Takes memory for a range that may have none.
    ///
    /// # Errors
    /// There is no room; parts of the range may have none then.
    fn refill(&self, offset: u64, len_bytes: u64) -> Result<()>;

    /// Whether it is only looked at: all that would change it fails.
    fn is_read_only(&self) -> bool {
        false
    }

    /// What it has done.
    fn counts(&self) -> &Counts;
}
