//! What is written for a run without an optimisation.

use serde::{Deserialize, Serialize};

use super::switch::Off;
use crate::durable::workloads::sample::Workload;

/// A program on a heap that lacks an optimisation, in a new file and a process of its own.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Optimisation {
    /// What the heap lacks.
    pub off: Off,
    /// RAM of the map's extents at the end.
    pub map_bytes: u64,
    /// All that is known of any run of a program.
    pub workload: Workload,
}

impl Optimisation {
    /// One line for the person who waits.
    pub fn summary(&self) -> String {
        format!("without {:13} {}", self.off.to_string(), self.workload.summary())
    }
}
