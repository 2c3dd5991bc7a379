//! A structure that maps runs of home space to the log.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::RwLock;

use aquifer_base::PartitionId;
use aquifer_map::partitions::{GRAINS, Hint, Partitions, Source};
use aquifer_sys::Backoff;
use clap::ValueEnum;
use crossbeam_skiplist::SkipMap;

/// Hints of a thread.
const HINTS: usize = 512;

/// Which structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Kind {
    /// Sorted arrays in partitions, with the hot-node cache: what the heap has
    ArraysHinted,
    /// The same without the cache
    Arrays,
    /// A skip list for each partition
    SkipLists,
    /// A B-tree for each partition, each under a lock
    Trees,
    /// One skip list for all of home space
    SkipList,
    /// One B-tree for all of home space, under a lock
    Tree,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("none is hidden").get_name())
    }
}

#[allow(clippy::large_enum_variant, reason = "there is one of them at a time")]
/// The structure, filled with runs of equal length.
pub enum Candidate {
    /// Sorted arrays, and whether hints are used.
    Arrays(Box<Partitions>, bool),
    /// By partition.
    SkipLists(Vec<SkipMap<u16, u32>>),
    /// By partition.
    Trees(Vec<RwLock<BTreeMap<u16, u32>>>),
    /// By grain.
    SkipList(SkipMap<u32, u32>),
    /// By grain.
    Tree(RwLock<BTreeMap<u32, u32>>),
}

/// What a thread remembers of its last looks.
pub struct Memory(Vec<Hint>);

impl Default for Memory {
    fn default() -> Self {
        Self(vec![Hint::default(); HINTS])
    }
}

impl Memory {
    fn of(&mut self, grain: u32) -> &mut Hint {
        &mut self.0[(grain >> 4) as usize % HINTS]
    }
}

fn place(grain: u32) -> (PartitionId, usize) {
    (PartitionId(grain / GRAINS as u32), grain as usize % GRAINS)
}

impl Candidate {
    /// An empty structure for `partitions` partitions.
    pub fn new(kind: Kind, partitions: u32) -> Self {
        match kind {
            Kind::ArraysHinted | Kind::Arrays => {
                let map = Partitions::new(1 << 34).expect("address space");
                Self::Arrays(Box::new(map), kind == Kind::ArraysHinted)
            }
            Kind::SkipLists => Self::SkipLists((0..partitions).map(|_| SkipMap::new()).collect()),
            Kind::Trees => Self::Trees((0..partitions).map(|_| RwLock::default()).collect()),
            Kind::SkipList => Self::SkipList(SkipMap::new()),
            Kind::Tree => Self::Tree(RwLock::default()),
        }
    }

    /// The place in the log of a grain.
    pub fn find(&self, grain: u32, memory: &mut Memory) -> u32 {
        match self {
            Self::Arrays(map, is_hinted) => find_in_arrays(map, grain, memory, *is_hinted),
            Self::SkipLists(lists) => {
                let (id, within) = place(grain);
                let entry = lists[id.0 as usize].upper_bound(std::ops::Bound::Included(&(within as u16)));
                entry.map_or(0, |entry| entry.value() + within as u32 - u32::from(*entry.key()))
            }
            Self::Trees(trees) => {
                let (id, within) = place(grain);
                let tree = trees[id.0 as usize].read().expect("no writer panics");
                let last = tree.range(..=within as u16).next_back();
                last.map_or(0, |(start, address)| address + within as u32 - u32::from(*start))
            }
            Self::SkipList(list) => {
                let entry = list.upper_bound(std::ops::Bound::Included(&grain));
                entry.map_or(0, |entry| entry.value() + grain - entry.key())
            }
            Self::Tree(tree) => {
                let tree = tree.read().expect("no writer panics");
                tree.range(..=grain).next_back().map_or(0, |(start, address)| address + grain - start)
            }
        }
    }

    /// Points a run that is there to another place, or adds one.
    pub fn point(&self, grain: u32, grains: u32, address: u32, memory: &mut Memory) {
        match self {
            Self::Arrays(map, is_hinted) => {
                let (id, start) = place(grain);
                let mut backoff = Backoff::new();
                while map.try_lock(id).is_none() {
                    backoff.wait();
                }
                let mut none = Hint::NONE;
                let hint = if *is_hinted { memory.of(grain) } else { &mut none };
                map.replace(
                    id,
                    (start, start + grains as usize),
                    Source::Log(address.into()),
                    hint,
                    |_, _| (),
                );
                map.unlock(id, 1);
            }
            Self::SkipLists(lists) => {
                let (id, start) = place(grain);
                lists[id.0 as usize].insert(start as u16, address);
            }
            Self::Trees(trees) => {
                let (id, start) = place(grain);
                let mut tree = trees[id.0 as usize].write().expect("no writer panics");
                tree.insert(start as u16, address);
            }
            Self::SkipList(list) => drop(list.insert(grain, address)),
            Self::Tree(tree) => drop(tree.write().expect("no writer panics").insert(grain, address)),
        }
    }
}

fn find_in_arrays(map: &Partitions, grain: u32, memory: &mut Memory, is_hinted: bool) -> u32 {
    let (id, within) = place(grain);
    let mut backoff = Backoff::new();
    loop {
        let before = map.word(id);
        let mut none = Hint::NONE;
        let hint = if is_hinted { memory.of(grain) } else { &mut none };
        let run = map.find(id, within, hint);
        if !before.is_locked() && map.is_unchanged(id, before) {
            return if let Source::Log(address) = run.source { address as u32 } else { 0 };
        }
        backoff.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_find_what_was_pointed_to() {
        for kind in Kind::value_variants() {
            let (map, mut memory) = (Candidate::new(*kind, 4), Memory::default());
            for grain in (0..4096).step_by(8) {
                map.point(grain, 8, 100_000 - grain * 3, &mut memory);
            }
            for grain in 0..4096 {
                let start = grain / 8 * 8;
                let expected = 100_000 - start * 3 + grain - start;
                assert_eq!(map.find(grain, &mut memory), expected, "{kind:?} {grain}");
            }
        }
    }
}
