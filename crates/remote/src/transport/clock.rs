//! How long to look before sleeping.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Looking costs a processor; going to sleep and being woken costs some 40 us. So nobody looks for longer than about that.
const SPIN_MAX_NS: u64 = 60_000;
/// Part of a new duration in the average, as a shift.
const WEIGHT_SHIFT: u32 = 3;

/// How long transfers took of late, and for how long it is worth looking for the next one's end.
#[derive(Debug)]
pub struct Pace {
    average_ns: AtomicU64,
    spins: bool,
}

impl Pace {
    /// Begins with looking, if it is allowed.
    pub fn new(spins: bool) -> Pace {
        Pace { average_ns: AtomicU64::new(0), spins }
    }

    /// Notes how long a transfer took.
    pub fn note(&self, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).min(1 << 32);
        let average_ns = self.average_ns.load(Ordering::Relaxed);
        let next_ns = average_ns - (average_ns >> WEIGHT_SHIFT) + (took_ns >> WEIGHT_SHIFT);
        self.average_ns.store(next_ns, Ordering::Relaxed);
    }

    /// For how long to look. Where transfers take longer than sleeping costs, looking gains little; then it is for a moment, which finds out when that changes.
    pub fn spin(&self) -> Duration {
        let average_ns = self.average_ns.load(Ordering::Relaxed);
        let spin_ns = match (self.spins, average_ns < SPIN_MAX_NS) {
            (false, _) => 0,
            (true, true) => (2 * average_ns).clamp(SPIN_MAX_NS / 4, SPIN_MAX_NS),
            (true, false) => SPIN_MAX_NS / 4,
        };
        Duration::from_nanos(spin_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_transfers_are_looked_for_and_slow_ones_slept_for() {
        let pace = Pace::new(true);
        (0..100).for_each(|_| pace.note(Duration::from_micros(10)));
        let fast = pace.spin();
        assert!(fast >= Duration::from_micros(15) && fast <= Duration::from_micros(60), "{fast:?}");
        (0..100).for_each(|_| pace.note(Duration::from_millis(5)));
        assert_eq!(pace.spin(), Duration::from_micros(15));
        assert_eq!(Pace::new(false).spin(), Duration::ZERO);
    }
}
