//! What is given on the command line.

use std::path::PathBuf;

use aquifer_base::units::parse_size;
use clap::Args;

use super::OBJECT_BYTES;
use crate::error::{Error, Result};
use crate::scale::Scale;

const EXAMPLES: &str = "\
Examples:
  aquifer-bench references --out results.jsonl
      Handles and faults in 64 MiB of RAM; batches from 1 GiB of objects in as much; medians of 5
  aquifer-bench references --data 128M --ram 16M --seconds 0.5 --runs 1
      A first look in half a minute
  aquifer-bench table results.jsonl";

/// Part of the log that live records take.
const FILL_PERCENT: u32 = 67;
/// Least data over RAM of the batches: with less, many objects would be found in RAM.
const DATA_OVER_RAM_MIN: u64 = 4;

/// Options of `references`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReferencesOptions {
    /// Bytes of all objects of 128 bytes that batches are read from, at least four times --ram
    #[arg(long, value_parser = parse_size, default_value = "1G")]
    pub data: u64,
    /// RAM budget of the heaps; three eighths of it hold the objects of handles and faults
    #[arg(long, value_parser = parse_size, default_value = "64M")]
    pub ram: u64,
    /// Times that everything is measured; medians count
    #[arg(long, default_value_t = 5)]
    pub runs: u32,
    /// Measured seconds of each run of batches, and of each run of fio before and after
    #[arg(long, default_value_t = 3.0)]
    pub seconds: f64,
    /// Directory for the files of the heaps and of fio, on the disk to be measured
    #[arg(long, default_value = "/var/tmp")]
    pub dir: PathBuf,
    /// Append one JSON line per run to this file [default: standard output]
    #[arg(long)]
    pub out: Option<PathBuf>,
}

impl ReferencesOptions {
    /// The sizes, as the other benchmarks have them.
    pub fn scale(&self) -> Scale {
        Scale {
            data: self.data,
            ram: self.ram,
            object: OBJECT_BYTES,
            dir: self.dir.clone(),
            fill: FILL_PERCENT,
            slack: None,
            out: self.out.clone(),
        }
    }

    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// [`Error::Input`] with the rule.
    pub fn check(&self) -> Result<()> {
        if self.runs == 0 || !(0.1..86_400.0).contains(&self.seconds) {
            return Err(Error::Input("--runs is at least 1, --seconds from 0.1 to a day".to_owned()));
        }
        if self.data / DATA_OVER_RAM_MIN < self.ram {
            return Err(Error::Input(format!("--data is at least {DATA_OVER_RAM_MIN} times --ram")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_not_reach_the_device_is_refused() {
        let options = |data, ram, runs, seconds| ReferencesOptions {
            data,
            ram,
            runs,
            seconds,
            dir: PathBuf::from("/var/tmp"),
            out: None,
        };
        assert!(options(64 << 20, 16 << 20, 1, 0.1).check().is_ok());
        assert!(options(63 << 20, 16 << 20, 1, 0.1).check().is_err());
        assert!(options(64 << 20, 16 << 20, 0, 1.0).check().is_err());
        assert!(options(64 << 20, 16 << 20, 1, f64::NAN).check().is_err());
    }
}
