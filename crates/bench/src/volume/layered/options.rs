//! What is given on the command line.

use std::path::PathBuf;

use aquifer_base::units::parse_size;
use clap::Args;

use super::point::Point;
use super::{Contestant, Load, Speed};
use crate::error::{Error, Result};

const EXAMPLES: &str = "\
Examples:
  aquifer-bench volume layered --out results.jsonl
      1 GiB on emulated flash in memory, of which each stack has a copy: 5 GiB; hours
  aquifer-bench volume layered --data 256M --ratios 64,256 --loads zipf:100 --speeds fast,none --threads 1 \\
      --stacks volume,ftl,ftl-scattered --seconds 1 --runs 1
  aquifer-bench table results.jsonl";

/// Least pages of RAM of a stack.
const RAM_BYTES_MIN: u64 = 1 << 20;

/// Options of `volume layered`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LayeredOptions {
    /// Bytes of the mapped file
    #[arg(long, value_parser = parse_size, default_value = "1G")]
    pub data: u64,
    /// Percent of the flash that the file takes
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u32).range(10..=85))]
    pub fill: u32,
    /// Data by RAM
    #[arg(long, value_delimiter = ',', default_values = ["8", "16", "32", "64", "128", "256"])]
    pub ratios: Vec<u64>,
    /// Accesses, and how many percent of them read
    #[arg(long, value_delimiter = ',', default_values = ["uniform:100", "zipf:100", "zipf-near:100", "uniform:90"])]
    pub loads: Vec<Load>,
    /// How fast the flash is
    #[arg(long, value_delimiter = ',', default_values = ["fast", "common", "none"])]
    pub speeds: Vec<Speed>,
    /// Threads that access the file. Whoever waits for flash looks at the clock meanwhile, so more threads than processors measure the scheduler
    #[arg(long, value_delimiter = ',', default_values = ["1", "2"])]
    pub threads: Vec<u32>,
    /// Who is measured
    #[arg(long, value_delimiter = ',', default_values = ["volume", "ftl", "ftl4", "ftl-scattered", "combined-scattered"])]
    pub stacks: Vec<Contestant>,
    /// Accesses of a thread from one sync to the next, where it also stores
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub sync_every: u64,
    /// Measured seconds of each run, after the RAM was filled and half a second of warm-up
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// Times that everything is measured, in turns; medians count
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Append one JSON line per run to this file [default: standard output]
    #[arg(long)]
    pub out: Option<PathBuf>,
}

impl LayeredOptions {
    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// [`Error::Input`] with the rule.
    pub fn check(&self) -> Result<()> {
        if !(0.05..3600.0).contains(&self.seconds) {
            return Err(Error::Input("--seconds is from 0.05 to an hour".to_owned()));
        }
        if !(64 << 20..=1 << 40).contains(&self.data) {
            return Err(Error::Input("--data is from 64M to 1T".to_owned()));
        }
        if self.threads.iter().any(|threads| !(1..=256).contains(threads)) {
            return Err(Error::Input("--threads is from 1 to 256".to_owned()));
        }
        if self.ratios.iter().any(|&ratio| ratio == 0 || self.data / ratio < RAM_BYTES_MIN) {
            return Err(Error::Input("--data by each of --ratios is at least 1M of RAM".to_owned()));
        }
        Ok(())
    }

    /// All combinations.
    pub fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for &speed in &self.speeds {
            for &load in &self.loads {
                for &threads in &self.threads {
                    points.extend(self.ratios.iter().map(|&ratio| Point { ratio, speed, load, threads }));
                }
            }
        }
        points
    }

    /// Pages of the file.
    pub fn pages(&self) -> u32 {
        (self.data / aquifer_volume::PAGE_BYTES as u64) as u32
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: LayeredOptions,
    }

    fn parse(arguments: &[&str]) -> LayeredOptions {
        Cli::parse_from(std::iter::once(&"layered").chain(arguments)).options
    }

    #[test]
    fn the_defaults_are_the_whole_study() {
        let options = parse(&[]);
        options.check().expect("sensible");
        assert_eq!(options.points().len(), 6 * 4 * 3 * 2);
        assert_eq!(options.pages(), 1 << 18);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for arguments in [["--seconds", "0"], ["--data", "1M"], ["--ratios", "2048"], ["--threads", "0"]] {
            assert!(parse(&arguments).check().is_err(), "{arguments:?}");
        }
    }
}
