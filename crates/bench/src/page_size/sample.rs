//! What is written for a cell.

use std::fmt;

use aquifer_base::units::format_size;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::database::{Buffer, Settings};

use super::load::Kind;
use crate::device::Counters;
use crate::io::Io;
use crate::machine::Context;

/// What is compared: a load on pages of one size with a buffer of one size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// What the transactions do.
    pub load: Kind,
    /// SQLite's own buffer.
    pub buffer_bytes: u64,
    /// Pages of the database.
    pub page_bytes: u64,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (page, buffer) = (format_size(self.page_bytes), format_size(self.buffer_bytes));
        write!(f, "{}, pages of {page}, buffer of {buffer}", self.load)
    }
}

/// Times of single transactions.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Latency {
    /// Mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Longest.
    pub max_ns: u64,
}

impl Latency {
    /// That of the transactions in `latencies`, in nanoseconds.
    pub fn of(latencies: &Histogram<u64>) -> Self {
        Self {
            mean_ns: latencies.mean(),
            p50_ns: latencies.value_at_quantile(0.5),
            p99_ns: latencies.value_at_quantile(0.99),
            max_ns: latencies.max(),
        }
    }
}

/// One run of one cell, in a process of its own, on a fresh copy of the database.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// The cell.
    #[serde(flatten)]
    pub cell: Cell,
    /// Number of the run, from 1.
    pub run: u32,
    /// Decides all choices.
    pub seed: u64,
    /// All that SQLite was told.
    pub settings: Settings,
    /// Bytes of data that were asked for.
    pub data_bytes: u64,
    /// Branches or warehouses that this gives.
    pub scale: u64,
    /// Size of the database when the cell began.
    pub file_bytes: u64,
    /// Limit of the process's cgroup; none if the kernel could cache what it liked.
    pub limit_bytes: Option<u64>,
    /// Transactions before the measured ones, whose commits did not wait.
    pub warmup_transactions: u64,
    /// How long they took.
    pub warmup_s: f64,
    /// Length of the measured time.
    pub seconds: f64,
    /// Transactions in it.
    pub transactions: u64,
    /// How long each of them took.
    pub latency: Latency,
    /// Processor time of the process, user and system, in the measured time.
    pub cpu_ns: u64,
    /// Bytes of this process in the measured time.
    pub io: Io,
    /// All that the device did in the measured time, also for others.
    pub device: Counters,
    /// Hits and misses of SQLite's buffer in the measured time, bytes in use at its end.
    pub buffer: Buffer,
    /// Version of SQLite.
    pub sqlite: String,
    /// Machine and command.
    pub context: Context,
}

impl Sample {
    /// Transactions in a second.
    pub fn per_s(&self) -> f64 {
        self.transactions as f64 / self.seconds
    }

    /// Part of so much for each transaction.
    pub fn per_transaction(&self, total: u64) -> f64 {
        total as f64 / self.transactions.max(1) as f64
    }

    /// Share of the page requests that the buffer had.
    pub fn hit_share(&self) -> f64 {
        self.buffer.hits as f64 / (self.buffer.hits + self.buffer.misses).max(1) as f64
    }

    /// Bytes that the device read for each byte of the pages that the buffer did not have: below 1 the kernel's page cache had some,
    /// above 1 the kernel read ahead, or had to read the program again.
    pub fn device_share(&self) -> f64 {
        self.io.read_bytes as f64 / (self.buffer.misses * self.cell.page_bytes).max(1) as f64
    }

    /// One line for the person who waits.
    pub fn summary(&self) -> String {
        format!(
            "{} run {}: {:>7.0}/s, p99 {:.2} ms, {:.0} us CPU, {:.1} % hits, {:.2} of the misses from the device",
            self.cell,
            self.run,
            self.per_s(),
            self.latency.p99_ns as f64 / 1e6,
            self.per_transaction(self.cpu_ns) / 1e3,
            100.0 * self.hit_share(),
            self.device_share(),
        )
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::database::Journal;
    use super::*;

    /// A run of two seconds with round numbers, for tests of tables and pictures.
    pub(crate) fn sample(page_bytes: u64, buffer_bytes: u64, transactions: u64) -> Sample {
        let settings = Settings {
            path: "/var/tmp/copy.db".into(),
            page_bytes,
            buffer_bytes,
            journal: Journal::Wal,
            log_bytes: 4 << 20,
        };
        let (asked, moved) = (40_000 << 10, 20_000 << 10); // 0.5 of 10,000 pages of 4 KiB
        Sample {
            cell: Cell { load: Kind::TpcB, buffer_bytes, page_bytes },
            run: 1,
            seed: 1,
            settings,
            data_bytes: 512 << 20,
            scale: 50,
            file_bytes: 520 << 20,
            limit_bytes: Some(buffer_bytes + (16 << 20)),
            warmup_transactions: 100,
            warmup_s: 1.0,
            seconds: 2.0,
            transactions,
            latency: Latency {
                mean_ns: 2e9 / transactions as f64,
                p50_ns: 300_000,
                p99_ns: 2_000_000,
                max_ns: 9_000_000,
            },
            cpu_ns: 300_000_000,
            io: Io {
                asked_read_bytes: asked,
                asked_written_bytes: asked,
                read_bytes: moved,
                written_bytes: asked,
            },
            device: Counters::default(),
            buffer: Buffer { used_bytes: buffer_bytes, hits: 30_000, misses: 10_000 },
            sqlite: "3.40.1".to_owned(),
            context: Context { command: "aquifer-bench page-size".to_owned(), ..Context::default() },
        }
    }

    #[test]
    fn shares_are_of_what_was_asked() {
        let mut sample = sample(4096, 8 << 20, 1000);
        assert_eq!((sample.per_s(), sample.hit_share(), sample.device_share()), (500.0, 0.75, 0.5));
        sample.transactions = 0;
        assert_eq!(sample.per_transaction(0), 0.0);
    }
}
