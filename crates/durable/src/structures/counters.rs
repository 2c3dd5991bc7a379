//! A count that is several: so transactions that change different entries seldom meet at it.

use super::PAGE_BYTES;
use crate::access::{Access, Load};
use crate::error::Result;
use crate::reference::Ref;
use crate::typed::Typed;

/// How many.
pub(super) const COUNTERS: u64 = 32;

/// Counters that add up to one. Each is 4 KiB from the next one.
#[derive(Clone, Copy)]
pub(super) struct Counters(Ref<u64>);

impl Counters {
    /// Home space that they take.
    pub(super) const BYTES: u64 = COUNTERS * PAGE_BYTES as u64;

    /// Those behind the first 4 KiB of an object.
    #[inline]
    pub(super) fn behind<T>(object: Ref<T>) -> Self {
        Self(object.plus_bytes(PAGE_BYTES))
    }

    fn counter(self, number: u64) -> Ref<u64> {
        self.0.plus_bytes(number as usize * PAGE_BYTES)
    }

    /// Counts an entry in or out; returns how many the counter has now.
    #[inline]
    pub(super) fn count<A: Access + ?Sized>(self, tx: &mut A, hash: u64, change: i64) -> Result<u64> {
        let counter = self.counter(hash >> 48 & (COUNTERS - 1));
        let count = tx.get(counter)?.wrapping_add_signed(change);
        tx.set(counter, count)?;
        Ok(count)
    }

    /// What they add up to. A transaction that asks meets all that count.
    pub(super) fn sum<A: Load + ?Sized>(self, tx: &mut A) -> Result<u64> {
        (0..COUNTERS).map(|n| tx.get(self.counter(n))).sum()
    }
}
