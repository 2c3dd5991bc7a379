//! What is given on the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::engine::{Contender, Engine, Program};
use crate::durable::heaps::Medium;
use crate::durable::options::{each_once, percentages};
use crate::durable::store::Setup;
use crate::error::{Error, Result};
use crate::scale::parse_count;

const EXAMPLES: &str = "\
Examples:
  durable workloads --out results.jsonl
      Four programs on the log-structured heap, with a redo log and with an undo log; medians of 5
  durable workloads --workload hash-map --threads 1 --runs 11 --medium emulated
      One program for a few minutes
  durable workloads --system aquifer --utilisation 50,70,85,90 --workload tpcc
      What a smaller file costs
  durable workloads --medium emulated --latency-ns 300 --bandwidth 2G
      Faster persistent memory
  aquifer-bench table results.jsonl

Every thread has keys of its own in the same structures, a queue of its own, or a warehouse of its own. The processor
time is that of the whole process: the durable heap's cleaner is included.

tpcc is TPC-C-like, not TPC-C: new orders of 5 to 15 lines and payments, half and half, on records of TPC-C's sizes. All items are in
the warehouse, nothing rolls back, orders are not delivered, customers are known by number, nobody waits at a terminal.";

/// Room in a file, beside that for entries and transactions: a heap in place takes 16.5 MiB for each size of objects.
const CAPACITY_BYTES_MIN: u64 = 1 << 30;
/// Room for each entry: that of the durable heap at its lowest utilisation.
const CAPACITY_BYTES_ENTRY: u64 = 1024;
/// Room for each transaction: an order stays.
const CAPACITY_BYTES_EACH: u64 = 1536;

/// Options of `workloads`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct WorkloadsOptions {
    /// Systems that take turns [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub system: Vec<Engine>,
    /// What the transactions do [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub workload: Vec<Program>,
    /// What the files are on: memory that is slow to persist, or as it is [default: both]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub medium: Vec<Medium>,
    /// Threads
    #[arg(long, value_delimiter = ',', default_value = "1,2", value_parser = clap::value_parser!(u64).range(1..=64))]
    pub threads: Vec<u64>,
    /// Times that everything is measured; medians count
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Entries of each structure; a fifth as many items and 3/500 as many customers of a district: a number with K or M
    #[arg(long, default_value = "500K", value_parser = parse_count)]
    pub entries: u64,
    /// Measured transactions of a sample, after a quarter as many to warm up: a number with K or M
    #[arg(long, default_value = "1M", value_parser = parse_count)]
    pub count: u64,
    /// A sample ends after so many seconds if the transactions are not done
    #[arg(long, default_value_t = 3.0)]
    pub seconds: f64,
    /// Least time of a persist to emulated memory
    #[arg(long, default_value_t = 500)]
    pub latency_ns: u64,
    /// Bytes that emulated memory persists in a second: a number with M or G (powers of 1000)
    #[arg(long, default_value = "1G", value_parser = parse_count)]
    pub bandwidth: u64,
    /// The durable heap's file grows only while at least this percentage of it is objects; else it is cleaned
    #[arg(long, value_delimiter = ',', default_value = "85", value_parser = clap::value_parser!(u32).range(5..=95))]
    pub utilisation: Vec<u32>,
    /// Directory for the files: tmpfs or persistent memory
    #[arg(long, default_value = "/dev/shm")]
    pub dir: PathBuf,
    /// Append one JSON line per sample to this file
    #[arg(long)]
    pub out: Option<PathBuf>,
}

impl WorkloadsOptions {
    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// [`Error::Input`] with the rule.
    pub fn check(&self) -> Result<()> {
        check_counts(self.entries, self.count, self.seconds)
    }

    /// The systems, each once, in the order of the tables; the durable heap with each utilisation.
    pub fn contenders(&self) -> Vec<Contender> {
        let percents = percentages(&self.utilisation);
        each_once(&self.system).into_iter().flat_map(|engine| engine.contenders(&percents)).collect()
    }

    /// The programs, each once.
    pub fn programs(&self) -> Vec<Program> {
        each_once(&self.workload)
    }

    /// What the files are on, each once.
    pub fn media(&self) -> Vec<Medium> {
        each_once(&self.medium)
    }

    /// How long a sample may take.
    pub fn limit(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// What every system is given.
    pub fn setup(&self, dir: PathBuf, is_memory: bool) -> Setup {
        Setup {
            dir,
            is_memory,
            capacity_bytes: capacity_bytes(self.entries, self.count),
            latency_ns: self.latency_ns,
            bandwidth_bytes_per_s: self.bandwidth,
        }
    }
}

/// Refuses counts and times that make no sense.
///
/// # Errors
/// [`Error::Input`] with the rule.
pub fn check_counts(entries: u64, count: u64, seconds: f64) -> Result<()> {
    if !(1000..=10_000_000).contains(&entries) {
        return Err(Error::Input("--entries is from 1000 to 10M".to_owned()));
    }
    if count == 0 || count > 5_000_000 || !(0.01..86_400.0).contains(&seconds) {
        return Err(Error::Input("--count is from 1 to 5M, --seconds from 0.01 to a day".to_owned()));
    }
    Ok(())
}

/// How large a file may become, for so many entries and measured transactions.
pub fn capacity_bytes(entries: u64, count: u64) -> u64 {
    let bytes =
        CAPACITY_BYTES_MIN + CAPACITY_BYTES_ENTRY * entries + CAPACITY_BYTES_EACH * (count + count / 4);
    bytes.next_multiple_of(1 << 20)
}
