//! Lines of results.

use serde::{Deserialize, Serialize};

use super::super::meter::Cost;
use super::super::study::Run;

/// One run of one peer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Updates {
    /// Updates between two syncs.
    pub every: u64,
    /// Bytes of each.
    pub update_bytes: u64,
    /// Updates in the measured time, which ends with a sync.
    pub updates: u64,
    /// Syncs in it.
    pub syncs: u64,
    /// Seconds of it that were waited for them.
    pub sync_s: f64,
    /// Seconds before the measured time.
    pub warmup_s: f64,
    /// What it took.
    pub cost: Cost,
    /// Who, and with what.
    #[serde(flatten)]
    pub run: Run,
}

impl Updates {
    /// In a second.
    pub fn per_s(&self) -> f64 {
        self.updates as f64 / self.cost.seconds
    }

    /// Bytes that this process had written, for each update.
    pub fn written_each(&self) -> f64 {
        Cost::each(self.cost.io.written_bytes, self.updates)
    }

    /// Bytes that the disk wrote in the same time, for each update.
    pub fn disk_written_each(&self) -> f64 {
        Cost::each(self.cost.device.written_bytes, self.updates)
    }

    /// One line for the person who waits.
    pub fn summary(&self) -> String {
        format!(
            "{:15} sync every {} run {}: {:>9.0}/s, {:.0} bytes written each, {:.0} by the disk",
            self.run.setup.peer.to_string(),
            self.every,
            self.run.run,
            self.per_s(),
            self.written_each(),
            self.disk_written_each(),
        )
    }
}
