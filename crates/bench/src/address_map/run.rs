//! How long a look and a change take, alone and beside each other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::{Args, ValueEnum};

use super::candidate::{Candidate, Kind, Memory};
use crate::process::thread_cpu_ns;
use crate::rng::Rng;

const GRAINS_PER_PARTITION: u32 = 1024;

/// Looks at and changes of address maps.
#[derive(Args, Clone, Debug)]
pub struct AddressMapOptions {
    /// Structures to measure
    #[arg(long, value_delimiter = ',', default_values = ["arrays-hinted", "arrays", "skip-lists", "trees", "skip-list", "tree"])]
    structures: Vec<Kind>,
    /// Partitions of 4 KiB that are filled
    #[arg(long, default_value_t = 4096)]
    partitions: u32,
    /// Bytes of a run
    #[arg(long, value_delimiter = ',', default_values = ["8", "32", "128"])]
    run_bytes: Vec<u32>,
    /// Looks and changes of a measurement
    #[arg(long, default_value_t = 2_000_000)]
    operations: u32,
    /// Measurements, of which the median is printed
    #[arg(long, default_value_t = 5)]
    runs: usize,
}

/// Where a measurement goes: anywhere, or to the runs of one object of 128 bytes after the other.
#[derive(Clone, Copy)]
enum Pattern {
    Uniform,
    Objects,
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// A grain that begins a run.
fn next(rng: &mut Rng, pattern: Pattern, n: u32, grains: u32, all: u32) -> u32 {
    const OBJECT_GRAINS: u32 = 32;
    match pattern {
        Pattern::Uniform => rng.below(u64::from(all / grains)) as u32 * grains,
        // Four runs of an object, then another one.
        Pattern::Objects => {
            let object = (n / 4).wrapping_mul(0x9E37_79B1) % (all / OBJECT_GRAINS);
            object * OBJECT_GRAINS + n % 4 * 8 / grains * grains
        }
    }
}

/// Processor time of an operation: what else runs on the machine does not count.
fn measure(operations: u32, mut operation: impl FnMut(u32)) -> f64 {
    let begun = thread_cpu_ns();
    (0..operations).for_each(&mut operation);
    (thread_cpu_ns() - begun) as f64 / f64::from(operations)
}

/// A map with runs everywhere.
fn filled(kind: Kind, partitions: u32, grains: u32) -> Candidate {
    let (map, mut memory) = (Candidate::new(kind, partitions), Memory::default());
    let mut address = 2;
    for start in (0..partitions * GRAINS_PER_PARTITION).step_by(grains as usize) {
        // No two neighbours could be one run.
        address = (address + grains * 7) % (1 << 30) + 2;
        map.point(start, grains, address, &mut memory);
    }
    map
}

/// Processor time of a look while another thread changes all the time, its time by the clock, in which it may wait for a lock, and
/// processor time of such a change.
fn beside(options: &AddressMapOptions, map: &Candidate, grains: u32) -> [f64; 3] {
    let (all, is_done) = (options.partitions * GRAINS_PER_PARTITION, AtomicBool::new(false));
    std::thread::scope(|scope| {
        let changes = scope.spawn(|| {
            let (mut rng, mut memory, mut changed) = (Rng::new(2), Memory::default(), 0);
            let begun = thread_cpu_ns();
            while changed == 0 || !is_done.load(Ordering::Relaxed) {
                let grain = next(&mut rng, Pattern::Uniform, changed, grains, all);
                map.point(grain, grains, changed.wrapping_mul(7) % (1 << 30) + 2, &mut memory);
                changed = changed.wrapping_add(1);
            }
            (thread_cpu_ns() - begun) as f64 / f64::from(changed)
        });
        let (mut rng, mut memory, mut sum) = (Rng::new(3), Memory::default(), 0u64);
        let begun = Instant::now();
        let look = measure(options.operations, |n| {
            let grain = next(&mut rng, Pattern::Uniform, n, grains, all);
            sum += u64::from(map.find(grain, &mut memory));
        });
        let wall = begun.elapsed().as_nanos() as f64 / f64::from(options.operations);
        is_done.store(true, Ordering::Relaxed);
        std::hint::black_box(sum);
        [look, wall, changes.join().expect("it does not panic")]
    })
}

/// One line of the table.
fn line(options: &AddressMapOptions, kind: Kind, run_bytes: u32) -> [f64; 6] {
    let (grains, all) = (run_bytes / 4, options.partitions * GRAINS_PER_PARTITION);
    let (map, mut memory) = (filled(kind, options.partitions, grains), Memory::default());
    let mut samples = [const { Vec::new() }; 6];
    let mut rng = Rng::new(1);
    let mut sum = 0u64;
    for _ in 0..options.runs {
        for (n, pattern) in [Pattern::Uniform, Pattern::Objects].into_iter().enumerate() {
            samples[n].push(measure(options.operations, |n| {
                let grain = next(&mut rng, pattern, n, grains, all);
                sum += u64::from(map.find(grain, &mut memory));
            }));
        }
        samples[2].push(measure(options.operations, |n| {
            let grain = next(&mut rng, Pattern::Uniform, n, grains, all);
            map.find(grain, &mut memory);
            map.point(grain, grains, n * 7 % (1 << 30) + 2, &mut memory);
        }));
        let beside = beside(options, &map, grains);
        samples[3..].iter_mut().zip(beside).for_each(|(samples, ns)| samples.push(ns));
    }
    std::hint::black_box(sum);
    samples.map(median)
}

/// Prints the table.
pub fn run(options: &AddressMapOptions) {
    println!(
        "| run bytes | structure | look, uniform ns | look, by objects ns | look and change ns | look beside a writer ns | by the clock ns | its change ns |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for &run_bytes in &options.run_bytes {
        for &kind in &options.structures {
            let cells = line(options, kind, run_bytes).map(|ns| format!("{ns:.0}"));
            let name = kind.to_possible_value().expect("none is hidden");
            println!("| {run_bytes} | {} | {} |", name.get_name(), cells.join(" | "));
        }
    }
    println!("\n`{}`", std::env::args().collect::<Vec<_>>().join(" "));
}
