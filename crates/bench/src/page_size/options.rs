//! What is given on the command line.

use std::path::PathBuf;

use aquifer_base::units::{format_size, parse_size};
use clap::Args;

use super::database::{Journal, PAGE_BYTES_MAX, PAGE_BYTES_MIN, Settings};
use super::load::Kind;
use super::sample::Cell;
use crate::error::{Error, Result};
use crate::study::each_once;

const EXAMPLES: &str = "\
Examples:
  aquifer-bench page-size --out results.jsonl
      Both loads, pages of 4 to 32 KiB, buffers of 4 to 64 MiB, medians of 5; about 25 minutes
  aquifer-bench page-size --load tpc-c --pages 4K,16K --buffers 8M,32M --runs 1 --seconds 2
      A first look in a minute
  aquifer-bench page-size --journal delete --buffers 16M --out results.jsonl
      A rollback journal instead of the log
  aquifer-bench table results.jsonl > results.md
  aquifer-bench plot results.jsonl --out-dir docs/plots

Needs libsqlite3.so.0 (Debian: libsqlite3-0), and root or delegated cgroups: each cell runs in a control group whose memory is
--slack above its buffer, so that the kernel's page cache cannot stand in for the buffer. Databases are made once for each load and
page size, and copied for each run. Commits are durable (synchronous=FULL).

tpc-b and tpc-c are like TPC-B and TPC-C, not them: one client, no terminals, no waiting. docs/page-size.md says what else is left out.";

/// Least data over the largest buffer: with less, the buffer would hold much of it.
const DATA_OVER_BUFFER_MIN: u64 = 4;
/// SQLite wants some pages.
const BUFFER_PAGES_MIN: u64 = 16;
/// Beside the databases: the log or journal of a cell, and growth.
const ROOM_BYTES: u64 = 1 << 30;

/// Options of `page-size`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PageSizeOptions {
    /// What the transactions do [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub load: Vec<Kind>,
    /// Sizes of the database's pages
    #[arg(long, value_delimiter = ',', value_parser = parse_size, default_value = "4K,8K,16K,32K")]
    pub pages: Vec<u64>,
    /// Sizes of SQLite's buffer
    #[arg(long, value_delimiter = ',', value_parser = parse_size, default_value = "4M,8M,16M,32M,64M")]
    pub buffers: Vec<u64>,
    /// Size of each database, at least four times the largest buffer
    #[arg(long, value_parser = parse_size, default_value = "512M")]
    pub data: u64,
    /// How transactions survive a crash
    #[arg(long, value_enum, default_value = "wal")]
    pub journal: Journal,
    /// The write-ahead log is copied into the database when it is so long; SQLite's own default is 1000 pages
    #[arg(long, value_parser = parse_size, default_value = "4M")]
    pub log: u64,
    /// Memory of a cell's control group beside the buffer: the program, the kernel's memory, the pages of one copy of the log. With more
    /// the kernel caches pages of the database, with less it throws the program out
    #[arg(long, value_parser = parse_size, default_value = "14M")]
    pub slack: u64,
    /// Without a control group: the kernel's page cache then hides most reads, and buffers hardly matter
    #[arg(long, conflicts_with = "slack")]
    pub unlimited: bool,
    /// Times that every cell is measured, each time in another order; medians count
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Measured seconds of each run
    #[arg(long, default_value_t = 3.0)]
    pub seconds: f64,
    /// Least seconds of warm-up before; it also goes on until the buffer is full, but not longer than four times this
    #[arg(long, default_value_t = 1.0)]
    pub warmup: f64,
    /// Directory for the databases, on the disk to be measured
    #[arg(long, default_value = "/var/tmp")]
    pub dir: PathBuf,
    /// Append one JSON line per sample to this file
    #[arg(long)]
    pub out: Option<PathBuf>,
}

impl PageSizeOptions {
    /// The loads, each once.
    pub fn loads(&self) -> Vec<Kind> {
        each_once(&self.load)
    }

    /// The cells of each run.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for load in self.loads() {
            for &buffer_bytes in &self.buffers {
                cells.extend(self.pages.iter().map(|&page_bytes| Cell { load, buffer_bytes, page_bytes }));
            }
        }
        cells.sort_unstable();
        cells.dedup();
        cells
    }

    /// The limit of a cell's control group.
    pub fn limit_bytes(&self, cell: Cell) -> Option<u64> {
        (!self.unlimited).then_some(cell.buffer_bytes + self.slack)
    }

    /// What SQLite is told in a cell.
    pub fn settings(&self, cell: Cell, path: PathBuf) -> Settings {
        Settings {
            path,
            page_bytes: cell.page_bytes,
            buffer_bytes: cell.buffer_bytes,
            journal: self.journal,
            log_bytes: self.log,
        }
    }

    /// Disk space for all databases and the copy.
    pub fn needed_bytes(&self) -> u64 {
        // Rows fill pages of different sizes differently.
        let databases = (self.loads().len() * self.pages.len()) as u64 + 1;
        databases.saturating_mul(self.data / 4 * 5).saturating_add(ROOM_BYTES)
    }

    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// [`Error::Input`] with the rule.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::Input(what));
        let sizes = PAGE_BYTES_MIN..=PAGE_BYTES_MAX;
        if let Some(page) = self.pages.iter().find(|page| !page.is_power_of_two() || !sizes.contains(page)) {
            return wrong(format!("--pages {page} is not a power of two from 512 bytes to 64 KiB"));
        }
        let (least, most) = (self.buffers.iter().min(), self.buffers.iter().max());
        let page_max = self.pages.iter().max().copied().unwrap_or(PAGE_BYTES_MAX);
        if least.is_none_or(|&least| least < BUFFER_PAGES_MIN * page_max) {
            let rule = format_size(BUFFER_PAGES_MIN * page_max);
            return wrong(format!("each of --buffers holds at least {BUFFER_PAGES_MIN} pages: {rule}"));
        }
        if most.is_none_or(|&most| most > self.data / DATA_OVER_BUFFER_MIN) {
            return wrong(format!(
                "--data is at least {DATA_OVER_BUFFER_MIN} times the largest of --buffers"
            ));
        }
        let sensible = |seconds: f64| (0.1..86_400.0).contains(&seconds);
        if !sensible(self.seconds) || !sensible(self.warmup) {
            return wrong("--seconds and --warmup are from 0.1 to a day".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: PageSizeOptions,
    }

    fn options(line: &str) -> PageSizeOptions {
        let words = std::iter::once("page-size").chain(line.split_whitespace());
        Line::parse_from(words).options
    }

    #[test]
    fn the_defaults_are_forty_cells() {
        let options = options("");
        options.check().expect("sensible");
        let cells = options.cells();
        assert_eq!(cells.len(), 2 * 4 * 5);
        assert_eq!(options.limit_bytes(cells[0]), Some((4 << 20) + options.slack));
        assert!(options.needed_bytes() > 9 * options.data);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in ["--pages 5000", "--pages 128K", "--buffers 256K", "--buffers 256M", "--seconds 0"] {
            assert!(options(line).check().is_err(), "{line}");
        }
        let some = options("--load tpc-b,tpc-b --pages 512,64K --buffers 1M,1M --unlimited");
        some.check().expect("sensible");
        assert_eq!(some.cells().len(), 2);
        assert_eq!(some.limit_bytes(some.cells()[0]), None);
    }
}
