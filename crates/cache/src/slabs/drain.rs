//! Slabs leave their class.

use std::sync::atomic::Ordering;

use super::{Slab, Slabs};
use crate::class::Class;

impl Slabs {
    /// Stops handing out slots of `slab`, so that it can be emptied; false if it already is drained or has
    /// left the class.
    pub(crate) fn start_draining(&self, class: Class, slab: u32) -> bool {
        let mut state = self.state.lock();
        let Slab { used, draining, .. } = state.slabs[slab as usize];
        if draining
            || used == 0
            || self.shared[slab as usize].class.load(Ordering::Relaxed) != class.index() as u8
        {
            return false;
        }
        state.slabs[slab as usize].draining = true;
        if used < self.slots_per_slab(class) {
            state.unlink(class, slab);
        }
        true
    }

    /// Ends the draining; returns whether the slab is empty and went to the free ones.
    pub(crate) fn finish_draining(&self, class: Class, slab: u32) -> bool {
        let mut state = self.state.lock();
        state.slabs[slab as usize].draining = false;
        let used = state.slabs[slab as usize].used;
        if used == 0 {
            self.retire(&mut state, class, slab);
        } else if used < self.slots_per_slab(class) {
            state.link(class, slab);
        }
        used == 0
    }

    /// From now on slabs of whole pages leave their class by being drained only.
    pub(crate) fn keep_whole(&self) {
        self.keeps_whole.store(true, Ordering::Relaxed);
    }

    /// Has a slab leave its class if none of its slots is used; whether it did.
    pub(crate) fn retire_empty(&self, class: Class, slab: u32) -> bool {
        let mut state = self.state.lock();
        let Slab { used, draining, .. } = state.slabs[slab as usize];
        let is_empty = self.class_in_use(slab) == Some(class) && used == 0 && !draining;
        if is_empty {
            state.unlink(class, slab);
            self.retire(&mut state, class, slab);
        }
        is_empty
    }
}
