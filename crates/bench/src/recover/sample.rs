//! One line of results.

use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::options::{Copies, Provider};
use super::press::Pressed;
use super::recovery::Recovery;
use crate::machine::Context;

/// Configuration and result of one run in which a donor fails.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DonorFailure {
    /// What happened to it.
    pub failure: Failure,
    /// What carried the bytes.
    pub provider: Provider,
    /// Where else they were.
    pub copies: Copies,
    /// Number of the run, from 1.
    pub run: u32,
    /// Bytes of the program's array.
    pub data_bytes: u64,
    /// `--ram` of `aquifer run`.
    pub ram_bytes: u64,
    /// Its `--flash-size`.
    pub flash_bytes: u64,
    /// Slabs that the program had of the donor when it failed.
    pub lent_slabs: u64,
    /// Seconds that filling the array took.
    pub setup_s: f64,
    /// Seconds of slices that do not count.
    pub warmup_s: f64,
    /// When it failed, since the begin of the first slice.
    pub failed_ms: f64,
    /// Operations of each slice of 50 ms, warm-up included.
    pub slice_ops: Vec<u64>,
    /// What followed.
    #[serde(flatten)]
    pub recovery: Recovery,
    /// From SIGTERM to the end of a donor that leaves.
    pub left_s: Option<f64>,
    /// What a donor did whose machine needed its RAM.
    #[serde(flatten)]
    pub pressed: Option<Pressed>,
    /// Machine and command.
    pub context: Context,
}

impl DonorFailure {
    /// Until the machine had the donor's RAM again, if it was to have it.
    pub fn ram_back_s(&self) -> Option<f64> {
        self.left_s.or(self.pressed.map(|pressed| pressed.returned_s))
    }

    /// One line for the person who waits.
    pub fn summary(&self) -> String {
        let Recovery { before_ops_per_s, pause_ms, recovered_s, end_ops_per_s, .. } = self.recovery;
        let recovered = recovered_s.map_or("not again".to_owned(), |s| format!("again after {s:.2} s"));
        let back =
            self.ram_back_s().map_or(String::new(), |s| format!(", RAM of the donor back after {s:.2} s"));
        format!(
            "{:5} run {}: {before_ops_per_s:>8.0} operations/s, none for {pause_ms:.0} ms, 80 % {recovered}, {end_ops_per_s:.0}/s at the end{back}",
            self.failure, self.run,
        )
    }
}
