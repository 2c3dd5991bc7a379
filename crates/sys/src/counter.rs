//! Sums and histograms to which many threads add, and the cheap way to tell threads apart that they and others use.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

/// Stripes that [`stripe`] chooses from.
pub const STRIPES: usize = 8;

/// A number below [`STRIPES`] that two threads seldom share, for data that would otherwise be written by all
/// processors in turn. A thread's number may change from call to call.
///
/// # Context
/// Signal-safe. Costs a few instructions: threads are told apart by where their stacks are.
pub fn stripe() -> usize {
    let here = 0u8;
    let stack = core::ptr::from_ref(&here) as usize >> 16;
    stack.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (usize::BITS - STRIPES.ilog2())
}

/// A cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe(AtomicU64);

/// A sum to which many threads add.
#[derive(Debug, Default)]
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

/// Buckets of [`Durations`]: up to 2^(n + 10) ns, about 1 us to 2 s.
pub const DURATION_BUCKETS: usize = 22;

/// Counts of durations by powers of two, and their sum.
#[derive(Debug, Default)]
pub struct Durations {
    counts: [Counter; DURATION_BUCKETS],
    sum_ns: AtomicU64,
}

impl Durations {
    /// Counts one.
    pub fn add(&self, duration: Duration) {
        let ns = duration.as_nanos().clamp(1, u128::from(u64::MAX)) as u64;
        let bucket = (u64::BITS - (ns - 1).leading_zeros()).saturating_sub(10) as usize;
        self.counts[bucket.min(DURATION_BUCKETS - 1)].add(1);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// The longest duration of each bucket in nanoseconds, and how many there were. The last has no limit.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        self.counts.iter().enumerate().map(|(n, count)| (1 << (n + 10), count.sum()))
    }

    /// All of them together, nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_to_one_sum() {
        let counter = Counter::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| counter.add(3)));
            }
        });
        assert_eq!(counter.sum(), 12_000);
    }

    #[test]
    fn durations_fall_into_powers_of_two() {
        let durations = Durations::default();
        for ns in [0, 1, 1024, 1025, 2048, 1 << 31] {
            durations.add(Duration::from_nanos(ns));
        }
        let counts: Vec<(u64, u64)> = durations.counts().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counts, [(1024, 3), (2048, 2), (1 << 31, 1)]);
        assert_eq!(durations.sum_ns(), 1 + 1 + 1024 + 1025 + 2048 + (1 << 31));
        durations.add(Duration::MAX);
        assert_eq!(durations.counts().last(), Some((1 << 31, 2)));
    }

    #[test]
    fn threads_spread_over_stripes() {
        let threads: Vec<_> =
            (0..64).map(|_| std::thread::spawn(|| (stripe(), std::thread::yield_now()).0)).collect();
        let mut seen = [0; STRIPES];
        threads.into_iter().for_each(|thread| seen[thread.join().expect("join")] += 1);
        assert_eq!(seen.iter().sum::<i32>(), 64);
    }
}
