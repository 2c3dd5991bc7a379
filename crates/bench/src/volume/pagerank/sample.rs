//! Lines of results.

use serde::{Deserialize, Serialize};

use super::super::meter::Cost;
use super::super::study::Run;
use super::layout::Layout;

/// One run of one peer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Pagerank {
    /// The graph.
    #[serde(flatten)]
    pub layout: Layout,
    /// Decides the graph.
    pub seed: u64,
    /// Iterations, measured together.
    pub iterations: u32,
    /// Threads.
    pub threads: u32,
    /// Seconds of the measured time in which the vectors were synced, after the last iteration.
    pub sync_s: f64,
    /// Of all ranks; equal for all peers.
    pub digest: u64,
    /// What the iterations and the sync took.
    pub cost: Cost,
    /// Who, and with what.
    #[serde(flatten)]
    pub run: Run,
}

impl Pagerank {
    /// Edges in a second.
    pub fn edges_per_s(&self) -> f64 {
        (self.layout.edges * u64::from(self.iterations)) as f64 / self.cost.seconds
    }

    /// Seconds of an iteration.
    pub fn iteration_s(&self) -> f64 {
        self.cost.seconds / f64::from(self.iterations)
    }

    /// One line for the person who waits.
    pub fn summary(&self) -> String {
        format!(
            "{:15} run {}: {:.2} s for an iteration, {:.1} M edges/s, digest {:016x}",
            self.run.setup.peer.to_string(),
            self.run.run,
            self.iteration_s(),
            self.edges_per_s() / 1e6,
            self.digest,
        )
    }
}
