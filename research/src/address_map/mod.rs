//! The address map of the durable heap beside the structures that it could have been: sorted arrays in partitions, with and without the
//! hot-node cache, skip lists (Pugh 1990; the choice of Hu et al., ATC 2017) and trees under locks, one for each partition or one for all.
//!
//! Measured is how long a look and a change take, alone and beside each other.

mod candidate;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use aquifer_bench::child::Parent;
use aquifer_bench::error::{Error, Result};
use aquifer_bench::process::thread_cpu_ns;
use aquifer_bench::rng::Rng;
use aquifer_bench::study::{Fields, Session, Study, Table, key, median, ratio};
use clap::Args;
use serde::Serialize;

use candidate::{Candidate, Kind, Memory};

const GRAINS_PER_PARTITION: u32 = 1024;
const GRAIN_BYTES: u64 = 4;
const OBJECT_GRAINS: u32 = 32;
/// Places in the log are below.
const ADDRESSES: u32 = 1 << 30;
const HINTED: &[&str] = &["arrays-hinted"];

const TABLE: Table = Table {
    title: "Address maps: runs in {home_bytes:size} of home space, ns",
    keys: &[key("run bytes", "run_bytes")],
    peers: &["arrays-hinted", "arrays", "skip-lists", "trees", "skip-list", "tree"],
    columns: &[
        median("look, uniform", "look_uniform_ns").digits(0).less(),
        ratio("x arrays-hinted", "look_uniform_ns", HINTED).less(),
        median("look, by objects", "look_objects_ns").digits(0).less(),
        median("look and change", "change_ns").digits(0).less(),
        median("look beside a writer", "beside_ns").digits(0).less(),
        median("by the clock", "beside_wall_ns").digits(0).less(),
        median("its change", "beside_change_ns").digits(0).less(),
    ],
    note: "Processor time of an operation, but for what is by the clock, in which waits for locks count. by objects: four runs of an object of 128 bytes, then \
        another one.",
};

const EXAMPLES: &str = "\
Examples:
  aquifer-research address-map --out results.jsonl
      All structures, runs of 8, 32 and 128 bytes in 16 MiB of home space, medians of 5
  aquifer-research address-map --structures arrays-hinted,skip-lists --run-bytes 8 --data 256M";

/// Options of `address-map`.
#[derive(Clone, Debug, Args)]
pub struct AddressMapOptions {
    /// Structures to measure
    #[arg(long, value_delimiter = ',', default_values = ["arrays-hinted", "arrays", "skip-lists", "trees", "skip-list", "tree"])]
    structures: Vec<Kind>,
    /// Bytes of a run, a power of two
    #[arg(long, value_delimiter = ',', default_values = ["8", "32", "128"])]
    run_bytes: Vec<u32>,
    /// Looks and changes of a measurement
    #[arg(long, default_value_t = 2_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    operations: u32,
}

#[derive(Clone, Copy, Serialize)]
struct Point {
    home_bytes: u64,
    run_bytes: u32,
    operations: u32,
}

/// The study.
pub struct AddressMap;

impl Study for AddressMap {
    const NAME: &str = "address-map";
    const ABOUT: &str = "Looks at and changes of the durable heap's address map, and of the structures that it could have been";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] = &[("data", "16M")];
    const UNUSED: &[&str] = &["seconds", "warmup", "ram", "payload", "dir"];
    const TABLES: &[&Table] = &[&TABLE];
    type Options = AddressMapOptions;
    type Task = ();

    fn run(session: &mut Session, options: &AddressMapOptions, home_bytes: u64) -> Result<()> {
        let partition_bytes = u64::from(GRAINS_PER_PARTITION) * GRAIN_BYTES;
        if !home_bytes.is_multiple_of(partition_bytes) || !(1 << 16..=1 << 32).contains(&home_bytes) {
            return Err(Error::Input("--data is from 64K to 4G, in partitions of 4K".to_owned()));
        }
        if options.run_bytes.iter().any(|bytes| !bytes.is_power_of_two() || !(4..=128).contains(bytes)) {
            return Err(Error::Input("each of --run-bytes is a power of two from 4 to 128".to_owned()));
        }
        let operations = options.operations;
        let points = options.run_bytes.iter().map(|&run_bytes| Point { home_bytes, run_bytes, operations });
        session.turns(&options.structures, points, |_, cell, run| measured(cell.peer, cell.point, run))
    }

    fn work(_: (), _: &mut Parent) -> Result<Fields> {
        Err(Error::Input("address-map has no children".to_owned()))
    }
}

/// Where a measurement goes: anywhere, or to the runs of one object of 128 bytes after the other.
#[derive(Clone, Copy)]
enum Pattern {
    Uniform,
    Objects,
}

/// A structure with runs everywhere.
struct Filled {
    map: Candidate,
    /// Grains of a run.
    grains: u32,
    /// Grains of all of them.
    all: u32,
    operations: u32,
}

/// Places of runs in the log, one after the other: no two neighbours could be one run.
fn addresses(grains: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(2), move |address| Some((address + grains * 7) % ADDRESSES + 2))
}

fn any_address(number: u32) -> u32 {
    number.wrapping_mul(7) % ADDRESSES + 2
}

impl Filled {
    /// Every run is looked at once.
    ///
    /// # Errors
    /// [`Error::WrongData`] if one is not where it was pointed to.
    fn new(kind: Kind, point: Point) -> Result<Self> {
        let (grains, all) = (point.run_bytes / GRAIN_BYTES as u32, (point.home_bytes / GRAIN_BYTES) as u32);
        let (map, mut memory) = (Candidate::new(kind, all / GRAINS_PER_PARTITION), Memory::default());
        let runs = || (0..all).step_by(grains as usize).zip(addresses(grains));
        runs().for_each(|(start, address)| map.point(start, grains, address, &mut memory));
        for (start, address) in runs() {
            let found = map.find(start, &mut memory);
            if found != address {
                let what = format!("grain {start} is at {found}, wanted {address}");
                return Err(Error::WrongData { peer: kind.to_string(), what });
            }
        }
        Ok(Self { map, grains, all, operations: point.operations })
    }

    /// A grain that begins a run.
    fn next(&self, rng: &mut Rng, pattern: Pattern, number: u32) -> u32 {
        match pattern {
            Pattern::Uniform => rng.below(u64::from(self.all / self.grains)) as u32 * self.grains,
            // Four runs of an object, then another one.
            Pattern::Objects => {
                let object = (number / 4).wrapping_mul(0x9E37_79B1) % (self.all / OBJECT_GRAINS);
                object * OBJECT_GRAINS + number % 4 * 8 / self.grains * self.grains
            }
        }
    }

    /// Processor time of an operation: what else runs on the machine does not count.
    fn time(&self, mut operation: impl FnMut(u32)) -> f64 {
        let begun = thread_cpu_ns();
        (0..self.operations).for_each(&mut operation);
        (thread_cpu_ns() - begun) as f64 / f64::from(self.operations)
    }

    fn looks(&self, rng: &mut Rng, pattern: Pattern) -> f64 {
        let (mut memory, mut sum) = (Memory::default(), 0);
        let ns = self.time(|number| {
            let grain = self.next(rng, pattern, number);
            sum += u64::from(self.map.find(grain, &mut memory));
        });
        std::hint::black_box(sum);
        ns
    }

    fn looks_and_changes(&self, rng: &mut Rng) -> f64 {
        let mut memory = Memory::default();
        self.time(|number| {
            let grain = self.next(rng, Pattern::Uniform, number);
            self.map.find(grain, &mut memory);
            self.map.point(grain, self.grains, any_address(number), &mut memory);
        })
    }

    /// Processor time of a look while another thread changes all the time, its time by the clock, in which it may wait for a lock, and
    /// processor time of a change.
    fn beside(&self, rng: &mut Rng) -> [f64; 3] {
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let changes = scope.spawn(|| {
                let (mut rng, mut memory, mut changed) = (Rng::new(2), Memory::default(), 0);
                let begun = thread_cpu_ns();
                while changed == 0 || !is_done.load(Ordering::Relaxed) {
                    let grain = self.next(&mut rng, Pattern::Uniform, changed);
                    self.map.point(grain, self.grains, any_address(changed), &mut memory);
                    changed = changed.wrapping_add(1);
                }
                (thread_cpu_ns() - begun) as f64 / f64::from(changed)
            });
            let begun = Instant::now();
            let look = self.looks(rng, Pattern::Uniform);
            let wall = begun.elapsed().as_nanos() as f64 / f64::from(self.operations);
            is_done.store(true, Ordering::Relaxed);
            [look, wall, changes.join().expect("it does not panic")]
        })
    }
}

/// The figures of a structure.
fn measured(kind: Kind, point: Point, run: u32) -> Result<Fields> {
    let (filled, mut rng) = (Filled::new(kind, point)?, Rng::new(run.into()));
    let [uniform, objects] =
        [Pattern::Uniform, Pattern::Objects].map(|pattern| filled.looks(&mut rng, pattern));
    let change = filled.looks_and_changes(&mut rng);
    let [look, wall, its_change] = filled.beside(&mut rng);
    Ok(Fields::default()
        .with("look_uniform_ns", uniform)
        .with("look_objects_ns", objects)
        .with("change_ns", change)
        .with("beside_ns", look)
        .with("beside_wall_ns", wall)
        .with("beside_change_ns", its_change))
}
