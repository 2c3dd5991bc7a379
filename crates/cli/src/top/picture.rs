//! The last answer, rates and history.

use std::collections::VecDeque;

use crate::borrowed::{Borrowed, rows};
use crate::heap::Measurement;
use crate::latency::Latency;
use crate::reply::Sample;

use super::panel::history;
use super::rates::Rates;

/// More than any screen is wide.
const HISTORY_MAX: usize = 2048;

/// What is shown of a heap: its last answers, and what they changed.
#[derive(Clone)]
pub struct Picture {
    /// The last answer.
    pub now: Measurement,
    /// Since the answer before.
    pub rates: Option<Rates>,
    /// Reads from flash since the answer before.
    pub latency: Option<Latency>,
    /// What was borrowed at the answer before, and the seconds since.
    before: Option<(Borrowed, f64)>,
    /// What is counted for a second of [`history`](super::panel::history), the latest at the end.
    pub history: VecDeque<f64>,
}

impl Picture {
    /// After the first answer.
    pub fn first(now: Measurement) -> Self {
        Self { now, rates: None, latency: None, before: None, history: VecDeque::new() }
    }

    /// After another answer. One of another process, or of another heap, begins anew.
    pub fn advance(&mut self, next: Measurement) {
        let is_same = |sample: &Sample| (sample.pid, sample.subject);
        if is_same(&next.sample) != is_same(&self.now.sample) {
            *self = Self::first(next);
            return;
        }
        let elapsed = next.taken.saturating_duration_since(self.now.taken);
        self.rates = Rates::between(&self.now.sample, &next.sample, elapsed);
        self.latency = match (&next.latency, &self.now.latency) {
            (Ok(after), Ok(before)) => after.since(before),
            _ => None,
        };
        let borrowed = self.now.sample.remote.take().filter(|_| !elapsed.is_zero());
        self.before = borrowed.map(|borrowed| (borrowed, elapsed.as_secs_f64()));
        let (name, _) = history(self.now.sample.subject);
        let rate = self.rates.as_ref().and_then(|rates| rates.per_second(name));
        self.history.extend(rate);
        let excess = self.history.len().saturating_sub(HISTORY_MAX);
        self.history.drain(..excess);
        self.now = next;
    }

    /// What is borrowed now, and what was before.
    pub fn borrowed(&self) -> Option<(&Borrowed, rows::Earlier<'_>)> {
        let before = self.before.as_ref().map(|(before, seconds)| (before, *seconds));
        Some((self.now.sample.remote.as_ref()?, before))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::borrowed::tests::borrowed;
    use crate::heap::NOT_COUNTED;
    use crate::reply::{Numbers, Sample};
    use aquifer_status::Subject;
    use std::time::{Duration, Instant};

    /// A heap at work, `steps` seconds after it was opened.
    pub fn measurement(pid: u32, steps: u64, start: Instant) -> Measurement {
        let all = serde_json::to_value(aquifer::Stats::default()).unwrap();
        let mut stats: Numbers = serde_json::from_value(all).unwrap();
        // Each number has its own size, and most of them rise.
        for (n, number) in stats.values_mut().enumerate() {
            *number = (n as u64 + 1) * 1_234_567 * (steps + 1);
        }
        let levels = [
            ("ram_budget_bytes", 256 << 20),
            ("ram_used_bytes", 250 << 20),
            ("cache_bytes", 180 << 20),
            ("page_buffer_bytes", 16 << 20),
            ("metadata_bytes", 50 << 20),
            ("flash_bytes", 8 << 30),
            ("flash_live_bytes", 3 << 30),
            ("object_bytes", 4 << 30),
            ("io_errors", 0),
        ];
        stats.extend(levels.map(|(name, number)| (name.to_owned(), number)));
        let count: Vec<u64> =
            [0, 12, 5_003, 91_234, 40_123, 2_345, 170, 31, 2, 0].iter().map(|n| n * steps).collect();
        let upper_ns: Vec<u64> = (0..count.len()).map(|n| 1 << (n + 13)).collect();
        let latency = serde_json::json!({ "upper_ns": upper_ns, "count": count });
        let sample =
            Sample { pid, version: "0.1.0".into(), subject: Subject::default(), stats, remote: None };
        Measurement {
            taken: start + Duration::from_secs(steps),
            sample,
            latency: Ok(serde_json::from_value(latency).unwrap()),
        }
    }

    /// As [`picture`], of a heap with donors.
    pub fn borrowing() -> Picture {
        let of = |step| {
            let mut measurement = measurement(4711, step, Instant::now());
            measurement.sample.remote = Some(borrowed(step));
            measurement
        };
        let mut picture = Picture::first(of(1));
        picture.advance(Measurement { taken: picture.now.taken + Duration::from_secs(2), ..of(3) });
        picture
    }

    /// After some seconds.
    pub fn picture() -> Picture {
        let start = Instant::now();
        let mut picture = Picture::first(measurement(4711, 0, start));
        (1..40).for_each(|step| picture.advance(measurement(4711, step, start)));
        let waves = (0..200).map(|n| 50_000.0 + 40_000.0 * (f64::from(n) / 9.0).sin());
        picture.history = waves.collect();
        picture
    }

    #[test]
    fn rates_latency_and_history_follow() {
        let start = Instant::now();
        let mut picture = Picture::first(measurement(1, 1, start));
        assert!(picture.rates.is_none() && picture.history.is_empty());
        picture.advance(measurement(1, 3, start));
        assert!(picture.rates.as_ref().unwrap().per_second("faults").unwrap() > 0.0);
        assert_eq!(picture.latency.as_ref().unwrap().buckets()[1].count, 24);
        assert_eq!(picture.history.len(), 1);
        let unknown = Measurement { latency: Err(NOT_COUNTED), ..measurement(1, 4, start) };
        picture.advance(unknown);
        assert!(picture.latency.is_none() && picture.history.len() == 2);
    }

    #[test]
    fn donors_are_compared_with_the_answer_before() {
        let mut picture = borrowing();
        let (now, before) = picture.borrowed().expect("it borrows");
        assert_eq!(
            (now.donors[0].reads, before.map(|(before, seconds)| (before.donors[0].reads, seconds))),
            (300, Some((100, 2.0)))
        );
        picture.advance(measurement(4711, 4, Instant::now()));
        assert!(picture.borrowed().is_none());
    }

    #[test]
    fn another_process_begins_anew() {
        let start = Instant::now();
        let mut picture = picture();
        picture.advance(measurement(9, 50, start));
        assert!(picture.rates.is_none() && picture.history.is_empty());
    }

    #[test]
    fn history_is_bounded() {
        let start = Instant::now();
        let mut picture = Picture::first(measurement(1, 0, start));
        (1..=HISTORY_MAX as u64 + 9).for_each(|step| picture.advance(measurement(1, step, start)));
        assert_eq!(picture.history.len(), HISTORY_MAX);
    }
}
