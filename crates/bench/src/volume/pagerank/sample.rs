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
    /// Edges that were gone along; fewer than all iterations have if the time was over before.
    pub edges_done: u64,
    /// Of all ranks, equal for all peers; none if the time was over before.
    pub digest: Option<u64>,
    /// What the iterations and the sync took.
    pub cost: Cost,
    /// Who, and with what.
    #[serde(flatten)]
    pub run: Run,
}

impl Pagerank {
    /// Edges in a second.
    pub fn edges_per_s(&self) -> f64 {
        self.edges_done as f64 / self.cost.seconds
    }

    /// Iterations that were done, with a part of one.
    pub fn iterations_done(&self) -> f64 {
        self.edges_done.max(1) as f64 / self.layout.edges as f64
    }

    /// Seconds of an iteration.
    pub fn iteration_s(&self) -> f64 {
        self.cost.seconds / self.iterations_done()
    }

    /// One line for the person who waits.
    pub fn summary(&self) -> String {
        format!(
            "{:15} run {}: {:.2} s for an iteration, {:.1} M edges/s, {}",
            self.run.setup.peer.to_string(),
            self.run.run,
            self.iteration_s(),
            self.edges_per_s() / 1e6,
            self.digest.map_or("stopped".to_owned(), |digest| format!("digest {digest:016x}")),
        )
    }
}
