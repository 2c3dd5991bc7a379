//! A machine, which lends by the engine's own [`Lending`], and a place for containers.

use aquifer_remote::borrower::placement::Candidate;
use aquifer_remote::donor::headroom::{ADDED_MAX, MemoryNow};
use aquifer_remote::donor::lending::{Lending, Moment};

use crate::load::{GIB, Spec};

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

/// A place for containers: one after the other.
#[derive(Debug)]
pub struct Container {
    /// The present or the next one.
    pub spec: Spec,
    /// How many were there before.
    pub generation: u32,
    /// Where it runs, if it does.
    pub machine: Option<u32>,
    /// Since when.
    pub started: Moment,
    /// Bytes on its own machine.
    pub local_bytes: u64,
    /// Bytes that do not fit there.
    pub over_bytes: u64,
    /// Of the bytes on its own machine, those that keep their place in slabs.
    pub kept_bytes: u64,
}

impl Container {
    /// Pages read and written in a second among the bytes that do not fit on its machine.
    #[must_use]
    pub fn uses_per_s(&self) -> f64 {
        self.spec.uses_per_gib_s * self.over_bytes as f64 / GIB
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
