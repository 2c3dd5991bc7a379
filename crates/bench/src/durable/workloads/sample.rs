//! What is written for a run of a program.

use serde::{Deserialize, Serialize};

use super::engine::{Contender, Program};
use crate::durable::heaps::Medium;
use crate::durable::store::Setup;
use crate::machine::Context;

/// Transactions of one program on one system, in new files and a process of their own.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Workload {
    /// The system measured.
    #[serde(flatten)]
    pub contender: Contender,
    /// What its files are on.
    pub medium: Medium,
    /// What the transactions do.
    pub program: Program,
    /// Threads.
    pub threads: u64,
    /// Number of the run, from 1.
    pub run: u32,
    /// Decides all choices.
    pub seed: u64,
    /// Entries of the structures; the tables of orders and payments have shares of it.
    pub entries: u64,
    /// What every system was given.
    pub setup: Setup,
    /// Transactions before the measured ones.
    pub warmup_transactions: u64,
    /// Measured transactions of all threads.
    pub transactions: u64,
    /// Processor time of the process, for each transaction.
    pub cpu_ns: f64,
    /// Time from the first begin to the last end, for each transaction of all threads.
    pub wall_ns: f64,
    /// Waits for durability, for each transaction.
    pub fences: f64,
    /// Bytes persisted, for each transaction.
    pub bytes: f64,
    /// Lines of 64 bytes that these were in, for each transaction.
    pub lines: f64,
    /// Of a durable heap, chunks that were cleaned in the measured time.
    pub cleaned_chunks: Option<u64>,
    /// Of a durable heap at the end, the share of its file's memory that is objects.
    pub live_share: Option<f64>,
    /// Machine and command.
    pub context: Context,
}

impl Workload {
    /// One line for the person who waits.
    pub fn summary(&self) -> String {
        format!(
            "{:>13} {:8} {:8} {} threads run {}: {:>8.0}/s, {:>7.1} ns CPU, {:.2} fences, {:.0} bytes",
            self.contender.to_string(),
            self.medium.to_string(),
            self.program.to_string(),
            self.threads,
            self.run,
            1e9 / self.wall_ns,
            self.cpu_ns,
            self.fences,
            self.bytes,
        )
    }
}
