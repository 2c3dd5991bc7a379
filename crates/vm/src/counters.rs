//! What happened to pages so far.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aquifer_sys::stripe::{STRIPES, stripe};

/// Counts of durations by powers of two.
#[derive(Default)]
pub struct Durations([Counter; DURATION_BUCKETS]);

/// Buckets of [`Durations`]: up to 2^(n + 10) ns, about 1 us to 2 s.
pub const DURATION_BUCKETS: usize = 22;

impl Durations {
    /// Counts one.
    pub fn add(&self, duration: Duration) {
        let ns = duration.as_nanos().clamp(1, u128::from(u64::MAX)) as u64;
        let bucket = (u64::BITS - (ns - 1).leading_zeros()).saturating_sub(10) as usize;
        self.0[bucket.min(DURATION_BUCKETS - 1)].add(1);
    }

    /// The longest duration of each bucket in nanoseconds, and how many there were. The last has no limit.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().enumerate().map(|(n, count)| (1 << (n + 10), count.sum()))
    }
}

/// A cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Stripe(AtomicU64);

/// A sum to which many threads add.
#[derive(Default)]
pub struct Counter([Stripe; STRIPES]);

impl Counter {
    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0[stripe()].0.fetch_add(count, Ordering::Relaxed);
    }

    /// What was added so far.
    pub fn sum(&self) -> u64 {
        self.0.iter().map(|stripe| stripe.0.load(Ordering::Relaxed)).sum()
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Event counts since the heap was opened. Each is exact; together they are no snapshot.
        #[derive(Default)]
        pub struct Counters { $($(#[$doc])* pub $name: Counter,)* }
    };
}

counters! {
    /// Faults taken.
    faults,
    /// Of these: first writes to a page that was mapped by a read.
    faults_write_upgrade,
    /// Of these: served from the object cache.
    hits,
    /// Of these: read from the log.
    misses,
    /// Of these: pages never written.
    zero_fills,
    /// Pages that left the page buffer.
    evicted_pages,
    /// Page records written by the writer.
    objects_written,
    /// Payload of these.
    objects_written_bytes,
    /// Page records copied by the cleaner.
    objects_cleaned,
    /// Payload of these.
    objects_cleaned_bytes,
    /// Segments cleaned.
    segments_cleaned,
    /// Segments retired because they could not be read.
    segments_retired,
    /// Times a fault waited for the writer to free RAM.
    writer_waits,
    /// Pages brought into the cache by prefetch.
    prefetched,
}
