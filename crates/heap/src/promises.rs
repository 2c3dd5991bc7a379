//! Flash that is promised to objects.

use std::collections::BTreeMap;

use aquifer_log::Log;

use crate::error::HeapError;

/// What each object may need on flash is promised when it is made, so that writing it later never fails.
#[derive(Default)]
pub(crate) struct Promises {
    bytes: u64,
    /// By page size. The larger the largest, the more of each block may be left empty.
    by_page_bytes: BTreeMap<usize, u64>,
}

impl Promises {
    /// Bytes promised to all.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Promises `wanted` bytes to pages of `page_bytes`.
    ///
    /// # Errors
    /// [`HeapError::Full`].
    pub(crate) fn make(&mut self, log: &Log, page_bytes: usize, wanted: u64) -> Result<(), HeapError> {
        let largest = self.largest_page_bytes().max(page_bytes);
        let (used, limit) = (self.bytes, log.usable_bytes(largest));
        if wanted > limit.saturating_sub(used) {
            return Err(HeapError::Full { wanted, used, limit });
        }
        self.bytes += wanted;
        *self.by_page_bytes.entry(page_bytes).or_default() += wanted;
        Ok(())
    }

    /// Takes a promise back.
    pub(crate) fn take_back(&mut self, page_bytes: usize, bytes: u64) {
        self.bytes -= bytes;
        let left = self.by_page_bytes.get_mut(&page_bytes).expect("it was promised");
        *left -= bytes;
        if *left == 0 {
            self.by_page_bytes.remove(&page_bytes);
        }
    }

    /// 0 if nothing is promised.
    pub(crate) fn largest_page_bytes(&self) -> usize {
        self.by_page_bytes.last_key_value().map_or(0, |(&page_bytes, _)| page_bytes)
    }
}
