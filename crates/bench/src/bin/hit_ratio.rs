//! Hit ratios of the eviction policies on simulated caches.
//!
//! The policies are the ones of `aquifer-cache`, driven through their trait; only the slots are simulated.
//! Prints markdown tables for `docs/policies.md`.

#[path = "../hit_ratio/cache.rs"]
mod cache;
#[path = "../hit_ratio/candidate.rs"]
mod candidate;
#[path = "../hit_ratio/sample.rs"]
mod sample;
#[path = "../hit_ratio/trace.rs"]
mod trace;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::Parser;

use cache::{Cache, Effort};
use candidate::Candidate;
use sample::{Comparison, Sample, effort_table, spread_max, table};
use trace::Workload;

/// Slots in percent of the keys; 6.25 is a data:RAM ratio of 16.
const CACHE_PERCENT: [f64; 3] = [1.0, 6.25, 25.0];

/// Compares hit ratios of the eviction policies.
#[derive(Parser)]
struct Arguments {
    /// Distinct keys that may come again.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1000..))]
    keys: u32,
    /// Accesses per trace.
    #[arg(long, default_value_t = 6_000_000)]
    accesses: usize,
    /// Accesses of each trace that are not counted.
    #[arg(long, default_value_t = 2_000_000)]
    warm_up: usize,
    /// Traces per workload and cache size.
    #[arg(long, default_value_t = 5)]
    seeds: u64,
    /// Also writes one JSON line per sample to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

fn main() -> io::Result<()> {
    let arguments = Arguments::parse();
    let mut json = arguments.json.as_ref().map(File::create).transpose()?.map(BufWriter::new);
    let mut samples = Vec::new();
    for workload in Workload::ALL {
        for percent in CACHE_PERCENT {
            for seed in 1..=arguments.seeds {
                let new = measure(&arguments, workload, percent, seed);
                if let Some(file) = &mut json {
                    write_lines(file, &new)?;
                }
                samples.extend(new);
            }
            eprintln!("{} at {percent} %: done", workload.name());
        }
    }
    json.map_or(Ok(()), |mut file| file.flush())?;
    println!("Equal slots, hit ratio in percent:\n\n{}", table(&samples, Comparison::EqualSlots));
    println!("Equal RAM, hit ratio in percent:\n\n{}", table(&samples, Comparison::EqualRam));
    println!("Slots looked at per eviction, all equal-slots samples:\n\n{}", effort_table(&samples));
    println!("Largest difference between seeds: {:.2} percentage points", spread_max(&samples));
    Ok(())
}

fn write_lines(file: &mut impl Write, samples: &[Sample]) -> io::Result<()> {
    samples.iter().try_for_each(|sample| writeln!(file, "{}", serde_json::to_string(sample)?))
}

/// Every policy on one trace, in equal slots and in equal RAM.
fn measure(arguments: &Arguments, workload: Workload, cache_percent: f64, seed: u64) -> Vec<Sample> {
    let keys = arguments.keys as usize;
    let slots_wanted = (keys as f64 * cache_percent / 100.0) as usize;
    let trace = workload.trace(keys, slots_wanted, arguments.accesses, seed);
    let sample = |candidate: Candidate, comparison, slots| {
        let (hits, effort) = run(&trace, arguments.warm_up, candidate, slots);
        Sample {
            bench: "hit-ratio",
            workload: workload.name(),
            policy: candidate.name(),
            comparison,
            cache_percent,
            slots,
            ram_bytes_per_object: candidate.bytes_per_object(slots),
            keys,
            accesses: trace.len(),
            warm_up_accesses: arguments.warm_up,
            seed,
            hits,
            looks_per_eviction: effort.looks as f64 / effort.evictions.max(1) as f64,
            looks_max: effort.looks_max,
            hit_ratio: hits as f64 / trace.len().saturating_sub(arguments.warm_up).max(1) as f64,
        }
    };
    let mut samples = Vec::new();
    for candidate in Candidate::ALL {
        let equal_slots = sample(candidate, Comparison::EqualSlots, slots_wanted);
        let slots = candidate.slots_in_equal_ram(slots_wanted);
        samples.push(match slots == slots_wanted {
            true => Sample { comparison: Comparison::EqualRam, ..equal_slots.clone() },
            false => sample(candidate, Comparison::EqualRam, slots),
        });
        samples.push(equal_slots);
    }
    samples
}

/// Hits after the warm-up, and what the evictions of the whole trace took.
fn run(trace: &[u32], warm_up: usize, candidate: Candidate, slots: usize) -> (usize, Effort) {
    let policy = candidate.policy(slots);
    let key_max = trace.iter().copied().max().unwrap_or(0);
    let mut cache = Cache::new(policy.as_ref(), slots, key_max);
    let (warm_up, counted) = trace.split_at(warm_up.min(trace.len()));
    warm_up.iter().for_each(|&key| {
        cache.access(key);
    });
    let hits = counted.iter().filter(|&&key| cache.access(key)).count();
    (hits, cache.effort())
}
