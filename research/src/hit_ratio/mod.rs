//! Hit ratios of the eviction policies on simulated caches, for `docs/explanation/policies.md`.
//!
//! The policies are the ones of `aquifer-cache`, driven through their trait; only the slots are simulated.

mod cache;
mod trace;

use std::collections::BTreeMap;

use aquifer_bench::child::Parent;
use aquifer_bench::error::{Error, Result};
use aquifer_bench::study::{Fields, Session, Study, Table, key, median, range, ratio};
use clap::Args;
use serde::Serialize;

use cache::{Cache, Candidate, Effort};
use trace::Workload;

/// Slots in percent of the keys; 6.25 is a data:RAM ratio of 16.
const CACHE_PERCENT: [f64; 3] = [1.0, 6.25, 25.0];
/// The part of a trace that is not counted.
const WARM_UP_PART: usize = 3;
const PEERS: &[&str] = &["clock/1", "clock/3", "clock/7", "clock", "lru", "sieve", "s3-fifo"];
const FIRST: &[&str] = &["clock/1"];

const TABLE: Table = Table {
    title: "Hit ratios: {keys} keys, {accesses} accesses",
    keys: &[key("workload", "workload"), key("cache %", "cache_percent")],
    peers: PEERS,
    columns: &[
        median("hits %", "hit_percent").more(),
        range("least, most", "hit_percent"),
        median("hits % in equal RAM", "ram.hit_percent").more(),
        ratio("misses x clock/1", "miss_percent", FIRST).less(),
        ratio("in equal RAM", "ram.miss_percent", FIRST).less(),
        median("looks/eviction", "looks_each").less(),
        median("worst", "looks_max").digits(0).less(),
        median("worst / slots", "looks_max_share").less(),
    ],
    note: "In equal RAM those that need links or ghosts have fewer slots. looks: slots that an eviction looked at.",
};

const MEANS: Table = Table {
    title: "Means over workloads and caches: {keys} keys, {accesses} accesses",
    keys: &[key("over", "over")],
    peers: PEERS,
    columns: &[
        median("hits %", "mean.hit_percent").more(),
        median("in equal RAM", "mean.ram.hit_percent").more(),
        median("misses x clock/1", "mean.misses").less(),
        median("misses in equal RAM", "mean.ram.misses").less(),
    ],
    note: "Misses: geometric means of the ratios.",
};

const EXAMPLES: &str = "\
Examples:
  aquifer-research hit-ratio --out results.jsonl
      1,000,000 keys, 6,000,000 accesses of which a third is not counted, medians of 5 traces
  aquifer-research hit-ratio --keys 20000 --accesses 100000 --runs 1";

/// Options of `hit-ratio`.
#[derive(Clone, Debug, Args)]
pub struct HitRatioOptions {
    /// Distinct keys that may come again
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1000..))]
    keys: u32,
    /// Accesses of a trace, of which the first third is not counted
    #[arg(long, default_value_t = 6_000_000, value_parser = clap::value_parser!(u32).range(3..))]
    accesses: u32,
}

#[derive(Clone, Copy, Serialize)]
struct Point {
    keys: u32,
    accesses: u32,
    workload: Workload,
    cache_percent: f64,
}

/// The study. Every run has another trace, which all policies see.
pub struct HitRatio;

impl Study for HitRatio {
    const NAME: &str = "hit-ratio";
    const ABOUT: &str = "Hit ratios of the eviction policies, in equal slots and in equal RAM";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] = &[];
    const UNUSED: &[&str] = &["data", "seconds", "warmup", "ram", "payload", "dir"];
    const TABLES: &[&Table] = &[&TABLE, &MEANS];
    type Options = HitRatioOptions;
    type Task = ();

    fn run(session: &mut Session, options: &HitRatioOptions, _: u64) -> Result<()> {
        let &HitRatioOptions { keys, accesses } = options;
        let of =
            |workload| CACHE_PERCENT.map(|cache_percent| Point { keys, accesses, workload, cache_percent });
        let points = Workload::ALL.into_iter().flat_map(of);
        let (mut last, mut means) = (None, Means::default());
        session.turns(&Candidate::ALL, points, |_, cell, run| {
            let point = cell.point;
            // All policies at a point come one after the other.
            let this = (point.workload, point.cache_percent, run);
            if last.as_ref().is_none_or(|(other, _)| *other != this) {
                last = Some((this, point.trace(run.into())));
            }
            let (_, trace) = last.as_ref().expect("just made");
            let figures = measured(cell.peer, point, trace);
            means.add(cell.peer, point, run, &figures);
            Ok(figures)
        })?;
        means.keep(session, keys, accesses)
    }

    fn work(_: (), _: &mut Parent) -> Result<Fields> {
        Err(Error::Input("hit-ratio has no children".to_owned()))
    }
}

impl Point {
    fn slots(self) -> usize {
        (f64::from(self.keys) * self.cache_percent / 100.0) as usize
    }

    fn trace(self, seed: u64) -> Vec<u32> {
        self.workload.trace(self.keys as usize, self.slots(), self.accesses as usize, seed)
    }
}

/// A policy in as many slots as are wanted, and in as many as their RAM has room for.
fn measured(candidate: Candidate, point: Point, trace: &[u32]) -> Fields {
    let slots = point.slots();
    let (hit_percent, effort) = simulated(trace, candidate, slots);
    let ram_slots = candidate.slots_in_equal_ram(slots);
    let in_ram_percent =
        if ram_slots == slots { hit_percent } else { simulated(trace, candidate, ram_slots).0 };
    Fields::default()
        .with("hit_percent", hit_percent)
        .with("miss_percent", 100.0 - hit_percent)
        .with("looks_each", effort.looks as f64 / effort.evictions.max(1) as f64)
        .with("looks_max", effort.looks_max)
        .with("looks_max_share", effort.looks_max as f64 / slots as f64)
        .with("ram.slots", ram_slots)
        .with("ram.object_bytes", candidate.bytes_per_object(ram_slots))
        .with("ram.hit_percent", in_ram_percent)
        .with("ram.miss_percent", 100.0 - in_ram_percent)
}

/// Percent of hits after the warm-up, and what the evictions of the whole trace took.
fn simulated(trace: &[u32], candidate: Candidate, slots: usize) -> (f64, Effort) {
    let policy = candidate.policy(slots);
    let key_max = trace.iter().copied().max().unwrap_or(0);
    let mut cache = Cache::new(policy.as_ref(), slots, key_max);
    let (warm_up, counted) = trace.split_at(trace.len() / WARM_UP_PART);
    for &key in warm_up {
        cache.access(key);
    }
    let hits = counted.iter().filter(|&&key| cache.access(key)).count();
    (100.0 * hits as f64 / counted.len().max(1) as f64, cache.effort())
}

/// Hits of each run at each point, to be averaged.
#[derive(Default)]
struct Means {
    /// By run, then workload and cache, then place of the policy: percent in equal slots and in equal RAM.
    hits: BTreeMap<u32, BTreeMap<String, [[f64; 2]; Candidate::ALL.len()]>>,
}

impl Means {
    fn add(&mut self, candidate: Candidate, point: Point, run: u32, figures: &Fields) {
        let place = Candidate::ALL.iter().position(|other| *other == candidate).expect("one of all");
        let row = format!("{} {}", point.workload.name(), point.cache_percent);
        let cells = self.hits.entry(run).or_default().entry(row).or_default();
        cells[place] =
            ["hit_percent", "ram.hit_percent"].map(|name| figures.number(name).expect("just measured"));
    }

    fn keep(&self, session: &mut Session, keys: u32, accesses: u32) -> Result<()> {
        for (&run, rows) in &self.hits {
            for (over, takes_loops) in [("all", true), ("all but loops", false)] {
                let rows = rows.iter().filter(|(name, _)| takes_loops || !name.starts_with("loop"));
                let rows: Vec<_> = rows.map(|(_, cells)| *cells).collect();
                let point =
                    Fields::default().with("keys", keys).with("accesses", accesses).with("over", over);
                for (place, candidate) in Candidate::ALL.iter().enumerate() {
                    let figures = Fields::default()
                        .with("mean.hit_percent", mean(&rows, |row| row[place][0]))
                        .with("mean.misses", relative_misses(&rows, place, 0))
                        .with("mean.ram.hit_percent", mean(&rows, |row| row[place][1]))
                        .with("mean.ram.misses", relative_misses(&rows, place, 1));
                    session.keep(&candidate.to_string(), &point, run, Ok(figures))?;
                }
            }
        }
        Ok(())
    }
}

fn mean<R>(rows: &[R], value: impl Fn(&R) -> f64) -> f64 {
    rows.iter().map(value).sum::<f64>() / rows.len() as f64
}

/// Misses as a part of those of the first policy, geometric mean over the rows.
fn relative_misses<const N: usize>(rows: &[[[f64; 2]; N]], place: usize, kind: usize) -> f64 {
    mean(rows, |row| ((100.0 - row[place][kind]) / (100.0 - row[0][kind])).ln()).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_compared_with_the_first_policy() {
        let rows = [[[60.0, 0.0], [80.0, 0.0]], [[0.0, 0.0], [50.0, 0.0]]];
        assert!((relative_misses(&rows, 0, 0) - 1.0).abs() < 1e-9);
        assert!((relative_misses(&rows, 1, 0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn policies_have_the_names_that_tables_order() {
        let names: Vec<_> = Candidate::ALL.iter().map(Candidate::to_string).collect();
        assert_eq!(names, PEERS);
    }
}
