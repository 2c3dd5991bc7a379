//! What was found of one load.

use serde::{Deserialize, Serialize};

use super::Job;

/// Latencies of one round. A histogram with two significant digits keeps all of them.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latencies {
    /// Average.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 99 of 100 are not above it.
    pub p99_ns: u64,
    /// 999 of 1000 are not above it.
    pub p999_ns: u64,
    /// The longest, exactly.
    pub max_ns: u64,
    /// In ascending order of `upper_ns`; buckets without transfers are left out.
    pub histogram: Vec<Bucket>,
}

/// Transfers of about one latency.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Bucket {
    /// No latency in the bucket is above it.
    pub upper_ns: u64,
    /// Transfers.
    pub count: u64,
}

/// A part of a round, a tenth of a second or longer.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slice {
    /// Its end, since the round's start.
    pub end_s: f64,
    /// Transfers that ended in it.
    pub ios: u64,
    /// The longest of them; 0 if there was none.
    pub max_ns: u64,
}

/// One uninterrupted stretch of a load.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Round {
    /// How long it was: of simulated time where the device is simulated.
    pub duration_s: f64,
    /// Transfers.
    pub ios: u64,
    /// Bytes moved by them.
    pub bytes: u64,
    /// Processor time of the load and of the kernel for it; 0 where the device is simulated.
    pub cpu_s: f64,
    /// Of all transfers.
    pub latency: Latencies,
    /// The round in parts, for stalls.
    pub timeline: Vec<Slice>,
}

impl Round {
    /// Transfers per second.
    #[must_use]
    pub fn iops(&self) -> f64 {
        if self.duration_s > 0.0 { self.ios as f64 / self.duration_s } else { 0.0 }
    }

    /// Megabytes (10^6) per second.
    #[must_use]
    pub fn megabytes_per_s(&self) -> f64 {
        if self.duration_s > 0.0 { self.bytes as f64 / self.duration_s / 1e6 } else { 0.0 }
    }
}

/// A load and its rounds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// The load.
    pub job: Job,
    /// At least one.
    pub rounds: Vec<Round>,
}

impl Measurement {
    /// The median of a figure over the rounds.
    ///
    /// For an even number of rounds it is the mean of the middle two; 0 without rounds.
    #[must_use]
    pub fn median(&self, figure: impl Fn(&Round) -> f64) -> f64 {
        let mut figures: Vec<f64> = self.rounds.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        match figures.len() {
            0 => 0.0,
            n if n % 2 == 1 => figures[n / 2],
            n => f64::midpoint(figures[n / 2 - 1], figures[n / 2]),
        }
    }

    /// Median of transfers per second.
    #[must_use]
    pub fn iops(&self) -> f64 {
        self.median(Round::iops)
    }

    /// Median of megabytes (10^6) per second.
    #[must_use]
    pub fn megabytes_per_s(&self) -> f64 {
        self.median(Round::megabytes_per_s)
    }

    /// Median of the processor time of one transfer.
    #[must_use]
    pub fn cpu_ns_per_io(&self) -> f64 {
        self.median(|round| if round.ios == 0 { 0.0 } else { round.cpu_s * 1e9 / round.ios as f64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Pattern, WriteMode};

    fn with_ios(counts: &[u64]) -> Measurement {
        let job = Job {
            pattern: Pattern::Random,
            read_percent: 0,
            block_bytes: 4096,
            depth: 1,
            write_mode: WriteMode::Cached,
            span_bytes: 1 << 20,
        };
        let round = |&ios| Round { duration_s: 2.0, ios, bytes: ios * 4096, ..Round::default() };
        Measurement { job, rounds: counts.iter().map(round).collect() }
    }

    #[test]
    fn medians_are_of_rounds() {
        assert_eq!(with_ios(&[10, 2, 6]).iops(), 3.0);
        assert_eq!(with_ios(&[10, 2]).iops(), 3.0);
        assert_eq!(with_ios(&[]).iops(), 0.0);
        assert_eq!(with_ios(&[2_000_000]).megabytes_per_s(), 4096.0);
    }
}
