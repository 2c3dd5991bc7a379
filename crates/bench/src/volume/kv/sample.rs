//! Lines of results.

use serde::{Deserialize, Serialize};

use super::super::meter::Cost;
use super::super::study::Run;
use super::workload::Workload;
use crate::page_size::sample::Latency;

/// One run of one peer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Kv {
    /// The workload.
    pub workload: Workload,
    /// Threads.
    pub threads: u32,
    /// Records when the store was made.
    pub records: u64,
    /// Records that were added by then, by earlier runs too.
    pub inserted: u64,
    /// Operations in the measured time.
    pub ops: u64,
    /// How long each of them took.
    pub latency: Latency,
    /// Seconds of the sync after the measured time.
    pub sync_s: f64,
    /// Bytes that this process had written, in the measured time and in the sync.
    pub written_bytes: u64,
    /// Seconds before the measured time.
    pub warmup_s: f64,
    /// What the measured time took.
    pub cost: Cost,
    /// Who, and with what.
    #[serde(flatten)]
    pub run: Run,
}

impl Kv {
    /// Operations in a second.
    pub fn per_s(&self) -> f64 {
        self.ops as f64 / self.cost.seconds
    }

    /// One line for the person who waits.
    pub fn summary(&self) -> String {
        format!(
            "{:15} {} run {}: {:>9.0}/s, p99 {:.2} ms, {:.1} us CPU each",
            self.run.setup.peer.to_string(),
            self.workload,
            self.run.run,
            self.per_s(),
            self.latency.p99_ns as f64 / 1e6,
            Cost::each(self.cost.usage.cpu_ns(), self.ops) / 1e3,
        )
    }
}
