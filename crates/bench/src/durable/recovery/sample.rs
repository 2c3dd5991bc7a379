//! What is written for a heap that was opened.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::machine::Context;

/// How the log was filled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Filling {
    /// By objects one behind the other, many in a transaction.
    Sequential,
    /// The same, and a third as many transactions that write one random object anew.
    Fragmented,
}

impl fmt::Display for Filling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sequential => "sequential",
            Self::Fragmented => "fragmented",
        })
    }
}

/// Whether a checkpoint was written when the heap was closed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Checkpoint {
    /// None: all of the log is read.
    #[default]
    No,
    /// The map comes from it, and what it spares is verified later.
    Yes,
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::No => "no",
            Self::Yes => "yes",
        })
    }
}

/// One heap, filled, closed and opened again by a process of its own.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Recovery {
    /// Bytes of an object.
    pub object_bytes: u64,
    /// How the log was filled.
    pub filling: Filling,
    /// Whether there was a checkpoint.
    #[serde(default)]
    pub checkpoint: Checkpoint,
    /// Number of the run, from 1.
    pub run: u32,
    /// Objects.
    pub objects: u64,
    /// Single objects that were written anew.
    pub rewritten: u64,
    /// The file grew while at least this share of it was objects; else it was cleaned.
    pub utilisation_percent: u32,
    /// Bytes that were written to the log.
    pub written_bytes: u64,
    /// Chunks that are in use.
    pub log_bytes: u64,
    /// Bytes of objects.
    pub live_bytes: u64,
    /// RAM of the map, before the heap was closed and after it was opened.
    pub map_bytes_before: u64,
    /// After.
    pub map_bytes: u64,
    /// How long opening took.
    pub seconds: f64,
    /// Processor time of that.
    pub cpu_s: f64,
    /// Machine and command.
    pub context: Context,
}

impl Recovery {
    /// Bytes of log in a second.
    pub fn bytes_per_s(&self) -> f64 {
        self.log_bytes as f64 / self.seconds
    }

    /// RAM of the map over the data.
    pub fn map_share(&self) -> f64 {
        self.map_bytes as f64 / self.live_bytes as f64
    }

    /// One line for the person who waits.
    pub fn summary(&self) -> String {
        format!(
            "{:>5} bytes {:10} run {}: {:.3} s, {:.2} GB/s, map {:.2} % of {:.0} MiB",
            self.object_bytes,
            self.filling.to_string(),
            self.run,
            self.seconds,
            self.bytes_per_s() / 1e9,
            100.0 * self.map_share(),
            self.live_bytes as f64 / f64::from(1 << 20),
        )
    }
}
