//! What to compare, at which points, how often and how long.

use std::path::PathBuf;

use aquifer_base::units::{format_size, parse_size};
use clap::Args;

use super::command::Plan;
use super::load::Point;
use super::peer::Peer;
use super::ram::Settings;
use super::value::{ITEM_HEADER_BYTES, VALUE_BYTES_MIN};
use crate::distribution::{Distribution, HOT_SPACING};
use crate::error::{Error, Result};

const DATA_PER_RAM: u64 = 8;
/// From here on memcached makes chains of chunks.
const VALUE_BYTES_MAX: u64 = 256 << 10;
/// What is called after `aquifer-bench memcached --help`.
pub const EXAMPLES: &str = "\
Examples:
  aquifer-bench memcached --out results.jsonl
      All peers, 64 MiB of RAM, 512 MiB of data, medians of 5; about an hour
  aquifer-bench memcached --ram 256M --data 2G --values 1024 --gets 95 --dist scattered-hot --out results.jsonl
  aquifer-bench memcached --ram 32M --data 128M --values 1024 --seconds 2 --warmup 1 --runs 1
      A first look in a minute or two
  aquifer-bench memcached --peer aquifer,extstore --clients 8 --pipeline 16
  aquifer-bench table results.jsonl

--ram is the RAM of the whole server, of which each peer gives its values what the rest leaves: program,
hash table, write buffers. Each server is in a control group of that size. swap and extstore need root for
it; swap also for its swap file. The servers listen on UNIX sockets in --dir. Every byte of every value is
checked; a wrong one ends the run.

swap, aquifer and pages need examples/memcached/build.sh; extstore needs the distribution's package
memcached. Peers that cannot run are skipped with the reason.";

/// Options of `memcached`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct MemcachedOptions {
    /// Servers to compare
    #[arg(long, value_enum, value_delimiter = ',', default_value = "swap,aquifer,pages,extstore")]
    pub peer: Vec<Peer>,
    /// RAM of the whole server
    #[arg(long, value_parser = parse_size, default_value = "64M")]
    pub ram: u64,
    /// Bytes of all items: values, keys, and memcached's own header of 56 bytes [default: 8 x --ram]
    #[arg(long, value_parser = parse_size)]
    pub data: Option<u64>,
    /// Bytes of a value; each size is a comparison of its own
    #[arg(long, value_delimiter = ',', value_parser = parse_size, default_value = "128,1024,8192")]
    pub values: Vec<u64>,
    /// Percentages of gets; the other requests set
    #[arg(long, value_delimiter = ',', default_value = "50,95", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub gets: Vec<u32>,
    /// Which keys are asked for
    #[arg(long, value_enum, value_delimiter = ',', default_value = "zipf,scattered-hot")]
    pub dist: Vec<Distribution>,
    /// Clients, each a thread with a connection
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub clients: u16,
    /// Requests that each client sends together before it waits for the replies
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub pipeline: u16,
    /// Keys that are set per second at first [default: as fast as the server takes them]. extstore
    /// drops what comes faster than it writes to flash
    #[arg(long, value_parser = parse_rate)]
    pub fill_rate: Option<f64>,
    /// Measured seconds of each run
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// Seconds of warm-up before the first run of a point
    #[arg(long, default_value_t = 10.0)]
    pub warmup: f64,
    /// Seconds of warm-up before each later run of the same point
    #[arg(long, default_value_t = 1.0)]
    pub rewarm: f64,
    /// Runs of each point
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Size of the swap file as a multiple of the data; below 3 the kernel rewrites clean pages
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub swap_factor: u64,
    /// Smallest block that is managed for the peer pages
    #[arg(long, value_parser = parse_size, default_value = "64K")]
    pub threshold: u64,
    /// RAM of aquifer and pages beside their budget: the library's code, connections, and kernel memory
    /// that their group is charged for, such as page tables on their way out
    #[arg(long, value_parser = parse_size, default_value = "8M")]
    pub reserve: u64,
    /// Where examples/memcached/build.sh has built [default: build/examples/memcached]
    #[arg(long)]
    pub build: Option<PathBuf>,
    /// Directory for swap file, flash files and sockets, on the disk to be measured
    #[arg(long, default_value = "/var/tmp")]
    pub dir: PathBuf,
    /// Append one JSON line per sample to this file [default: standard output]
    #[arg(long)]
    pub out: Option<PathBuf>,
}

impl MemcachedOptions {
    /// Bytes of all items.
    pub fn data_bytes(&self) -> u64 {
        self.data.unwrap_or(self.ram.saturating_mul(DATA_PER_RAM))
    }

    /// How RAM is divided.
    pub fn settings(&self) -> Settings {
        Settings { threshold_bytes: self.threshold, reserve_bytes: self.reserve }
    }

    /// What every server is told when values have `value_bytes` bytes.
    pub fn plan(&self, value_bytes: u64) -> Plan {
        let items = self.data_bytes() / (value_bytes + ITEM_HEADER_BYTES);
        Plan {
            dir: self.dir.clone(),
            ram_bytes: self.ram,
            items,
            value_bytes,
            data_bytes: items * (value_bytes + ITEM_HEADER_BYTES),
        }
    }

    /// The points to measure, in order.
    pub fn points(&self) -> Vec<Point> {
        let (clients, pipeline) = (self.clients.into(), self.pipeline.into());
        let mut points = Vec::new();
        for &distribution in &self.dist {
            let point = |&get_percent| Point { distribution, get_percent, clients, pipeline };
            points.extend(self.gets.iter().map(point));
        }
        points
    }

    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// [`Error::Input`] with the rule.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::Input(what));
        let sensible = |seconds: f64| (0.0..86_400.0).contains(&seconds);
        if !sensible(self.warmup) || !sensible(self.rewarm) || !sensible(self.seconds) || self.seconds < 0.1 {
            return wrong("--seconds is at least 0.1; no time is negative or over a day".to_owned());
        }
        let value_bytes = VALUE_BYTES_MIN..=VALUE_BYTES_MAX;
        if let Some(value) = self.values.iter().find(|value| !value_bytes.contains(value)) {
            let (least, most) = (VALUE_BYTES_MIN, format_size(VALUE_BYTES_MAX));
            return wrong(format!("--values {value} is not from {least} bytes to {most}"));
        }
        if self.values.iter().any(|value| self.plan(*value).items < HOT_SPACING) {
            return wrong(format!("--data is too little for {HOT_SPACING} items"));
        }
        if self.plan(VALUE_BYTES_MIN).items > u64::from(u32::MAX) {
            return wrong("--data is more than 4 billion items may be".to_owned());
        }
        Ok(())
    }
}

/// A positive number of keys per second.
fn parse_rate(text: &str) -> std::result::Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| (1.0..1e9).contains(rate));
    rate.ok_or_else(|| format!("'{text}' is not a number of keys per second from 1 up"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: MemcachedOptions,
    }

    fn options(line: &str) -> MemcachedOptions {
        let words = std::iter::once("memcached").chain(line.split_whitespace());
        Line::parse_from(words).options
    }

    #[test]
    fn the_defaults_are_eight_times_the_ram() {
        let options = options("");
        options.check().expect("sensible");
        assert_eq!(options.data_bytes(), 512 << 20);
        assert_eq!(options.points().len(), 4);
        let plan = options.plan(1024);
        assert_eq!(plan.items, (512 << 20) / 1099);
        assert!(plan.data_bytes <= 512 << 20 && plan.data_bytes > (512 << 20) - 1099);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in ["--values 31", "--values 512K", "--data 10K", "--seconds 0", "--warmup -1"] {
            assert!(options(&line.replace("-1", "90000")).check().is_err(), "{line}");
        }
        assert!(options("--ram 32M --data 128M --values 1K,4K --gets 0,100").check().is_ok());
    }
}
