//! What came on between two samples.

use std::time::Duration;

use crate::reply::{Numbers, Sample};

/// Shortest time over which a rate says anything.
const ELAPSED_MIN: Duration = Duration::from_millis(1);

/// Increases of everything that did not decrease, and the time they took.
#[derive(Clone, PartialEq, Debug)]
pub struct Rates {
    increases: Numbers,
    seconds: f64,
}

impl Rates {
    /// Between two samples of one process; `None` for two processes, or for no time.
    pub fn between(before: &Sample, after: &Sample, elapsed: Duration) -> Option<Self> {
        if before.pid != after.pid || elapsed < ELAPSED_MIN {
            return None;
        }
        let increase = |(name, now): (&String, &u64)| {
            let increase = now.checked_sub(*before.stats.get(name)?)?;
            Some((name.clone(), increase))
        };
        let increases = after.stats.iter().filter_map(increase).collect();
        Some(Self { increases, seconds: elapsed.as_secs_f64() })
    }

    /// How much `name` came on for a second.
    pub fn per_second(&self, name: &str) -> Option<f64> {
        Some(*self.increases.get(name)? as f64 / self.seconds)
    }

    /// By how much each number came on.
    pub fn increases(&self) -> &Numbers {
        &self.increases
    }
}

/// `part` over `whole`; `None` if one is not known, or the whole is nothing.
pub fn ratio(numbers: &Numbers, part: &str, whole: &str) -> Option<f64> {
    share(numbers, part, &[whole])
}

/// `part` over the sum of `wholes`; `None` if one is not known, or the sum is nothing.
pub fn share(numbers: &Numbers, part: &str, wholes: &[&str]) -> Option<f64> {
    let sum: f64 = wholes.iter().map(|name| numbers.get(*name).map(|&n| n as f64)).sum::<Option<f64>>()?;
    let part = *numbers.get(part)? as f64;
    (sum > 0.0).then_some(part / sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use aquifer_status::Subject;

    fn sample(pid: u32, numbers: &[(&str, u64)]) -> Sample {
        let stats = numbers.iter().map(|&(name, number)| (name.to_owned(), number)).collect();
        Sample { pid, version: "1".into(), subject: Subject::default(), stats, remote: None }
    }

    #[test]
    fn increases_are_per_second() {
        let (before, after) = (sample(1, &[("faults", 1000)]), sample(1, &[("faults", 4000), ("new", 7)]));
        let rates = Rates::between(&before, &after, Duration::from_millis(1500)).unwrap();
        assert_eq!(rates.per_second("faults"), Some(2000.0));
        assert_eq!((rates.per_second("new"), rates.increases().len()), (None, 1));
    }

    #[test]
    fn what_went_back_has_no_rate() {
        let (before, after) =
            (sample(1, &[("objects", 9), ("hits", 0)]), sample(1, &[("objects", 8), ("hits", u64::MAX)]));
        let rates = Rates::between(&before, &after, Duration::from_secs(1)).unwrap();
        assert_eq!((rates.per_second("objects"), rates.per_second("hits")), (None, Some(u64::MAX as f64)));
    }

    #[test]
    fn two_processes_or_no_time_have_no_rates() {
        let (a, b) = (sample(1, &[("faults", 1)]), sample(2, &[("faults", 2)]));
        assert_eq!(Rates::between(&a, &b, Duration::from_secs(1)), None);
        assert_eq!(Rates::between(&a, &a, Duration::ZERO), None);
    }

    #[test]
    fn shares_of_sums() {
        let numbers = sample(1, &[("hits", 30), ("misses", 10), ("none", 0), ("max", u64::MAX)]).stats;
        assert_eq!(share(&numbers, "misses", &["hits", "misses"]), Some(0.25));
        assert_eq!(share(&numbers, "max", &["max", "max"]), Some(0.5));
        assert_eq!((ratio(&numbers, "hits", "none"), ratio(&numbers, "hits", "other")), (None, None));
    }
}
