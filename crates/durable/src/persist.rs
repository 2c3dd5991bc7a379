//! Memory that survives.

pub mod emulated;
pub mod flash;
pub mod memory;

use std::sync::atomic::{AtomicU64, Ordering};

use aquifer_sys::stripe;
use aquifer_sys::stripe::STRIPES;

use crate::error::Result;

pub use emulated::{Emulated, Latency};
pub use flash::FlashFile;
pub use memory::{MemoryFile, is_memory};

/// Bytes that are durable once they were persisted.
///
/// All offsets and lengths are multiples of 4. Ranges that are persisted at the same time do not overlap.
pub trait Persist: Send + Sync {
    /// Bytes that there are now.
    fn len_bytes(&self) -> u64;

    /// Makes it at least this long; the new bytes are zeros.
    ///
    /// # Errors
    /// There is no room; it is as long as before.
    fn grow(&self, len_bytes: u64) -> Result<()>;

    /// Writes `bytes` at `offset` and waits until they are durable.
    ///
    /// # Errors
    /// The device's. Then some of the bytes may be durable, and nothing should be persisted any more.
    fn persist(&self, offset: u64, bytes: &[u8]) -> Result<()>;

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

    /// What it has done.
    fn counts(&self) -> &Counts;
}

/// What a memory was asked for.
#[derive(Default)]
pub struct Counts {
    stripes: [Stripe; STRIPES],
}

/// The counts of some threads, on cache lines of their own.
#[derive(Default)]
#[repr(align(128))]
struct Stripe {
    fences: AtomicU64,
    bytes: AtomicU64,
}

impl Counts {
    #[inline]
    pub(crate) fn add(&self, bytes: usize) {
        let stripe = &self.stripes[stripe()];
        stripe.fences.fetch_add(1, Ordering::Relaxed);
        stripe.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Waits for durability.
    pub fn fences(&self) -> u64 {
        self.stripes.iter().map(|stripe| stripe.fences.load(Ordering::Relaxed)).sum()
    }

    /// Bytes persisted.
    pub fn bytes(&self) -> u64 {
        self.stripes.iter().map(|stripe| stripe.bytes.load(Ordering::Relaxed)).sum()
    }
}
