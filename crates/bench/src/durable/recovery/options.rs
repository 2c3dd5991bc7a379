//! What is given on the command line.

use std::path::PathBuf;

use aquifer_base::units::parse_size;
use clap::Args;

use super::sample::{Checkpoint, Filling};
use crate::error::{Error, Result};
use crate::study::each_once;

const EXAMPLES: &str = "\
Examples:
  durable recovery --out results.jsonl
      Logs of 1 GiB with objects of 8, 64, 100 and 1024 bytes, in order and fragmented; medians of 5
  durable recovery --log 4G --object 64 --filling fragmented --runs 1
      One larger log
  durable recovery --utilisation 85
      Logs that are cleaned while they are filled
  durable recovery --checkpoint no,yes
      The same with a checkpoint that was written when the heap was closed
  aquifer-bench table results.jsonl

The file stays in memory while it is closed.";

/// Options of `recovery`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RecoveryOptions {
    /// Bytes of the log when it is closed
    #[arg(long, default_value = "1G", value_parser = parse_size)]
    pub log: u64,
    /// Bytes of an object
    #[arg(long, value_delimiter = ',', default_value = "8,64,100,1024", value_parser = parse_size)]
    pub object: Vec<u64>,
    /// How the log is filled [default: both]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub filling: Vec<Filling>,
    /// The file grows only while at least this percentage of it is objects, else it is cleaned; the default leaves all fragments
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(5..=95))]
    pub utilisation: u32,
    /// Whether there is a checkpoint
    #[arg(long, value_delimiter = ',', default_value = "no")]
    pub checkpoint: Vec<Checkpoint>,
    /// Times that everything is measured; medians count
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Directory for the file: tmpfs or persistent memory
    #[arg(long, default_value = "/dev/shm")]
    pub dir: PathBuf,
    /// Append one JSON line per sample to this file
    #[arg(long)]
    pub out: Option<PathBuf>,
}

impl RecoveryOptions {
    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// [`Error::Input`] with the rule.
    pub fn check(&self) -> Result<()> {
        if !((4 << 20)..=(12 << 30)).contains(&self.log) {
            return Err(Error::Input("--log is from 4M to 12G".to_owned()));
        }
        if !self.object.iter().all(|bytes| (8..=65_536).contains(bytes) && bytes.is_multiple_of(4)) {
            return Err(Error::Input("--object is a multiple of 4 from 8 to 64K".to_owned()));
        }
        Ok(())
    }

    /// With and without a checkpoint, each once.
    pub fn checkpoints(&self) -> Vec<Checkpoint> {
        each_once(&self.checkpoint)
    }

    /// How the logs are filled, each once.
    pub fn fillings(&self) -> Vec<Filling> {
        each_once(&self.filling)
    }

    /// How large the file may become.
    pub fn capacity_bytes(&self) -> u64 {
        self.log + self.log / 8 + (64 << 20)
    }
}
