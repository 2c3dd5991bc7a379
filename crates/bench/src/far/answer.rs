//! What a run of a program gave.

use serde::{Deserialize, Serialize};

use crate::process::Memory;

/// One line of a task's standard output; the clients of memcached give the same.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// Rounds of the work, where it has some.
    pub rounds: Option<u64>,
    /// What the program counts, in the measured time.
    pub ops: u64,
    /// Length of that.
    pub seconds: f64,
    /// Time before: data are made or loaded, and warmed up.
    pub setup_s: f64,
    /// Follows from all results, which must be the same whatever lies below.
    pub digest: Option<u64>,
    /// The most that the process had resident, and its page tables.
    pub memory: Memory,
}

impl Answer {
    /// Its speed.
    pub fn ops_per_s(&self) -> f64 {
        self.ops as f64 / self.seconds
    }
}
