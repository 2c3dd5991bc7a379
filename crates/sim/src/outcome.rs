//! What came of a run.

use serde::Serialize;

use crate::contender::Contender;
use crate::counters::Counters;

/// Means over the measured time, where nothing else is said. Shares are from 0 to 1, of the memory of all machines that are up; what the
/// systems of the machines use is in no share of the cluster, and in all that compare machines.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Outcome {
    /// The placer and the policy of eviction.
    #[serde(flatten)]
    pub contender: Contender,
    /// Distinct bytes of containers, in RAM of their machine or in slabs: pages that are in both count once.
    pub used_share: f64,
    /// The same with such pages counted twice, as the machines count them: where a page came back from, its place stays taken.
    pub taken_share: f64,
    /// That with lent slabs counted as full, as a donor's kernel counts them, and presumably the paper.
    pub occupied_share: f64,
    /// Would be used if everything that is wanted were in somebody's RAM: no placer can do better.
    pub wanted_share: f64,
    /// Promised to containers.
    pub reserved_share: f64,
    /// What the systems of the machines use.
    pub system_share: f64,
    /// Bytes in lent slabs over bytes of lent slabs.
    pub filled_share: f64,
    /// Occupied share of the fullest machine over that of the median one.
    pub max_to_median: f64,
    /// The same at the worst moment.
    pub max_to_median_worst: f64,
    /// Occupied share of the fullest machine over that of the emptiest one.
    pub max_to_min: f64,
    /// Standard deviation of the occupied share over its mean.
    pub deviation: f64,
    /// Containers elsewhere that lose pages if a machine fails.
    pub hit: f64,
    /// The same if the machine fails that has pages of most containers.
    pub hit_max: f64,
    /// Bytes in the slabs of the machine that has most.
    pub lost_bytes_max: f64,
    /// The share of its bytes that a device has on one donor at most.
    pub on_one_donor: f64,
    /// Mean occupied share of each machine, the highest first; of more than 100 machines, an even sample of
    /// these.
    pub by_rank: Vec<f64>,
    /// What was counted.
    #[serde(flatten)]
    pub counters: Counters,
}

impl Outcome {
    /// The mean of runs of one contender; of the worst moments the worst. `None` of no runs.
    #[must_use]
    pub fn mean(all: &[&Outcome]) -> Option<Outcome> {
        let first = all.first()?;
        let mean =
            |field: fn(&Outcome) -> f64| all.iter().map(|one| field(one)).sum::<f64>() / all.len() as f64;
        let ranks = all.iter().map(|one| one.by_rank.len()).min().unwrap_or(0);
        let rank = |nth: usize| all.iter().map(|one| one.by_rank[nth]).sum::<f64>() / all.len() as f64;
        let counters: Vec<_> = all.iter().map(|one| &one.counters).collect();
        Some(Outcome {
            contender: first.contender,
            used_share: mean(|one| one.used_share),
            taken_share: mean(|one| one.taken_share),
            occupied_share: mean(|one| one.occupied_share),
            wanted_share: mean(|one| one.wanted_share),
            reserved_share: mean(|one| one.reserved_share),
            system_share: mean(|one| one.system_share),
            filled_share: mean(|one| one.filled_share),
            max_to_median: mean(|one| one.max_to_median),
            max_to_median_worst: all.iter().map(|one| one.max_to_median_worst).fold(0.0, f64::max),
            max_to_min: mean(|one| one.max_to_min),
            deviation: mean(|one| one.deviation),
            hit: mean(|one| one.hit),
            hit_max: mean(|one| one.hit_max),
            lost_bytes_max: mean(|one| one.lost_bytes_max),
            on_one_donor: mean(|one| one.on_one_donor),
            by_rank: (0..ranks).map(rank).collect(),
            counters: Counters::mean(&counters),
        })
    }
}
