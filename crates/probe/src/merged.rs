//! Latencies of a load over all its rounds.

use crate::report::{Measurement, Round};

/// Transfers of all rounds together.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Merged {
    /// Average over all transfers.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 99 of 100 are not above it.
    pub p99_ns: u64,
    /// 999 of 1000 are not above it.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Upper ends of the buckets and their transfers, ascending.
    buckets: Vec<(u64, u64)>,
}

impl Merged {
    /// From the histograms of the rounds; where there are none, medians of the rounds' own figures.
    pub(crate) fn of(load: &Measurement) -> Self {
        let buckets = buckets(&load.rounds);
        let max_ns = load.rounds.iter().map(|round| round.latency.max_ns).max().unwrap_or(0);
        let median = |figure: fn(&Round) -> u64| load.median(|round| figure(round) as f64) as u64;
        let mut merged = Self {
            mean_ns: mean(load),
            p50_ns: median(|round| round.latency.p50_ns),
            p99_ns: median(|round| round.latency.p99_ns),
            p999_ns: median(|round| round.latency.p999_ns),
            max_ns,
            buckets,
        };
        if !merged.buckets.is_empty() {
            merged.p50_ns = merged.quantile(0.5);
            merged.p99_ns = merged.quantile(0.99);
            merged.p999_ns = merged.quantile(0.999);
        }
        merged
    }

    /// Latency that this share of the transfers does not exceed.
    fn quantile(&self, share: f64) -> u64 {
        self.quantiles().find(|&(reached, _)| reached >= share).map_or(self.max_ns, |(_, upper_ns)| upper_ns)
    }

    /// For each bucket the share of transfers up to its end, and that end; no end is above the maximum.
    pub(crate) fn quantiles(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let total = self.buckets.iter().fold(0u64, |sum, bucket| sum.saturating_add(bucket.1));
        let mut below = 0u64;
        self.buckets.iter().map(move |&(upper_ns, count)| {
            below = below.saturating_add(count);
            (below as f64 / total as f64, upper_ns.min(self.max_ns.max(1)))
        })
    }

    /// Transfers that the histograms hold.
    pub(crate) fn transfers(&self) -> u64 {
        self.buckets.iter().fold(0u64, |sum, bucket| sum.saturating_add(bucket.1))
    }
}

fn buckets(rounds: &[Round]) -> Vec<(u64, u64)> {
    let all = rounds.iter().flat_map(|round| &round.latency.histogram);
    let mut buckets: Vec<(u64, u64)> =
        all.filter(|bucket| bucket.count > 0).map(|bucket| (bucket.upper_ns, bucket.count)).collect();
    buckets.sort_unstable();
    buckets.dedup_by(|next, kept| {
        let is_same = next.0 == kept.0;
        kept.1 = if is_same { kept.1.saturating_add(next.1) } else { kept.1 };
        is_same
    });
    buckets
}

/// Rounds count by their transfers.
fn mean(load: &Measurement) -> f64 {
    let ios: f64 = load.rounds.iter().map(|round| round.ios as f64).sum();
    if ios > 0.0 {
        load.rounds.iter().map(|round| round.latency.mean_ns * (round.ios as f64 / ios)).sum()
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Bucket, Job, Latencies, Pattern, WriteMode};

    fn load(rounds: &[&[(u64, u64)]]) -> Measurement {
        let job = Job {
            pattern: Pattern::Random,
            read_percent: 100,
            block_bytes: 4096,
            depth: 1,
            write_mode: WriteMode::Cached,
            span_bytes: 1 << 20,
        };
        let round = |buckets: &&[(u64, u64)]| Round {
            duration_s: 1.0,
            ios: buckets.iter().map(|bucket| bucket.1).sum(),
            latency: Latencies {
                mean_ns: buckets[0].0 as f64,
                max_ns: buckets.last().expect("there is one").0,
                histogram: buckets.iter().map(|&(upper_ns, count)| Bucket { upper_ns, count }).collect(),
                ..Latencies::default()
            },
            ..Round::default()
        };
        Measurement { job, rounds: rounds.iter().map(round).collect() }
    }

    #[test]
    fn rounds_count_by_their_transfers() {
        let merged = Merged::of(&load(&[&[(10, 980)], &[(20, 10), (100, 10)]]));
        assert_eq!((merged.p50_ns, merged.p99_ns, merged.p999_ns, merged.max_ns), (10, 20, 100, 100));
        assert!((merged.mean_ns - 10.2).abs() < 1e-9);
        assert_eq!(merged.transfers(), 1000);
    }

    #[test]
    fn without_histograms_the_figures_of_rounds_remain() {
        let mut load = load(&[&[(10, 1)], &[(30, 1)]]);
        for round in &mut load.rounds {
            round.latency.p99_ns = round.latency.max_ns;
            round.latency.histogram.clear();
        }
        let merged = Merged::of(&load);
        assert_eq!((merged.p99_ns, merged.max_ns), (20, 30));
        assert_eq!(merged.quantiles().count(), 0);
    }
}
