//! A machine, which lends by the engine's own [`Lending`].

use aquifer_remote::borrower::placement::Candidate;
use aquifer_remote::donor::headroom::{ADDED_MAX, MemoryNow};
use aquifer_remote::donor::lending::Lending;

/// A machine of the cluster.
#[derive(Debug)]
pub struct Machine {
    /// Its RAM.
    pub capacity_bytes: u64,
    /// RAM that the system and the containers on it use.
    pub own_bytes: u64,
    /// Sum of its containers' limits, and of what the system uses.
    pub reserved_bytes: u64,
    /// Bytes that others keep in its slabs.
    pub stored_bytes: u64,
    /// Places whose containers are on it.
    pub places: Vec<u32>,
    /// Its slabs.
    pub lending: Lending,
    /// It has not failed.
    pub is_up: bool,
    /// How often it failed: slabs of before are gone.
    pub epoch: u32,
    /// As borrowers see it.
    pub candidate: Candidate,
    /// Donors on its list.
    pub known: Vec<u32>,
}

impl Machine {
    /// RAM that nothing uses, as the kernel would say: free slabs are in use, for they are locked.
    #[must_use]
    pub fn memory_now(&self, slab_bytes: u64) -> MemoryNow {
        let used = self.own_bytes + self.lending.len() as u64 * slab_bytes;
        MemoryNow { available_bytes: self.capacity_bytes.saturating_sub(used), pressure_percent: 0.0 }
    }

    /// Whether programs and slabs together need more than there is, so that programs wait for slabs to come back.
    #[must_use]
    pub fn is_short(&self, slab_bytes: u64) -> bool {
        self.own_bytes + self.lending.len() as u64 * slab_bytes > self.capacity_bytes
    }

    /// The looks of a donor at its memory until it lends all that it can; how many slabs too many it has.
    pub fn look(&mut self, headroom_bytes: u64, slab_bytes: u64) -> usize {
        loop {
            let change = self.memory_now(slab_bytes).change(headroom_bytes, slab_bytes);
            if change <= 0 {
                return usize::try_from(-change).unwrap_or(0);
            }
            for _ in 0..change.min(ADDED_MAX) {
                self.lending.add();
            }
        }
    }

    /// Share of its RAM that is in use, with lent slabs as full ones.
    #[must_use]
    pub fn occupied_share(&self, slab_bytes: u64) -> f64 {
        (self.own_bytes + self.lending.lent() * slab_bytes) as f64 / self.capacity_bytes as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_donor_lends_what_is_above_its_headroom_and_no_more() {
        let mut machine = Machine {
            capacity_bytes: 100,
            own_bytes: 30,
            reserved_bytes: 30,
            stored_bytes: 0,
            places: Vec::new(),
            lending: Lending::new(u64::MAX),
            is_up: true,
            epoch: 0,
            candidate: Candidate { domain: String::new() },
            known: Vec::new(),
        };
        assert_eq!(machine.look(10, 1), 0);
        assert_eq!(machine.lending.len(), 59);
        machine.own_bytes = 32;
        assert_eq!(machine.look(10, 1), 1);
        assert!(!machine.is_short(1));
        machine.own_bytes = 42;
        assert!(machine.is_short(1));
    }
}
