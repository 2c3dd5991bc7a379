//! One table against three: the volume beside a conventional stack with the same cache, the same way of faults into the process and the same
//! emulated flash.
//!
//! Each stack is filled once. Each cell begins with a snapshot of its flash, so no cell sees what another wrote, and the stacks take turns.
//!
//! | file | noun |
//! |---|---|
//! | `pattern` | accesses, and the speed of the flash |
//! | `stack` | the stacks, and their flash with the data on it |
//! | `mounted` | a stack in use |
//! | `measure` | one cell |

mod measure;
mod mounted;
mod pattern;
mod stack;

use std::time::Duration;

use aquifer_base::units::format_size;
use aquifer_bench::child::Parent;
use aquifer_bench::error::{Error, Result};
use aquifer_bench::study::{Fields, Session, Study, Table, key, median, ratio};
use aquifer_volume::PAGE_BYTES;
use clap::Args;
use serde::Serialize;

use measure::Cell;
use mounted::Mounted;
use pattern::{Load, Speed};
use stack::{Contestant, Filled};

const EXAMPLES: &str = "\
Examples:
  aquifer-research layered --out results.jsonl
      1 GiB on emulated flash in memory, of which each stack has a copy: 5 GiB; hours
  aquifer-research layered --data 256M --ratios 64,256 --loads zipf:100 --speeds fast,none --threads 1 \\
      --stacks volume,ftl,ftl-scattered --seconds 1 --runs 1";

/// Least RAM of a stack.
const RAM_BYTES_MIN: u64 = 1 << 20;
const DATA_BYTES: std::ops::RangeInclusive<u64> = 64 << 20..=1 << 40;
const VOLUME: &[&str] = &["volume"];
const PEERS: &[&str] =
    &["volume", "ftl", "ftl4", "ftl-scattered", "ftl4-scattered", "combined", "combined-scattered"];

const TABLE: Table = Table {
    title: "One table against three: {data_bytes:size}, {fill_percent} % of the flash",
    keys: &[
        key("flash", "speed"),
        key("accesses", "load"),
        key("threads", "threads"),
        key("data:RAM", "ratio"),
    ],
    peers: PEERS,
    columns: &[
        median("accesses/s", "ops_per_s").digits(0).more(),
        ratio("x volume", "ops_per_s", VOLUME).more(),
        median("mean us", "mean_ns").per(1e3).less(),
        ratio("x volume's mean", "mean_ns", VOLUME).less(),
        median("p99 us", "p99_ns").per(1e3).digits(1),
        median("CPU us", "cpu_ns_each").per(1e3).less(),
        median("hits %", "hit_percent").digits(1).more(),
        median("flash reads/access", "flash_reads_each").less(),
        median("of them nodes", "node_reads_each").less(),
        median("syncs", "syncs").digits(0),
        median("sync ms", "sync_ns").per(1e6).less(),
    ],
    note: "flash: time of a read; with none, times are software alone. CPU: of an access, waits for fast flash among it. hits: accesses for which no page of \
        the file was read. Page tables of the process are in no budget.",
};

const DIVISION: Table = Table {
    title: "What the RAM goes to: {data_bytes:size}, {fill_percent} % of the flash",
    keys: &[key("RAM", "ram_bytes").size()],
    peers: PEERS,
    columns: &[
        median("frames", "division.frames").digits(0).more(),
        median("bytes of each", "division.frame_bytes").digits(0),
        median("table, bytes", "division.table_bytes").digits(0).less(),
        median("extents", "division.extents").digits(0),
        median("nodes of 4 KiB", "division.nodes").digits(0),
    ],
    note: "Frames are for pages and for nodes that translate them. What they and the table leave of the RAM is less than a frame.",
};

/// Options of `layered`.
#[derive(Clone, Debug, Args)]
pub struct LayeredOptions {
    /// Percent of the flash that the file takes
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u32).range(10..=85))]
    fill: u32,
    /// Data by RAM
    #[arg(long, value_delimiter = ',', default_values = ["8", "16", "32", "64", "128", "256"])]
    ratios: Vec<u64>,
    /// Accesses, and how many percent of them read
    #[arg(long, value_delimiter = ',', default_values = ["uniform:100", "zipf:100", "zipf-near:100", "uniform:90"])]
    loads: Vec<Load>,
    /// How fast the flash is
    #[arg(long, value_delimiter = ',', default_values = ["fast", "common", "none"])]
    speeds: Vec<Speed>,
    /// Threads that access the file. A thread that waits for flash looks at the clock meanwhile, so more threads than processors measure the scheduler
    #[arg(long, value_delimiter = ',', default_values = ["1", "2"])]
    threads: Vec<u32>,
    /// Stacks to measure
    #[arg(long, value_delimiter = ',', default_values = ["volume", "ftl", "ftl4", "ftl-scattered", "combined-scattered"])]
    stacks: Vec<Contestant>,
    /// Accesses of a thread from one sync to the next, where it also stores
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    sync_every: u64,
}

/// What is measured.
#[derive(Clone, Debug, Serialize)]
struct Point {
    data_bytes: u64,
    fill_percent: u32,
    /// Data by RAM.
    ratio: u64,
    /// The whole budget of a stack.
    ram_bytes: u64,
    speed: Speed,
    load: Load,
    threads: u32,
}

impl LayeredOptions {
    /// Refuses what makes no sense.
    fn check(&self, data_bytes: u64) -> Result<()> {
        let rule = if !DATA_BYTES.contains(&data_bytes) {
            "--data is from 64M to 1T"
        } else if self.threads.iter().any(|threads| !(1..=256).contains(threads)) {
            "--threads is from 1 to 256"
        } else if self.ratios.iter().any(|&ratio| ratio == 0 || data_bytes / ratio < RAM_BYTES_MIN) {
            "--data by each of --ratios is at least 1M of RAM"
        } else {
            return Ok(());
        };
        Err(Error::Input(rule.to_owned()))
    }

    /// All combinations.
    fn points(&self, data_bytes: u64) -> Vec<Point> {
        let mut points = Vec::new();
        for &speed in &self.speeds {
            for &load in &self.loads {
                for &threads in &self.threads {
                    points.extend(self.ratios.iter().map(|&ratio| {
                        let (fill_percent, ram_bytes) = (self.fill, data_bytes / ratio);
                        Point { data_bytes, fill_percent, ratio, ram_bytes, speed, load, threads }
                    }));
                }
            }
        }
        points
    }
}

/// The study.
pub struct Layered;

impl Study for Layered {
    const NAME: &str = "layered";
    const ABOUT: &str = "One table against three: the volume beside a file system over a flash translation layer, on the same emulated flash";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] = &[("seconds", "2"), ("warmup", "0.5"), ("runs", "3")];
    const UNUSED: &[&str] = &["ram", "payload", "dir"];
    const TABLES: &[&Table] = &[&TABLE, &DIVISION];
    type Options = LayeredOptions;
    type Task = ();

    fn run(session: &mut Session, options: &LayeredOptions, data_bytes: u64) -> Result<()> {
        options.check(data_bytes)?;
        let pages = (data_bytes / PAGE_BYTES as u64) as u32;
        let mut filled: Vec<Filled> = Vec::new();
        for &stack in &options.stacks {
            if !filled.iter().any(|filled| filled.serves(stack)) {
                session.progress.doing(format!("{stack}: writing {}", format_size(data_bytes)));
                filled.push(Filled::new(stack, pages, options.fill)?);
            }
        }
        let [warmup, length] = [session.common.warmup, session.common.seconds].map(Duration::from_secs_f64);
        session.turns(&options.stacks, options.points(data_bytes), |_, cell, run| {
            let (stack, point) = (cell.peer, &cell.point);
            let filled = filled.iter().find(|filled| filled.serves(stack)).expect("all were filled");
            let mounted = Mounted::new(filled, stack, point.ram_bytes)?;
            let division = mounted.division()?;
            let cell = Cell { sync_every: options.sync_every, warmup, length, point, stack, mounted };
            Ok(cell.measure(run)?.with("division", division))
        })
    }

    fn work(_: (), _: &mut Parent) -> Result<Fields> {
        Err(Error::Input("layered has no children".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: LayeredOptions,
    }

    fn options(line: &str) -> LayeredOptions {
        Line::parse_from(std::iter::once("layered").chain(line.split_whitespace())).options
    }

    #[test]
    fn the_defaults_are_the_whole_study() {
        let options = options("");
        options.check(1 << 30).expect("sensible");
        assert_eq!(options.points(1 << 30).len(), 6 * 4 * 3 * 2);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (line, data_bytes) in [("", 1 << 20), ("--ratios 2048", 1 << 30), ("--threads 0", 1 << 30)] {
            assert!(options(line).check(data_bytes).is_err(), "{line}");
        }
    }
}
