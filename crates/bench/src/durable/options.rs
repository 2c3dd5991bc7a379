//! What is given on the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::load::Workload;
use super::store::Setup;
use super::system::{Contestant, System};
use super::task::WARMUP_PART;
use crate::error::{Error, Result};
use crate::scale::parse_count;

const EXAMPLES: &str = "\
Examples:
  durable transactions --out results.jsonl
      All systems, both workloads, 1 and 2 threads, medians of 5, in files in /dev/shm
  durable transactions --system aquifer,pmemobj --workload two-words --threads 1 --runs 11
      Two systems beside each other for a minute
  durable transactions --system aquifer,aquifer-emulated --latency-ns 300 --bandwidth 2G
      What slower persistent memory costs
  durable transactions --dir /var/tmp --system aquifer,lmdb-sync,redb-immediate --count 20K
      On a disk, where a commit waits for it
  aquifer-bench table results.jsonl

CPU time is that of the whole process from the first begin until all its threads rest after the last end, for every system alike: what
a cleaner does for the measured transactions is in it. What the kernel does in threads of its own, such as writing to a disk, is not.
Wall time ends with the last transaction; how long the system needed to rest is in each sample (rest_ns).

A system whose library is not there is skipped with the reason. libpmemobj is told to flush the
processor's caches (PMEM_IS_PMEM_FORCE=1) if the directory is in memory.";

/// Room in a system's file, beside that for the transactions.
const CAPACITY_BYTES_MIN: u64 = 512 << 20;
/// Room for each transaction: redb copies pages of 4 KiB, and frees them soon.
const CAPACITY_BYTES_EACH: u64 = 512;

/// Options of `transactions`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TransactionsOptions {
    /// Systems that take turns [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub system: Vec<System>,
    /// What a transaction does [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub workload: Vec<Workload>,
    /// Threads; each has objects and buckets of its own
    #[arg(long, value_delimiter = ',', default_value = "1,2", value_parser = clap::value_parser!(u64).range(1..=64))]
    pub threads: Vec<u64>,
    /// Times that everything is measured; medians count
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Measured transactions of a sample, after a quarter as many to warm up: a number with K or M
    #[arg(long, default_value = "500K", value_parser = parse_count)]
    pub count: u64,
    /// A sample ends after so many seconds if the transactions are not done
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// Least time of a persist to emulated memory
    #[arg(long, default_value_t = 500)]
    pub latency_ns: u64,
    /// Bytes that emulated memory persists in a second: a number with M or G (powers of 1000)
    #[arg(long, default_value = "1G", value_parser = parse_count)]
    pub bandwidth: u64,
    /// The durable heap's file grows only while at least this percentage of it is objects; else it is cleaned
    #[arg(long, value_delimiter = ',', default_value = "50,85", value_parser = clap::value_parser!(u32).range(50..=95))]
    pub utilisation: Vec<u32>,
    /// Directory for the files: tmpfs, persistent memory, or a disk
    #[arg(long, default_value = "/dev/shm")]
    pub dir: PathBuf,
    /// Append one JSON line per sample to this file
    #[arg(long)]
    pub out: Option<PathBuf>,
}

impl TransactionsOptions {
    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// [`Error::Input`] with the rule.
    pub fn check(&self) -> Result<()> {
        if self.count == 0 || self.count > 1_000_000_000 || !(0.01..86_400.0).contains(&self.seconds) {
            return Err(Error::Input("--count is from 1 to 1000M, --seconds from 0.01 to a day".to_owned()));
        }
        Ok(())
    }

    /// The systems, each once, in the order of the tables; the durable heap with each utilisation.
    pub fn contestants(&self) -> Vec<Contestant> {
        let percents = percentages(&self.utilisation);
        each_once(&self.system).into_iter().flat_map(|system| system.contestants(&percents)).collect()
    }

    /// The workloads, each once.
    pub fn workloads(&self) -> Vec<Workload> {
        each_once(&self.workload)
    }

    /// How long a sample may take.
    pub fn limit(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// What every system is given.
    pub fn setup(&self, dir: PathBuf, is_memory: bool) -> Setup {
        let transactions = self.count + self.count / u64::from(WARMUP_PART);
        Setup {
            dir,
            is_memory,
            capacity_bytes: (CAPACITY_BYTES_MIN + CAPACITY_BYTES_EACH * transactions)
                .next_multiple_of(1 << 20),
            latency_ns: self.latency_ns,
            bandwidth_bytes_per_s: self.bandwidth,
        }
    }
}

/// The chosen values in order, or all without a choice.
pub use crate::study::each_once;

/// Percentages in order, each once.
pub fn percentages(chosen: &[u32]) -> Vec<u32> {
    sorted(chosen)
}

fn sorted<T: Ord + Clone>(values: &[T]) -> Vec<T> {
    let mut sorted = values.to_vec();
    sorted.sort();
    sorted.dedup();
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_chosen_is_everything() {
        assert_eq!(each_once::<Workload>(&[]), [Workload::TwoWords, Workload::Insert]);
        let twice = [System::LmdbSync, System::Aquifer, System::LmdbSync];
        assert_eq!(each_once(&twice), [System::Aquifer, System::LmdbSync]);
    }
}
