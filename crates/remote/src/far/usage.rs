//! How often a slab is used.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Uses are counted over at least so long, and then from the beginning, so that what was long ago does not count.
const PERIOD_MS: u64 = 10_000;
/// What came in a shorter time says nothing yet.
const PERIOD_MS_MIN: u64 = 1_000;

/// Counts uses, for any number of threads; one asks for their rate.
#[derive(Debug)]
pub struct Usage {
    made: Instant,
    count: AtomicU64,
    /// When the period began, in milliseconds.
    began_ms: AtomicU64,
    /// Of the period before.
    rate_before: AtomicU64,
}

impl Usage {
    /// None yet.
    pub fn new() -> Usage {
        Usage {
            made: Instant::now(),
            count: AtomicU64::new(0),
            began_ms: AtomicU64::new(0),
            rate_before: AtomicU64::new(0),
        }
    }

    /// One more.
    pub fn note(&self) {
        self.count.fetch_add(1, Relaxed);
    }

    /// Uses in 1,000 seconds, by what was counted in the last seconds: not in all the time since the last question, which may have been a moment ago.
    pub fn per_1000_s(&self) -> u64 {
        self.rate_at(self.made.elapsed())
    }

    fn rate_at(&self, now: Duration) -> u64 {
        let now_ms = now.as_millis() as u64;
        let began_ms = self.began_ms.load(Relaxed);
        let period_ms = now_ms.saturating_sub(began_ms);
        if period_ms < PERIOD_MS_MIN && began_ms > 0 {
            return self.rate_before.load(Relaxed);
        }
        let rate = self.count.load(Relaxed).saturating_mul(1_000_000) / period_ms.max(1);
        if period_ms >= PERIOD_MS {
            self.count.store(0, Relaxed);
            self.began_ms.store(now_ms, Relaxed);
            self.rate_before.store(rate, Relaxed);
        }
        rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(usage: &Usage, times: u64) {
        (0..times).for_each(|_| usage.note());
    }

    #[test]
    fn a_question_changes_no_answer() {
        let usage = Usage::new();
        used(&usage, 50);
        for _ in 0..3 {
            assert_eq!(usage.rate_at(Duration::from_secs(5)), 10_000);
        }
        used(&usage, 50);
        assert_eq!(usage.rate_at(Duration::from_secs(10)), 10_000);
        assert_eq!(usage.rate_at(Duration::from_millis(10_100)), 10_000);
    }

    #[test]
    fn what_was_long_ago_does_not_count() {
        let usage = Usage::new();
        used(&usage, 1000);
        assert_eq!(usage.rate_at(Duration::from_secs(10)), 100_000);
        assert_eq!(usage.rate_at(Duration::from_secs(20)), 0);
    }

    #[test]
    fn a_slab_that_is_new_has_a_rate() {
        let usage = Usage::new();
        used(&usage, 10);
        assert_eq!(usage.rate_at(Duration::from_millis(100)), 100_000);
    }
}
