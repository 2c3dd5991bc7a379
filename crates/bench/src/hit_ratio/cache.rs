//! A cache of slots without bytes, driven by a real policy.

use std::cell::Cell;

use aquifer_cache::policy::{Offer, Policy, Position, Slots};

const ABSENT: u32 = u32::MAX;

#[derive(Clone, Default)]
struct Slot {
    key: Cell<u32>,
    mark: Cell<u8>,
    links: Cell<(u32, u32)>,
}

/// Slots `0..used` hold a key each.
struct Filled {
    slots: Vec<Slot>,
    used: Cell<u32>,
    /// Marks that the policy has read. LRU reads none: it looks at one slot.
    looks: Cell<u64>,
}

/// Work of all evictions of a cache.
#[derive(Clone, Copy, Default)]
pub struct Effort {
    pub evictions: u64,
    /// Slots looked at, and the most for one eviction.
    pub looks: u64,
    pub looks_max: u64,
}

impl Slots for Filled {
    fn end(&self) -> u32 {
        self.used.get()
    }
    fn is_occupied(&self, at: Position) -> bool {
        at.0 < self.used.get()
    }
    fn mark(&self, at: Position) -> u8 {
        self.looks.set(self.looks.get() + 1);
        self.slots[at.0 as usize].mark.get()
    }
    fn set_mark(&self, at: Position, mark: u8) {
        self.slots[at.0 as usize].mark.set(mark);
    }
    fn links(&self, at: Position) -> (u32, u32) {
        self.slots[at.0 as usize].links.get()
    }
    fn set_links(&self, at: Position, links: (u32, u32)) {
        self.slots[at.0 as usize].links.set(links);
    }
    fn key_hash(&self, at: Position) -> u32 {
        self.slots[at.0 as usize].key.get()
    }
}

/// A cache of keys.
pub struct Cache<'a> {
    policy: &'a dyn Policy,
    filled: Filled,
    /// For each key its slot.
    slot_of: Vec<u32>,
    effort: Effort,
}

impl<'a> Cache<'a> {
    /// An empty cache of `slots` slots for keys up to `key_max`.
    pub fn new(policy: &'a dyn Policy, slots: usize, key_max: u32) -> Self {
        let filled = Filled { slots: vec![Slot::default(); slots], used: Cell::new(0), looks: Cell::new(0) };
        Self { policy, filled, slot_of: vec![ABSENT; key_max as usize + 1], effort: Effort::default() }
    }

    /// Uses `key`, after bringing it in if it is absent; whether it was present.
    pub fn access(&mut self, key: u32) -> bool {
        let at = self.slot_of[key as usize];
        if at != ABSENT {
            self.policy.touch(&self.filled, Position(at));
            return true;
        }
        let at = self.free_slot();
        self.filled.slots[at.0 as usize].key.set(key);
        self.slot_of[key as usize] = at.0;
        self.policy.insert(&self.filled, at);
        false
    }

    fn free_slot(&mut self) -> Position {
        let used = self.filled.used.get();
        if (used as usize) < self.filled.slots.len() {
            self.filled.used.set(used + 1);
            return Position(used);
        }
        self.filled.looks.set(0);
        let victim = self.policy.evict(&self.filled, 1, &mut |_| Offer::Taken);
        let at = victim.expect("a full cache in which nothing is refused has a victim");
        self.count_eviction();
        self.slot_of[self.filled.slots[at.0 as usize].key.get() as usize] = ABSENT;
        at
    }

    fn count_eviction(&mut self) {
        let looks = self.filled.looks.get().max(1);
        self.effort.evictions += 1;
        self.effort.looks += looks;
        self.effort.looks_max = self.effort.looks_max.max(looks);
    }

    /// What the evictions so far took.
    pub fn effort(&self) -> Effort {
        self.effort
    }
}

#[cfg(test)]
mod tests {
    use aquifer_cache::policy::Lru;

    use super::Cache;

    #[test]
    fn two_slots_under_lru() {
        let lru = Lru::new();
        let mut cache = Cache::new(&lru, 2, 3);
        let hits: Vec<bool> = [1, 2, 1, 3, 1, 2].into_iter().map(|key| cache.access(key)).collect();
        assert_eq!(hits, [false, false, true, false, true, false]);
    }
}
