//! Which systems, which workloads, how large, how often.

use std::path::PathBuf;

use aquifer_base::units::{format_size, parse_size};
use clap::{Args, ValueEnum};

use super::sample::Settings;
use super::system::System;
use super::workload::Workload;
use crate::error::{Error, Result};

/// Largest object of all workloads.
const OBJECT_BYTES_MAX: u64 = 15_000;
const LIVE_BYTES_MAX: u64 = 4 << 30;
const CHUNK_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=16 << 20;
/// What is called after `rumble --help`.
pub const EXAMPLES: &str = "\
Examples:
  rumble --out results.jsonl
      All systems, all workloads, 200 MiB of live objects; about a quarter of an hour
  rumble --live 16M
      A first look in a minute or two
  rumble --systems aquifer --utilisation 85,88,90 --workloads W1,W3,W8 --breakdown
      Where the memory of the durable heap is at its peak
  rumble --systems aquifer,glibc --runs 3
      Medians of three seeds
  aquifer-bench table results.jsonl

The workloads: W1 allocates objects of 100 bytes, five times the live bytes in all, and deletes random ones so that no
more are live. W2 goes on with 130 bytes in the same way. W3 deletes 90 % before it does, W5 goes from 100-150 to 200-250
bytes after 90 %, W4 after none, W6 from 100-200 to 1,000-2,000 after 50 %, W7 from 1,000-2,000 to 1,500-2,500 after 90 %,
W8 from 50-150 to 5,000-15,000 after 90 %.

aquifer and pmemobj need room for their files in --dir, which should be in RAM. Systems that are not installed are
skipped with the reason.";

/// Options of `rumble`.
#[derive(Clone, Debug, Args)]
pub struct RumbleOptions {
    /// Systems to compare
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = System::value_variants().to_vec())]
    pub systems: Vec<System>,
    /// Workloads
    #[arg(long, value_enum, ignore_case = true, value_delimiter = ',', default_values_t = Workload::value_variants().to_vec())]
    pub workloads: Vec<Workload>,
    /// Bytes of live objects at most
    #[arg(long, value_parser = parse_size, default_value = "200M")]
    pub live: u64,
    /// Objects that are allocated or freed together; for aquifer, in a transaction
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub batch: u16,
    /// For aquifer: from which percentage of live bytes on its file grows; several are compared
    #[arg(long, value_delimiter = ',', default_value = "90", value_parser = clap::value_parser!(u32).range(50..=95))]
    pub utilisation: Vec<u32>,
    /// For aquifer: bytes of a chunk, a power of two
    #[arg(long, value_parser = parse_size, default_value = "1M")]
    pub chunk: u64,
    /// Runs of each; every run has a seed of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Seed of the first run; the next one has the next number
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// For aquifer: say where the memory is at its peak
    #[arg(long)]
    pub breakdown: bool,
    /// Directory for the files of aquifer and pmemobj
    #[arg(long, default_value = "/dev/shm")]
    pub dir: PathBuf,
    /// Append one JSON line per sample to this file
    #[arg(long)]
    pub out: Option<PathBuf>,
}

impl RumbleOptions {
    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// [`Error::Input`] with the rule.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::Input(what));
        let live_bytes_min = (2 * u64::from(self.batch) * OBJECT_BYTES_MAX).max(1 << 20);
        if !(live_bytes_min..=LIVE_BYTES_MAX).contains(&self.live) {
            let (least, most) = (format_size(live_bytes_min), format_size(LIVE_BYTES_MAX));
            return wrong(format!("--live is from {least} (two batches of the largest objects) to {most}"));
        }
        if !self.chunk.is_power_of_two() || !CHUNK_BYTES.contains(&self.chunk) {
            return wrong("--chunk is a power of two from 64K to 16M".to_owned());
        }
        Ok(())
    }

    /// How the durable heap is set, one after the other; others have one setting.
    pub fn settings(&self, system: System) -> Vec<Settings> {
        let count = if system == System::Aquifer { self.utilisation.len() } else { 1 };
        let settings =
            |&utilisation_percent| Settings { utilisation_percent, chunk_bytes: self.chunk as u32 };
        self.utilisation[..count].iter().map(settings).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: RumbleOptions,
    }

    fn options(line: &str) -> RumbleOptions {
        let words = std::iter::once("rumble").chain(line.split_whitespace());
        Line::parse_from(words).options
    }

    #[test]
    fn the_defaults_are_everything() {
        let options = options("");
        options.check().expect("sensible");
        assert_eq!((options.systems.len(), options.workloads.len(), options.live), (6, 8, 200 << 20));
    }

    #[test]
    fn only_the_durable_heap_has_several_settings() {
        let options = options("--utilisation 85,90 --workloads w3,W1 --systems glibc");
        assert_eq!(options.workloads, [Workload::W3, Workload::W1]);
        assert_eq!(options.systems, [System::Glibc]);
        assert_eq!((options.settings(System::Aquifer).len(), options.settings(System::Glibc).len()), (2, 1));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in ["--live 100K", "--live 8M --batch 1000", "--live 9G", "--chunk 3M", "--chunk 32K"] {
            assert!(options(line).check().is_err(), "{line}");
        }
        assert!(options("--live 4M --chunk 64K").check().is_ok());
    }
}
