//! Lines of results.

use serde::{Deserialize, Serialize};

use super::super::meter::Cost;
use super::{Load, Place};
use crate::machine::Context;
use crate::page_size::Journal;
use crate::page_size::sample::Latency;

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// What the transactions do.
    pub load: Load,
    /// How they survive a crash.
    pub journal: Journal,
}

/// One run in one place.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Oltp {
    /// Load and journal.
    #[serde(flatten)]
    pub cell: Cell,
    /// What holds the database.
    pub place: Place,
    /// Number of the run, from 1; it decides all choices.
    pub run: u32,
    /// Bytes of data that were asked for.
    pub data_bytes: u64,
    /// Branches, warehouses or subscribers that this gives.
    pub scale: u64,
    /// Limit of the control group: process, page cache, RAM of the volume.
    pub limit_bytes: u64,
    /// What the volume is told to use of it.
    pub volume_ram_bytes: Option<u64>,
    /// Seconds before the measured time.
    pub warmup_s: f64,
    /// Transactions in the measured time.
    pub transactions: u64,
    /// How long each of them took.
    pub latency: Latency,
    /// What the measured time took.
    pub cost: Cost,
    /// Version of SQLite.
    pub sqlite: String,
    /// Machine and command.
    pub context: Context,
}

impl Oltp {
    /// Transactions in a second.
    pub fn per_s(&self) -> f64 {
        self.transactions as f64 / self.cost.seconds
    }

    /// One line for the person who waits.
    pub fn summary(&self) -> String {
        format!(
            "{:11} {}, journal {}, run {}: {:>7.0}/s, p99 {:.2} ms, {:.0} bytes written each",
            self.place.to_string(),
            self.cell.load,
            self.cell.journal,
            self.run,
            self.per_s(),
            self.latency.p99_ns as f64 / 1e6,
            Cost::each(self.cost.io.written_bytes, self.transactions),
        )
    }
}
