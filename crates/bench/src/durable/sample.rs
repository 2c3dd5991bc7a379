//! What is written for a run of transactions.

use serde::{Deserialize, Serialize};

use super::load::Workload;
use super::store::Setup;
use super::system::Contestant;
use crate::machine::Context;

/// Transactions of one system, in a new file and a process of their own.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Transactions {
    /// The system measured.
    #[serde(flatten)]
    pub contestant: Contestant,
    /// What it promises.
    pub guarantee: String,
    /// What a transaction does.
    pub workload: Workload,
    /// Threads; each has objects or buckets of its own.
    pub threads: u64,
    /// Number of the run, from 1.
    pub run: u32,
    /// Decides the objects and keys.
    pub seed: u64,
    /// Objects, or none for inserts.
    pub objects: u64,
    /// Bytes of one.
    pub object_bytes: u64,
    /// Buckets of the maps on heaps, or none.
    pub buckets: u64,
    /// What every system was given.
    pub setup: Setup,
    /// Transactions before the measured ones.
    pub warmup_transactions: u64,
    /// Measured transactions of all threads.
    pub transactions: u64,
    /// Processor time of the process for each transaction, from the first begin until the system rests: a cleaner's is in it. What the
    /// kernel does in threads of its own is not.
    pub cpu_ns: f64,
    /// Time from the first begin to the last end, for each transaction of all threads.
    pub wall_ns: f64,
    /// Time from the last end until the system rests, for each transaction of all threads.
    #[serde(default)]
    pub rest_ns: f64,
    /// Waits for durability, for each transaction, where the system counts them.
    pub fences: Option<f64>,
    /// Bytes persisted, for each transaction, where the system counts them.
    pub persisted_bytes: Option<f64>,
    /// Machine and command.
    pub context: Context,
}

impl Transactions {
    /// Transactions of all threads in a second.
    pub fn per_s(&self) -> f64 {
        1e9 / self.wall_ns
    }

    /// One line for the person who waits.
    pub fn summary(&self) -> String {
        let fences = self.fences.map_or(String::new(), |fences| format!(", {fences:.3} fences"));
        format!(
            "{:>22} {:9} {} threads run {}: {:>8.1} ns CPU, {:>8.1} ns wall{fences}",
            self.contestant.to_string(),
            self.workload.to_string(),
            self.threads,
            self.run,
            self.cpu_ns,
            self.wall_ns,
        )
    }
}
