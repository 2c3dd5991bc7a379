//! What is written for a run of updates.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::durable::heaps::Medium;
use crate::durable::store::Setup;
use crate::machine::Context;

/// What a transaction updates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Updates {
    /// A random object of 100 bytes, all of it.
    Objects,
    /// The value of a random key in a hash map: 100 bytes too.
    HashMap,
}

impl fmt::Display for Updates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Objects => "objects",
            Self::HashMap => "hash-map",
        })
    }
}

/// Updates of one heap, in a new file and a process of its own.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cleaning {
    /// What is updated.
    pub updates: Updates,
    /// What the file is on.
    pub medium: Medium,
    /// The file grows only while at least this share of it is objects; none if it has room for everything.
    pub utilisation_percent: Option<u32>,
    /// Threads.
    pub threads: u64,
    /// Number of the run, from 1.
    pub run: u32,
    /// Entries or objects.
    pub entries: u64,
    /// What the heap was given.
    pub setup: Setup,
    /// Transactions before the measured ones.
    pub warmup_transactions: u64,
    /// Measured transactions of all threads.
    pub transactions: u64,
    /// Processor time of the process, the cleaner's included, for each transaction.
    pub cpu_ns: f64,
    /// Time from the first begin to the last end, for each transaction of all threads.
    pub wall_ns: f64,
    /// Bytes persisted for each byte changed.
    pub written_per_changed: f64,
    /// Chunks that were cleaned in the measured time.
    pub cleaned_chunks: u64,
    /// The share of the file's memory that is objects.
    pub live_share: f64,
    /// Machine and command.
    pub context: Context,
}

impl Cleaning {
    /// One line for the person who waits.
    pub fn summary(&self) -> String {
        let percent = self.utilisation_percent.map_or("room".to_owned(), |percent| format!("{percent} %"));
        format!(
            "{:8} {:8} {percent:>5} {} threads run {}: {:>8.0}/s, {:>7.1} ns CPU, {:.2} bytes per byte, {} chunks cleaned",
            self.updates.to_string(),
            self.medium.to_string(),
            self.threads,
            self.run,
            1e9 / self.wall_ns,
            self.cpu_ns,
            self.written_per_changed,
            self.cleaned_chunks,
        )
    }
}
