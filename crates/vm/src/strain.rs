//! A program that waits for flash longer than it runs, and the RAM with which it would not.

use std::time::{Duration, Instant};

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_cache::Distances;
use aquifer_sys::process;

use crate::budget::Strain;
use crate::pages::Pages;

/// How long it must go on.
const PERIOD: Duration = Duration::from_secs(10);
/// Between two looks.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// More RAM helps if this share of the pages that came back would not have left, in percent.
const HELPS_PERCENT: u64 = 75;

/// Time of threads, nanoseconds, so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Spent {
    waited_ns: u64,
    ran_ns: u64,
}

/// Watches for strain.
pub(crate) struct Watch {
    looked: Instant,
    last: Spent,
    /// When it began, and how far pages had gone by then.
    began: Option<(Instant, Distances)>,
    is_told: bool,
}

impl Watch {
    pub(crate) fn new() -> Self {
        let last = Spent { waited_ns: 0, ran_ns: 0 };
        Self { looked: Instant::now(), last, began: None, is_told: false }
    }

    /// Looks now and then; what is to be told, once.
    pub(crate) fn look(&mut self, pages: &Pages) -> Option<Strain> {
        if self.is_told || self.looked.elapsed() < LOOK_PERIOD {
            return None;
        }
        let spent = Spent { waited_ns: pages.waited_ns(), ran_ns: process::cpu_ns() };
        self.note(Instant::now(), spent, || pages.residence.distances())
    }

    /// What threads have spent by `now`.
    fn note(&mut self, now: Instant, spent: Spent, distances: impl FnOnce() -> Distances) -> Option<Strain> {
        let Spent { waited_ns, ran_ns } = std::mem::replace(&mut self.last, spent);
        self.looked = now;
        if spent.waited_ns.saturating_sub(waited_ns) <= spent.ran_ns.saturating_sub(ran_ns) {
            self.began = None;
            return None;
        }
        let Some((began, before)) = &self.began else {
            self.began = Some((now, distances()));
            return None;
        };
        let period = now.duration_since(*began);
        if period < PERIOD {
            return None;
        }
        self.is_told = true;
        let more = distances().since(before).slots_for(HELPS_PERCENT);
        Some(Strain { period, more_bytes: more.map(|pages| pages * OS_PAGE_BYTES as u64) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tells `watch` of seconds, in each of which threads wait and run for the given milliseconds. Returns
    /// the first second at which it reports.
    fn second_of(watch: &mut Watch, seconds: &[(u64, u64)]) -> Option<usize> {
        let (start, mut spent) = (Instant::now(), Spent { waited_ns: 0, ran_ns: 0 });
        seconds.iter().enumerate().position(|(n, (waited_ms, ran_ms))| {
            spent.waited_ns += waited_ms * 1_000_000;
            spent.ran_ns += ran_ms * 1_000_000;
            watch.note(start + Duration::from_secs(n as u64), spent, Distances::default).is_some()
        })
    }

    #[test]
    fn it_is_told_after_ten_seconds_in_a_row() {
        assert_eq!(second_of(&mut Watch::new(), &[(900, 400); 30]), Some(10));
        let mut interrupted = [(900, 400); 30];
        interrupted[8] = (300, 700);
        assert_eq!(second_of(&mut Watch::new(), &interrupted), Some(19));
        // Many threads that run as many processors wait for more than a second each second.
        assert_eq!(second_of(&mut Watch::new(), &[(3000, 4000); 30]), None);
    }
}
