//! One line of results.

use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::peer::Peer;
use super::program::Program;
use super::slots::Slots;
use crate::device::Counters;
use crate::machine::Context;

/// Configuration and result of one run of one program on one peer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Far {
    /// The program.
    pub program: Program,
    /// What lies below its RAM.
    pub peer: Peer,
    /// Percent of its memory that is local.
    pub share: u64,
    /// Number of the run, from 1; of transactions and requests it decides all choices.
    pub run: u32,
    /// Bytes of its data, about.
    pub data_bytes: u64,
    /// The most memory that it had with everything local, of which the share is.
    pub peak_bytes: u64,
    /// Limit of its control group; none with everything local.
    pub limit_bytes: Option<u64>,
    /// `--ram` of `aquifer run`.
    pub given_bytes: Option<u64>,
    /// Size of the swap area, where there is one.
    pub swap_bytes: Option<u64>,
    /// `--disk-iops`: reads a second, and writes a second, of a group on the disk. With everything local there is no group to be limited.
    #[serde(default)]
    pub disk_iops: Option<u64>,
    /// Length of the warm-up that was asked for.
    pub warmup_s: f64,
    /// What the disk did, from the start of the program to its end.
    pub device: Counters,
    /// What came of it.
    #[serde(flatten)]
    pub answer: Answer,
    /// Machine and command.
    pub context: Context,
}

impl Far {
    /// One line for the person who waits.
    pub fn summary(&self) -> String {
        let mebibytes = |bytes: u64| bytes >> 20;
        let kept = |slots: Slots| {
            let (kept, clean) = (100.0 * slots.kept_share(), 100.0 * slots.clean_share());
            format!(", {kept:.1} % of RSS have a slot, {clean:.1} % are clean")
        };
        format!(
            "{:8} {:3} % local, {:10} run {}: {:>10.0} {}, {:.1} s after {:.1} s, RSS + PTE {} MiB, disk read {} MiB, written {} MiB{}",
            self.program,
            self.share,
            self.peer,
            self.run,
            self.answer.ops_per_s(),
            self.program.unit(),
            self.answer.seconds,
            self.answer.setup_s,
            mebibytes(self.answer.memory.total_bytes()),
            mebibytes(self.device.read_bytes),
            mebibytes(self.device.written_bytes),
            self.answer.slots.map(kept).unwrap_or_default(),
        )
    }
}
