//! Measures a cluster at many moments.

use crate::cluster::Cluster;
use crate::container::Container;
use crate::counters::Counters;
use crate::outcome::Outcome;

/// Bytes of a page.
const PAGE_BYTES: f64 = 4096.0;
/// Machines in [`Outcome::by_rank`].
const RANKS_MAX: usize = 100;

/// Sums over moments.
#[derive(Debug)]
pub struct Measures {
    moments: u64,
    used: f64,
    taken: f64,
    occupied: f64,
    wanted: f64,
    reserved: f64,
    stored: f64,
    lent: f64,
    imbalance: f64,
    imbalance_max: f64,
    deviation: f64,
    /// Of each machine: sum of taken shares, and moments at which it was up.
    machines: Vec<(f64, u64)>,
    paged_bytes: f64,
}

impl Measures {
    /// None yet.
    #[must_use]
    pub fn new(machines: usize) -> Measures {
        Measures {
            moments: 0,
            used: 0.0,
            taken: 0.0,
            occupied: 0.0,
            wanted: 0.0,
            reserved: 0.0,
            stored: 0.0,
            lent: 0.0,
            imbalance: 0.0,
            imbalance_max: 0.0,
            deviation: 0.0,
            machines: vec![(0.0, 0); machines],
            paged_bytes: 0.0,
        }
    }

    /// Measures now. What is counted before the first moment is not counted.
    pub fn take(&mut self, cluster: &mut Cluster<'_>) {
        if self.moments == 0 {
            cluster.counters = Counters::default();
        } else {
            let spared: f64 = cluster.containers.iter().map(Container::heat_spared).sum();
            self.paged_bytes +=
                (cluster.heat - spared) * cluster.scenario.sample_every.as_secs_f64() * PAGE_BYTES;
        }
        self.moments += 1;
        let (mut capacity, mut own, mut stored, mut lent, mut reserved) = (0, 0, 0, 0, 0);
        let (mut count, mut shares, mut squares, mut most) = (0.0, 0.0, 0.0, 0.0f64);
        for (nth, machine) in cluster.machines.iter().enumerate().filter(|(_, machine)| machine.is_up) {
            capacity += machine.capacity_bytes;
            own += machine.own_bytes;
            stored += machine.stored_bytes;
            lent += machine.lending.lent() * cluster.scenario.slab_bytes;
            reserved += machine.reserved_bytes;
            let share = machine.taken_share();
            count += 1.0;
            shares += share;
            squares += share * share;
            most = most.max(share);
            self.machines[nth].0 += share;
            self.machines[nth].1 += 1;
        }
        if capacity == 0 {
            return;
        }
        let over: u64 = cluster.containers.iter().map(|container| container.over_bytes).sum();
        let of_capacity = |bytes: u64| bytes as f64 / capacity as f64;
        let twice: u64 = cluster.containers.iter().map(Container::twice_bytes).sum();
        self.used += of_capacity(own + stored - twice);
        self.taken += of_capacity(own + stored);
        self.occupied += of_capacity(own + lent);
        self.wanted += of_capacity(own + over);
        self.reserved += of_capacity(reserved);
        self.stored += stored as f64;
        self.lent += lent as f64;
        let mean = shares / count;
        self.imbalance += most / mean;
        self.imbalance_max = self.imbalance_max.max(most / mean);
        self.deviation += (squares / count - mean * mean).max(0.0).sqrt() / mean;
    }

    /// What came of it.
    #[must_use]
    pub fn outcome(self, cluster: &Cluster<'_>) -> Outcome {
        let mean = |sum: f64| sum / self.moments.max(1) as f64;
        let mut counters = cluster.counters;
        counters.paged_bytes = self.paged_bytes as u64;
        Outcome {
            contender: cluster.contender,
            used_share: mean(self.used),
            taken_share: mean(self.taken),
            occupied_share: mean(self.occupied),
            wanted_share: mean(self.wanted),
            reserved_share: mean(self.reserved),
            filled_share: if self.lent > 0.0 { self.stored / self.lent } else { 0.0 },
            imbalance: mean(self.imbalance),
            imbalance_max: self.imbalance_max,
            deviation: mean(self.deviation),
            by_rank: by_rank(&self.machines),
            counters,
        }
    }
}

fn by_rank(machines: &[(f64, u64)]) -> Vec<f64> {
    let mut shares: Vec<f64> = machines
        .iter()
        .filter(|(_, moments)| *moments > 0)
        .map(|(sum, moments)| sum / *moments as f64)
        .collect();
    shares.sort_by(|a, b| b.total_cmp(a));
    if shares.len() <= RANKS_MAX {
        return shares;
    }
    (0..RANKS_MAX).map(|nth| shares[nth * (shares.len() - 1) / (RANKS_MAX - 1)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_go_from_the_fullest_to_the_emptiest() {
        assert_eq!(by_rank(&[(1.0, 2), (0.9, 1), (0.0, 0)]), [0.9, 0.5]);
        let many: Vec<_> = (0..1001).map(|nth| (f64::from(nth), 1)).collect();
        let ranks = by_rank(&many);
        assert_eq!((ranks.len(), ranks[0], ranks[RANKS_MAX - 1]), (RANKS_MAX, 1000.0, 0.0));
    }
}
