//! What the central placer knows: every donor that has a free slab, in the order of use.

use std::collections::BTreeSet;

use crate::machine::Machine;

/// Donors by the used share of their memory.
#[derive(Debug, Default)]
pub struct Index {
    by_use: BTreeSet<(u64, u32)>,
    keys: Vec<Option<u64>>,
}

impl Index {
    /// Takes notice of a machine's state.
    pub fn note(&mut self, nth: u32, machine: &Machine, slab_bytes: u64) {
        let at = nth as usize;
        if self.keys.len() <= at {
            self.keys.resize(at + 1, None);
        }
        let key =
            (machine.is_up && machine.lending.offer().free_slabs > 0).then(|| used(machine, slab_bytes));
        if key == self.keys[at] {
            return;
        }
        if let Some(old) = self.keys[at] {
            self.by_use.remove(&(old, nth));
        }
        if let Some(new) = key {
            self.by_use.insert((new, nth));
        }
        self.keys[at] = key;
    }

    /// The donor that is used least, but for one.
    #[must_use]
    pub fn least_used(&self, but: u32) -> Option<u32> {
        self.by_use.iter().map(|(_, nth)| *nth).find(|nth| *nth != but)
    }
}

/// In parts of 2^32, whole slabs counted.
fn used(machine: &Machine, slab_bytes: u64) -> u64 {
    let used = u128::from(machine.own_bytes + machine.lending.lent() * slab_bytes);
    ((used << 32) / u128::from(machine.capacity_bytes.max(1))) as u64
}
