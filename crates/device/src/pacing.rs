//! Whether callers of emulated flash wait as long as the flash takes.

use std::time::{Duration, Instant};

/// Whether callers wait as long as the flash takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pacing {
    /// They do not. Each request begins when the one before it has ended, in simulated time; those of a batch begin together.
    Simulated,
    /// They do: simulated time is the time of the clock on the wall, and several threads keep several dies busy.
    RealTime,
}

/// Waits shorter than this are spent looking at the clock, because a sleep takes longer than it was asked for.
const SPIN: Duration = Duration::from_micros(120);

/// Simulated time, and the waiting for it.
#[derive(Debug)]
pub struct PacedClock {
    pacing: Pacing,
    start: Instant,
}

impl PacedClock {
    /// A clock that begins now.
    #[must_use]
    pub fn new(pacing: Pacing) -> Self {
        PacedClock { pacing, start: Instant::now() }
    }

    /// Simulated time, if `last_ns` is when the last request ended.
    #[must_use]
    pub fn now_ns(&self, last_ns: u64) -> u64 {
        match self.pacing {
            Pacing::Simulated => last_ns,
            Pacing::RealTime => u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// Returns at `done_ns` in real time, at once in simulated time.
    pub fn wait_until(&self, done_ns: u64) {
        if self.pacing == Pacing::Simulated {
            return;
        }
        let done = Duration::from_nanos(done_ns);
        loop {
            let left = done.saturating_sub(self.start.elapsed());
            if left.is_zero() {
                return;
            }
            if left > SPIN {
                std::thread::sleep(left - SPIN);
            } else {
                std::thread::yield_now();
            }
        }
    }
}
