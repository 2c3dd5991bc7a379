//! What every benchmark of the volume is told on the command line.

use std::path::PathBuf;

use aquifer_base::units::parse_size;
use clap::Args;

use crate::error::{Error, Result};

/// Memory, repetitions, and where files go.
#[derive(Clone, Debug, Args)]
pub struct CommonOptions {
    /// Limit of everybody's control group: the process with its page cache, page tables and buffers
    #[arg(long, value_parser = parse_size, default_value = "256M")]
    pub ram: u64,
    /// What of --ram the volume is not given: the program and its buffers. A 256th of the data comes on top for page tables
    #[arg(long, value_parser = parse_size, default_value = "28M")]
    pub reserve: u64,
    /// Percent of a volume that its file takes
    #[arg(long, default_value_t = 67, value_parser = clap::value_parser!(u32).range(5..=90))]
    pub fill: u32,
    /// Times that everything is measured, each time in another order; medians count
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Folder for the files, on the disk to be measured
    #[arg(long, default_value = "/var/tmp")]
    pub dir: PathBuf,
    /// Append one JSON line per sample to this file
    #[arg(long)]
    pub out: Option<PathBuf>,
}

/// Measured time and warm-up.
#[derive(Clone, Debug, Args)]
pub struct TimeOptions {
    /// Measured seconds of each run
    #[arg(long, default_value_t = 3.0)]
    pub seconds: f64,
    /// Seconds of warm-up before
    #[arg(long, default_value_t = 3.0)]
    pub warmup: f64,
}

impl TimeOptions {
    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// [`Error::Input`].
    pub fn check(&self) -> Result<()> {
        let sensible = |seconds: f64, least: f64| (least..86_400.0).contains(&seconds);
        if sensible(self.seconds, 0.1) && sensible(self.warmup, 0.0) {
            return Ok(());
        }
        Err(Error::Input("--seconds is from 0.1 to a day, --warmup from 0".to_owned()))
    }
}

/// Bytes that are `times` the RAM, in whole chunks of a mebibyte.
///
/// # Errors
/// [`Error::Input`] for factors that make no file.
pub fn bytes_of(ram_bytes: u64, times: f64) -> Result<u64> {
    if !(0.01..=1024.0).contains(&times) {
        return Err(Error::Input(format!("--times {times} is not from 0.01 to 1024")));
    }
    Ok(((ram_bytes as f64 * times) as u64).next_multiple_of(1 << 20))
}
