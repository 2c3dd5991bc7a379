//! Lines of results.

use aquifer_probe::report::Job;
use serde::{Deserialize, Serialize};

use crate::machine::Context;

/// One load, measured by both.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProbeFio {
    /// Number of the run, from 1.
    pub run: u32,
    /// Number of the load, from 1.
    pub cell: u32,
    /// The load.
    pub job: Job,
    /// Transfers per second by the probe.
    pub probe_iops: f64,
    /// Transfers per second by fio.
    pub fio_iops: f64,
    /// Machine and command.
    pub context: Context,
}
