//! Memory that is as slow to persist as the non-volatile memory of the paper.
//!
//! Each persist takes max(latency, bytes / bandwidth) (Hu et al., ATC 2017, section "Evaluation": 500 ns; the bandwidth is taken to be
//! 1 GB/s), and longer while others use the bandwidth, which all share. The time that the memory below takes counts as a part of it. Reads cost
//! what they cost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Counts, Persist};
use crate::error::Result;

/// What a persist costs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Latency {
    /// At least this long.
    pub latency_ns: u64,
    /// Bandwidth, bytes a second.
    pub bytes_per_s: u64,
}

impl Default for Latency {
    fn default() -> Self {
        Self { latency_ns: 500, bytes_per_s: 1_000_000_000 }
    }
}

impl Latency {
    /// How long `bytes` take if nobody else persists anything.
    pub fn of(&self, bytes: usize) -> Duration {
        Duration::from_nanos(self.latency_ns.max(self.transfer_ns(bytes)))
    }

    fn transfer_ns(&self, bytes: usize) -> u64 {
        (bytes as u128 * 1_000_000_000 / u128::from(self.bytes_per_s.max(1))) as u64
    }
}

/// When the memory has transferred what was given to it.
#[derive(Default)]
struct Transfers(AtomicU64);

impl Transfers {
    /// Adds one of `transfer_ns` at `now_ns`; returns when it ends, behind all that were added before.
    fn add(&self, now_ns: u64, transfer_ns: u64) -> u64 {
        let end = |before: u64| before.max(now_ns) + transfer_ns;
        let before = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |before| Some(end(before)));
        end(before.expect("there is always an end"))
    }
}

/// Another memory, slowed down.
pub struct Emulated<P> {
    below: P,
    latency: Latency,
    begun: Instant,
    transfers: Transfers,
}

impl<P> Emulated<P> {
    /// `below`, with this latency.
    pub fn new(below: P, latency: Latency) -> Self {
        Self { below, latency, begun: Instant::now(), transfers: Transfers::default() }
    }

    /// Runs `persist`, and spins until the emulated latency of `bytes` is over.
    fn slowly(&self, bytes: usize, persist: impl FnOnce() -> Result<()>) -> Result<()> {
        let now_ns = self.begun.elapsed().as_nanos() as u64;
        let end_ns = self.transfers.add(now_ns, self.latency.transfer_ns(bytes));
        let until_ns = end_ns.max(now_ns + self.latency.latency_ns);
        persist()?;
        while (self.begun.elapsed().as_nanos() as u64) < until_ns {
            std::hint::spin_loop();
        }
        Ok(())
    }
}

impl<P: Persist> Persist for Emulated<P> {
    fn len_bytes(&self) -> u64 {
        self.below.len_bytes()
    }

    fn grow(&self, len_bytes: u64) -> Result<()> {
        self.below.grow(len_bytes)
    }

    fn persist(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.slowly(bytes.len(), || self.below.persist(offset, bytes))
    }

    fn store(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.below.store(offset, bytes)
    }

    fn sync(&self, ranges: &[(u64, u64)]) -> Result<()> {
        let bytes = ranges.iter().map(|&(_, len)| len as usize).sum();
        self.slowly(bytes, || self.below.sync(ranges))
    }

    #[cfg(feature = "in-place")]
    fn persist_in_place(&self, ranges: &[(u64, &[u8])]) -> Result<()> {
        let bytes = ranges.iter().map(|(_, bytes)| bytes.len()).sum();
        self.slowly(bytes, || self.below.persist_in_place(ranges))
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

    fn counts(&self) -> &Counts {
        self.below.counts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_share_the_bandwidth() {
        let transfers = Transfers::default();
        assert_eq!(
            [(100, 50), (100, 50), (120, 10), (300, 5)].map(|(now, ns)| transfers.add(now, ns)),
            [150, 200, 210, 305]
        );
    }

    #[test]
    fn the_larger_of_latency_and_transfer_counts() {
        let latency = Latency::default();
        assert_eq!(latency.of(8), Duration::from_nanos(500));
        assert_eq!(latency.of(500), Duration::from_nanos(500));
        assert_eq!(latency.of(4096), Duration::from_nanos(4096));
        assert_eq!(Latency { latency_ns: 0, bytes_per_s: 0 }.of(1), Duration::from_secs(1));
    }
}
