//! What came of a run.

use serde::Serialize;

use crate::contender::Contender;
use crate::counters::Counters;

/// Means over the measured time, where nothing else is said. Shares are from 0 to 1, of the memory of all machines that are up.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Outcome {
    /// The placer and the policy of eviction.
    #[serde(flatten)]
    pub contender: Contender,
    /// Holds bytes of somebody: of programs of the machine, or of borrowers. Pages that are in RAM and in slabs count once.
    pub used_share: f64,
    /// The same with such pages counted twice, as the machines count them: where a page came back from, its place stays taken.
    pub taken_share: f64,
    /// That with lent slabs counted as full, as a donor's kernel counts them.
    pub occupied_share: f64,
    /// Would be used if everything that is wanted were in somebody's RAM: no placer can do better.
    pub wanted_share: f64,
    /// Promised to containers.
    pub reserved_share: f64,
    /// Bytes in lent slabs over bytes of lent slabs.
    pub filled_share: f64,
    /// Taken share of the fullest machine over that of the mean one.
    pub imbalance: f64,
    /// The same at the worst moment.
    pub imbalance_max: f64,
    /// Standard deviation of the taken share over its mean.
    pub deviation: f64,
    /// Mean taken share of each machine, the highest first; of more than 100 machines, an even sample of
    /// these.
    pub by_rank: Vec<f64>,
    /// What was counted.
    #[serde(flatten)]
    pub counters: Counters,
}
