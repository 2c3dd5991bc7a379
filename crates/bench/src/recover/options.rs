//! What happens to which donors of which program.

use std::fmt;
use std::path::PathBuf;

use aquifer_base::units::parse_size;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::task::TaskOptions;
use crate::error::{Error, Result};

const EXAMPLES: &str = "\
Examples:
  aquifer-bench recover --out results.jsonl
      Each failure five times, 64 MiB of data, half of it in RAM, donors over TCP on loopback
  aquifer-bench recover --failure kill,stop --copies donor --out results.jsonl
      Pages lie on both donors, and not on flash
  aquifer-bench recover --failure press --runs 3 --out results.jsonl
      The donor's machine needs all the RAM that the donor has
  aquifer-bench recover --provider memory --runs 1
      A first look, without a network
  aquifer-bench table results.jsonl

A program with ordinary memory runs under aquifer run, with two donors on this machine. In the middle of its
work one of them is killed, stopped for 3 seconds, or told to end, or another program takes so much RAM that
the donor has to give back all its slabs. Told are operations a second before and at the end, the longest time
without any, when it had 80 % of its speed again, and when the donor that was told to end had ended, or the one
whose RAM was needed had given it back.
For press some 4 GiB of RAM must be available, and less than 2 GiB are taken; nothing else should take or free
much of it meanwhile. It needs cargo build --release -p aquifer-bench -p aquifer-cli -p aquifer-preload, and no root. A wrong value,
or a program that dies, ends the benchmark.";

/// What carries the bytes of the donors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provider {
    /// libfabric over TCP on loopback
    Tcp,
    /// Memory that the program maps
    Memory,
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tcp => "tcp",
            Self::Memory => "memory",
        })
    }
}

/// Where what lies on a donor is as well.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Copies {
    /// On flash
    Flash,
    /// On the other donor
    Donor,
}

impl fmt::Display for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Flash => "flash",
            Self::Donor => "donor",
        })
    }
}

/// Options of `recover`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RecoverOptions {
    /// What happens to the first donor, one in each run
    #[arg(long, value_enum, value_delimiter = ',', default_value = "kill,stop,leave,press")]
    pub failure: Vec<Failure>,
    /// What carries the bytes of the donors
    #[arg(long, value_enum, default_value_t = Provider::Tcp)]
    pub provider: Provider,
    /// Where what lies on a donor is as well
    #[arg(long, value_enum, default_value_t = Copies::Flash)]
    pub copies: Copies,
    /// Bytes of the program's array
    #[arg(long, value_parser = parse_size, default_value = "64M")]
    pub data: u64,
    /// RAM of aquifer run [default: half of the data]
    #[arg(long, value_parser = parse_size)]
    pub ram: Option<u64>,
    /// Seconds until the speed counts: donors lend, and what is lent is filled
    #[arg(long, default_value_t = 3.0)]
    pub warmup: f64,
    /// Seconds from then on until a donor fails
    #[arg(long, default_value_t = 3.0)]
    pub before: f64,
    /// Seconds from then on until the end
    #[arg(long, default_value_t = 8.0)]
    pub after: f64,
    /// Runs of each failure
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Directory for flash files, on a disk
    #[arg(long, default_value = "/var/tmp")]
    pub dir: PathBuf,
    /// Append one JSON line per sample to this file [default: standard output]
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Of this program as the one that is measured
    #[command(flatten)]
    pub task: TaskOptions,
}

impl RecoverOptions {
    /// # Errors
    /// [`Error::Input`] with what makes no sense.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::Input(what));
        if self.data < 1 << 20 || self.data > 1 << 40 {
            return wrong("--data is from 1 MiB to 1 TiB".to_owned());
        }
        if self.ram_bytes() >= self.data {
            return wrong("--ram is less than --data: otherwise nothing is on donors".to_owned());
        }
        if !(0.0..=3600.0).contains(&self.warmup) || !(1.0..=3600.0).contains(&self.before) {
            return wrong("--warmup is at most an hour, --before from 1 second to an hour".to_owned());
        }
        let after_min = self.failure.iter().map(|failure| failure.after_min().as_secs()).max().unwrap_or(0);
        if !(after_min as f64..=3600.0).contains(&self.after) {
            return wrong(format!("--after is from {after_min} seconds to an hour"));
        }
        if !(0.0..=86_400.0).contains(&self.task.seconds) {
            return wrong("--seconds is at most a day".to_owned());
        }
        Ok(())
    }

    /// `--ram` of `aquifer run`.
    pub fn ram_bytes(&self) -> u64 {
        self.ram.unwrap_or(self.data / 2)
    }

    /// How long the program works.
    pub fn seconds(&self) -> f64 {
        self.warmup + self.before + self.after
    }
}

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: RecoverOptions,
    }

    pub fn options(line: &str) -> RecoverOptions {
        let words = std::iter::once("recover").chain(line.split_whitespace());
        Line::parse_from(words).options
    }

    #[test]
    fn the_defaults_are_sensible() {
        let options = options("");
        options.check().expect("sensible");
        assert_eq!(options.failure, [Failure::Kill, Failure::Stop, Failure::Leave, Failure::Press]);
        assert_eq!((options.provider, options.copies, options.runs), (Provider::Tcp, Copies::Flash, 5));
        assert_eq!((options.data, options.ram_bytes(), options.task.task), (64 << 20, 32 << 20, false));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in ["--data 1K", "--data 8M --ram 8M", "--before 0.5", "--after 7", "--warmup 4000"] {
            assert!(options(line).check().is_err(), "{line}");
        }
        options("--failure kill,stop --after 5").check().expect("the others are seen sooner");
        assert!(options("--failure kill,stop --after 4").check().is_err());
        for line in [
            "--failure fire",
            "--copies 4+2",
            "--provider verbs",
            "--runs 0",
            "--seconds 3",
            "--task --hold 1",
        ] {
            let words = std::iter::once("recover").chain(line.split_whitespace());
            assert!(Line::try_parse_from(words).is_err(), "{line}");
        }
    }
}
