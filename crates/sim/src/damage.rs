//! What would be lost if one machine failed now.

use std::collections::BTreeMap;

use crate::cluster::Cluster;
use crate::device::Device;

/// What the failure of one donor does to those that borrow from it. Its own containers are not in it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Damage {
    /// Containers elsewhere whose pages it has, of a machine taken at random.
    pub hit: f64,
    /// The same of the machine that has pages of most containers.
    pub hit_max: f64,
    /// Bytes in the slabs of the machine that has most.
    pub bytes_max: f64,
    /// The share of its bytes that a device has on one donor at most; the mean of all bytes in slabs.
    pub on_one_donor: f64,
}

impl Damage {
    /// Looks at all slabs in use.
    #[must_use]
    pub fn of(cluster: &Cluster<'_>) -> Damage {
        let mut hits = vec![0; cluster.machines.len()];
        let (mut stored, mut at_worst) = (0, 0);
        for (nth, device) in cluster.devices.iter().enumerate() {
            let by_donor = by_donor(device);
            // Pages of all containers lie in all slabs of their device.
            let containers = cluster.containers_of(nth as u32).filter(|one| one.over_bytes > 0).count();
            by_donor.keys().for_each(|donor| hits[*donor as usize] += containers);
            stored += by_donor.values().sum::<u64>();
            at_worst += by_donor.values().max().copied().unwrap_or(0);
        }
        let up = cluster.machines.iter().filter(|machine| machine.is_up);
        Damage {
            hit: hits.iter().sum::<usize>() as f64 / up.clone().count().max(1) as f64,
            hit_max: hits.into_iter().max().unwrap_or(0) as f64,
            bytes_max: up.map(|machine| machine.stored_bytes).max().unwrap_or(0) as f64,
            on_one_donor: if stored == 0 { 0.0 } else { at_worst as f64 / stored as f64 },
        }
    }
}

/// Bytes of a device at each of its donors.
fn by_donor(device: &Device) -> BTreeMap<u32, u64> {
    let mut by_donor = BTreeMap::new();
    for held in device.held.iter().filter(|held| held.bytes > 0) {
        *by_donor.entry(held.machine).or_insert(0) += held.bytes;
    }
    by_donor
}

#[cfg(test)]
mod tests {
    use aquifer_remote::control::SlabId;

    use super::*;
    use crate::device::Held;

    #[test]
    fn slabs_of_one_donor_add_up() {
        let held = |machine, bytes| Held {
            machine,
            epoch: 0,
            slab: SlabId(1),
            bytes,
            skew: 1.0,
            asked: std::time::Duration::ZERO,
        };
        let held = vec![held(3, 10), held(5, 10), held(3, 7), held(9, 0)];
        let device = Device { held, ..Device::default() };
        assert_eq!(by_donor(&device).into_iter().collect::<Vec<_>>(), [(3, 17), (5, 10)]);
    }
}
