//! What is given on the command line.

use std::path::PathBuf;
use std::time::Duration;

use aquifer_base::units::parse_size;
use clap::Args;

use super::sample::Updates;
use crate::durable::heaps::Medium;
use crate::durable::options::{each_once, percentages};
use crate::durable::store::Setup;
use crate::error::{Error, Result};
use crate::scale::parse_count;

const EXAMPLES: &str = "\
Examples:
  durable cleaning --out results.jsonl
      Both updates, on slow memory and as it is, with room and at 50, 70, 80 and 90 %; medians of 5
  durable cleaning --workload objects --medium raw --utilisation 90 --runs 11
      The loss at 90 %
  aquifer-bench table results.jsonl

The heap with room has a file that holds all that is ever written to it, and whose memory was touched before; the others are updated
until three times their file has been written, and then measured.";

/// Bytes of the durable heap for each object or entry.
pub const ENTRY_BYTES: u64 = 112;
/// Room for each transaction, where nothing is cleaned.
const CAPACITY_BYTES_EACH: u64 = 256;
/// Room for the chunks that are never filled with objects.
const CAPACITY_BYTES_MIN: u64 = 64 << 20;

/// Options of `cleaning`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CleaningOptions {
    /// What is updated [default: both]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub workload: Vec<Updates>,
    /// What the file is on: memory that is slow to persist, or as it is [default: both]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub medium: Vec<Medium>,
    /// Percentages of the file that are objects, beside the heap with room
    #[arg(long, value_delimiter = ',', default_value = "50,70,80,90", value_parser = clap::value_parser!(u32).range(5..=95))]
    pub utilisation: Vec<u32>,
    /// Threads
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u64).range(1..=64))]
    pub threads: Vec<u64>,
    /// Times that everything is measured; medians count
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Bytes of all objects or entries
    #[arg(long, default_value = "256M", value_parser = parse_size)]
    pub live: u64,
    /// Measured transactions of a sample: a number with K or M
    #[arg(long, default_value = "2M", value_parser = parse_count)]
    pub count: u64,
    /// A sample ends after so many seconds if the transactions are not done
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Least time of a persist to emulated memory
    #[arg(long, default_value_t = 500)]
    pub latency_ns: u64,
    /// Bytes that emulated memory persists in a second: a number with M or G (powers of 1000)
    #[arg(long, default_value = "1G", value_parser = parse_count)]
    pub bandwidth: u64,
    /// Directory for the files: tmpfs or persistent memory
    #[arg(long, default_value = "/dev/shm")]
    pub dir: PathBuf,
    /// Append one JSON line per sample to this file
    #[arg(long)]
    pub out: Option<PathBuf>,
}

impl CleaningOptions {
    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// [`Error::Input`] with the rule.
    pub fn check(&self) -> Result<()> {
        if !((1 << 20)..=(2 << 30)).contains(&self.live) {
            return Err(Error::Input("--live is from 1M to 2G".to_owned()));
        }
        if self.count == 0 || self.count > 20_000_000 || !(0.01..86_400.0).contains(&self.seconds) {
            return Err(Error::Input("--count is from 1 to 20M, --seconds from 0.01 to a day".to_owned()));
        }
        Ok(())
    }

    /// What is updated, each once.
    pub fn updates(&self) -> Vec<Updates> {
        each_once(&self.workload)
    }

    /// What the file is on, each once.
    pub fn media(&self) -> Vec<Medium> {
        each_once(&self.medium)
    }

    /// Room for everything, and the utilisations, each once.
    pub fn utilisations(&self) -> Vec<Option<u32>> {
        [None].into_iter().chain(percentages(&self.utilisation).into_iter().map(Some)).collect()
    }

    /// How long a sample may take.
    pub fn limit(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// What every heap is given. A hash map that grows writes its entries several times.
    pub fn setup(&self, dir: PathBuf, is_memory: bool) -> Setup {
        let bytes = CAPACITY_BYTES_MIN + 4 * self.live + CAPACITY_BYTES_EACH * (self.count + self.count / 4);
        Setup {
            dir,
            is_memory,
            capacity_bytes: bytes.next_multiple_of(1 << 20),
            latency_ns: self.latency_ns,
            bandwidth_bytes_per_s: self.bandwidth,
        }
    }
}
