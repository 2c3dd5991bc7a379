//! A cache of slots without bytes, driven by a real policy; the policies, and what an object costs in RAM under each.

use std::cell::Cell;
use std::fmt;

use aquifer_cache::policy::{Clock, Lru, Offer, Policy, Position, S3Fifo, Sieve, Slots};

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

/// Object, slot header and translation entry with its share of the leaves, in bytes.
const OBJECT_BYTES: f64 = 128.0 + 8.0 + 10.0;
/// Two links, in bytes.
const LINK_BYTES: f64 = 8.0;
/// The ghost queue is as long as the main queue.
const GHOST_SHARE: f64 = 0.9;

/// A policy of the table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Candidate {
    /// As it is by default.
    Clock,
    /// With marks up to this limit, without patience.
    PlainClock(u8),
    Lru,
    Sieve,
    S3Fifo,
}

impl Candidate {
    /// In the order of the table.
    pub const ALL: [Self; 7] = [
        Self::PlainClock(1),
        Self::PlainClock(3),
        Self::PlainClock(7),
        Self::Clock,
        Self::Lru,
        Self::Sieve,
        Self::S3Fifo,
    ];

    /// A new policy for a cache of `slots` slots.
    pub fn policy(self, slots: usize) -> Box<dyn Policy> {
        match self {
            Self::Clock => Box::new(Clock::new()),
            Self::PlainClock(limit) => Box::new(Clock::with_limit(limit)),
            Self::Lru => Box::new(Lru::new()),
            Self::Sieve => Box::new(Sieve::new()),
            Self::S3Fifo => Box::new(S3Fifo::new(ghosts(slots))),
        }
    }

    /// RAM per object of a cache of `slots` slots, in bytes.
    pub fn bytes_per_object(self, slots: usize) -> f64 {
        let links = if self.policy(0).needs_links() { LINK_BYTES } else { 0.0 };
        let ghosts =
            if self == Self::S3Fifo { S3Fifo::ghost_bytes(ghosts(slots)) as f64 / slots as f64 } else { 0.0 };
        OBJECT_BYTES + links + ghosts
    }

    /// Slots that fit where `slots` objects without links fit.
    pub fn slots_in_equal_ram(self, slots: usize) -> usize {
        (slots as f64 * OBJECT_BYTES / self.bytes_per_object(slots)) as usize
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PlainClock(limit) => write!(f, "clock/{limit}"),
            _ => f.write_str(self.policy(0).name()),
        }
    }
}

fn ghosts(slots: usize) -> usize {
    (slots as f64 * GHOST_SHARE) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_slots_under_lru() {
        let lru = Lru::new();
        let mut cache = Cache::new(&lru, 2, 3);
        let hits: Vec<bool> = [1, 2, 1, 3, 1, 2].into_iter().map(|key| cache.access(key)).collect();
        assert_eq!(hits, [false, false, true, false, true, false]);
    }
}
