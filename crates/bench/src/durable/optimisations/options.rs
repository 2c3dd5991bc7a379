//! What is given on the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::switch::Off;
use crate::durable::heaps::Medium;
use crate::durable::workloads::engine::Program;
use crate::durable::workloads::options::check_counts;
use crate::error::Result;
use crate::scale::parse_count;
use crate::study::each_once;

const EXAMPLES: &str = "\
Examples:
  durable optimisations --out results.jsonl
      Four programs with all optimisations and without each, on slow memory and as it is; medians of 5
  durable optimisations --off hot-nodes --medium raw --runs 11
      The hot-node cache
  aquifer-bench table results.jsonl

Samples take turns: one with everything, one without each, and again. At a utilisation of 50 % little is cleaned.";

/// Options of `optimisations`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct OptimisationsOptions {
    /// What is switched off, beside nothing [default: each]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub off: Vec<Off>,
    /// What the transactions do [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub workload: Vec<Program>,
    /// What the file is on: memory that is slow to persist, or as it is [default: both]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub medium: Vec<Medium>,
    /// Threads
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u64).range(1..=64))]
    pub threads: Vec<u64>,
    /// Times that everything is measured; medians count
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Entries of each structure; a fifth as many items and 3/500 as many customers of a district: a number with K or M
    #[arg(long, default_value = "200K", value_parser = parse_count)]
    pub entries: u64,
    /// Measured transactions of a sample, after a quarter as many to warm up: a number with K or M
    #[arg(long, default_value = "300K", value_parser = parse_count)]
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
    /// The file grows only while at least this percentage of it is objects; else it is cleaned
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(5..=95))]
    pub utilisation: u32,
    /// Directory for the files: tmpfs or persistent memory
    #[arg(long, default_value = "/dev/shm")]
    pub dir: PathBuf,
    /// Append one JSON line per sample to this file
    #[arg(long)]
    pub out: Option<PathBuf>,
}

impl OptimisationsOptions {
    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// [`Error::Input`](crate::Error::Input) with the rule.
    pub fn check(&self) -> Result<()> {
        check_counts(self.entries, self.count, self.seconds)
    }

    /// Nothing, and what is chosen, each once.
    pub fn switches(&self) -> Vec<Off> {
        let chosen = each_once(&self.off).into_iter().filter(|&off| off != Off::Nothing);
        [Off::Nothing].into_iter().chain(chosen).collect()
    }

    /// The programs, each once.
    pub fn programs(&self) -> Vec<Program> {
        each_once(&self.workload)
    }

    /// What the file is on, each once.
    pub fn media(&self) -> Vec<Medium> {
        each_once(&self.medium)
    }

    /// How long a sample may take.
    pub fn limit(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}
