//! Measures a cluster at many moments.

use crate::cluster::Cluster;
use crate::counters::Counters;
use crate::damage::Damage;
use crate::device::Device;
use crate::outcome::Outcome;

/// Bytes of a page.
const PAGE_BYTES: f64 = 4096.0;
/// Machines in [`Outcome::by_rank`].
const RANKS_MAX: usize = 100;

/// Sums over moments.
#[derive(Debug, Default)]
pub struct Measures {
    /// Moments since the first one that is counted.
    counted: u64,
    /// Moments since memory is measured.
    moments: u64,
    used: f64,
    taken: f64,
    occupied: f64,
    wanted: f64,
    reserved: f64,
    system: f64,
    stored: f64,
    lent: f64,
    to_median: f64,
    to_median_max: f64,
    to_min: f64,
    deviation: f64,
    damage: Damage,
    /// Of each machine: sum of occupied shares, and moments at which it was up.
    machines: Vec<(f64, u64)>,
    paged_bytes: f64,
}

impl Measures {
    /// None yet.
    #[must_use]
    pub fn new(machines: usize) -> Measures {
        Measures { machines: vec![(0.0, 0); machines], ..Measures::default() }
    }

    /// Measures now. What is counted before the first moment is not counted.
    pub fn take(&mut self, cluster: &mut Cluster<'_>) {
        let scenario = cluster.scenario;
        if self.counted == 0 {
            cluster.counters = Counters::default();
        } else {
            self.paged_bytes += pages_per_s(cluster) * scenario.sample_every.as_secs_f64() * PAGE_BYTES;
        }
        self.counted += 1;
        if cluster.now >= scenario.warm_up {
            self.take_use(cluster);
        }
    }

    fn take_use(&mut self, cluster: &Cluster<'_>) {
        let (system_bytes, slab_bytes) = (cluster.scenario.system_bytes, cluster.scenario.slab_bytes);
        let (mut capacity, mut own, mut stored, mut lent, mut reserved) = (0, 0, 0, 0, 0);
        let mut shares = Vec::with_capacity(cluster.machines.len());
        for (nth, machine) in cluster.machines.iter().enumerate().filter(|(_, machine)| machine.is_up) {
            capacity += machine.capacity_bytes;
            own += machine.own_bytes - system_bytes;
            stored += machine.stored_bytes;
            lent += machine.lending.lent() * slab_bytes;
            reserved += machine.reserved_bytes - system_bytes;
            let share = machine.occupied_share(slab_bytes);
            shares.push(share);
            self.machines[nth].0 += share;
            self.machines[nth].1 += 1;
        }
        if shares.is_empty() {
            return;
        }
        self.moments += 1;
        let over: u64 = cluster.containers.iter().map(|container| container.over_bytes).sum();
        let twice: u64 = cluster.devices.iter().map(Device::twice_bytes).sum();
        let of_capacity = |bytes: u64| bytes as f64 / capacity as f64;
        self.used += of_capacity(own + stored - twice);
        self.taken += of_capacity(own + stored);
        self.occupied += of_capacity(own + lent);
        self.wanted += of_capacity(own + over);
        self.reserved += of_capacity(reserved);
        self.system += of_capacity(system_bytes * shares.len() as u64);
        self.stored += stored as f64;
        self.lent += lent as f64;
        self.take_balance(shares);
        let damage = Damage::of(cluster);
        self.damage.hit += damage.hit;
        self.damage.hit_max += damage.hit_max;
        self.damage.bytes_max += damage.bytes_max;
        self.damage.on_one_donor += damage.on_one_donor;
    }

    fn take_balance(&mut self, shares: Vec<f64>) {
        let Balance { to_median, to_min, deviation } = Balance::of(shares);
        self.to_median += to_median;
        self.to_median_max = self.to_median_max.max(to_median);
        self.to_min += to_min;
        self.deviation += deviation;
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
            system_share: mean(self.system),
            filled_share: if self.lent > 0.0 { self.stored / self.lent } else { 0.0 },
            max_to_median: mean(self.to_median),
            max_to_median_worst: self.to_median_max,
            max_to_min: mean(self.to_min),
            deviation: mean(self.deviation),
            hit: mean(self.damage.hit),
            hit_max: mean(self.damage.hit_max),
            lost_bytes_max: mean(self.damage.bytes_max),
            on_one_donor: mean(self.damage.on_one_donor),
            by_rank: by_rank(&self.machines),
            counters,
        }
    }
}

/// Pages that are read and written in slabs in a second.
fn pages_per_s(cluster: &Cluster<'_>) -> f64 {
    let of_device = |(nth, device): (usize, &Device)| {
        let full_slabs = device.stored_bytes() as f64 / cluster.scenario.slab_bytes as f64;
        full_slabs * cluster.uses_per_s(nth as u32)
    };
    cluster.devices.iter().enumerate().map(of_device).sum()
}

/// How evenly machines are occupied.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Balance {
    to_median: f64,
    to_min: f64,
    deviation: f64,
}

impl Balance {
    /// Of one machine at least.
    fn of(mut shares: Vec<f64>) -> Balance {
        shares.sort_by(f64::total_cmp);
        let count = shares.len();
        let (min, max) = (shares[0], shares[count - 1]);
        let median = 0.5 * (shares[(count - 1) / 2] + shares[count / 2]);
        let mean = shares.iter().sum::<f64>() / count as f64;
        let variance = shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / count as f64;
        Balance { to_median: max / median, to_min: max / min, deviation: variance.sqrt() / mean }
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
    fn balance_is_by_the_median_the_least_and_the_mean() {
        let balance = Balance::of(vec![0.9, 0.1, 0.5, 0.3]);
        assert!((balance.to_median - 2.25).abs() < 1e-12 && (balance.to_min - 9.0).abs() < 1e-12);
        // The mean is 0.45, the squares of the differences 0.0875 in the mean.
        assert!((balance.deviation - 0.0875f64.sqrt() / 0.45).abs() < 1e-12);
        assert_eq!(Balance::of(vec![0.4]), Balance { to_median: 1.0, to_min: 1.0, deviation: 0.0 });
    }

    #[test]
    fn ranks_go_from_the_fullest_to_the_emptiest() {
        assert_eq!(by_rank(&[(1.0, 2), (0.9, 1), (0.0, 0)]), [0.9, 0.5]);
        let many: Vec<_> = (0..1001).map(|nth| (f64::from(nth), 1)).collect();
        let ranks = by_rank(&many);
        assert_eq!((ranks.len(), ranks[0], ranks[RANKS_MAX - 1]), (RANKS_MAX, 1000.0, 0.0));
    }
}
