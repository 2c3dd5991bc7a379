//! Blocks of up to a page: groups of 16 pages, each of one size class (segregated fits; Wilson et al., "Dynamic Storage Allocation: A
//! Survey", 1995). Which block is free stands outside of the pages, so that allocating and freeing touch none.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_cache::Class;
use aquifer_sys::stripe::{STRIPES, stripe};

/// Pages of a group, which begins at a multiple of as many.
pub(crate) const GROUP_PAGES: u64 = 16;
const GROUP_BYTES: usize = GROUP_PAGES as usize * OS_PAGE_BYTES;
/// Threads are spread over so many pools of each class.
const SHARDS: usize = if STRIPES < 4 { STRIPES } else { 4 };
const CLASSES: usize = aquifer_cache::class::SIZES.len();
/// Groups whose words are made together.
const PART: usize = 1024;

/// One group.
struct Group {
    /// Which of the space's: its first page divided by the pages of a group.
    unit: u32,
    /// Blocks that are free.
    free: u16,
    /// Position in the list of groups with free blocks, if it is there.
    listed: Option<u32>,
    /// A word below which nothing is free.
    hint: u16,
    /// Bit n is set if block n is taken, or if there is none.
    taken: Box<[u64]>,
}

/// The groups of one class that one shard of the threads has.
#[derive(Default)]
struct Pool {
    groups: Vec<Group>,
    /// Positions of those with free blocks.
    open: Vec<u32>,
    blocks: u64,
}

/// Where a group stands: shard and class, counted together from 1, and its position there. 0 for pages that are no group.
#[derive(Clone, Copy)]
struct Word(u32);

impl Word {
    const POOL_BITS: u32 = 8;

    fn new(pool: usize, at: usize) -> Self {
        Self((pool as u32 + 1) | ((at as u32) << Self::POOL_BITS))
    }

    fn pool(self) -> Option<usize> {
        ((self.0 & ((1 << Self::POOL_BITS) - 1)) as usize).checked_sub(1)
    }

    fn at(self) -> usize {
        (self.0 >> Self::POOL_BITS) as usize
    }
}

const _: () = assert!(SHARDS * CLASSES < 1 << Word::POOL_BITS);

/// What freeing a block left behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Freed {
    /// Its group has others.
    Kept,
    /// This group is empty and no group any more.
    Group(u32),
}

/// All small blocks of a space.
pub(crate) struct Small {
    /// A [`Word`] for each 16 pages of the space, in parts that are made when they are needed.
    units: Box<[OnceLock<Box<[AtomicU32]>>]>,
    pools: Box<[Mutex<Pool>]>,
}

/// Nobody is at the small blocks.
pub(crate) struct Rest<'a> {
    _pools: Vec<MutexGuard<'a, Pool>>,
}

fn class_of(pool: usize) -> Class {
    Class::all().nth(pool % CLASSES).expect("pools are counted by class")
}

fn places(class: Class) -> usize {
    GROUP_BYTES / class.slot_bytes()
}

/// The class of blocks of `bytes` at multiples of `align`, a power of two; `None` if such are no small blocks.
pub(crate) fn class_for(bytes: usize, align: usize) -> Option<Class> {
    if bytes.max(align) > OS_PAGE_BYTES {
        return None;
    }
    // Blocks of a class stand at multiples of its size, so a power of two is aligned to itself.
    let bytes = if align > 16 { bytes.max(align).next_power_of_two() } else { bytes };
    Class::for_bytes(bytes.max(1))
}

impl Pool {
    fn take(&mut self) -> Option<(u32, usize)> {
        let at = *self.open.last()?;
        let group = &mut self.groups[at as usize];
        let word = group.taken[usize::from(group.hint)..].iter().position(|&word| word != u64::MAX)?;
        let word = word + usize::from(group.hint);
        let bit = group.taken[word].trailing_ones() as usize;
        group.taken[word] |= 1 << bit;
        group.hint = word as u16;
        group.free -= 1;
        let unit = group.unit;
        if group.free == 0 {
            group.listed = None;
            self.open.pop();
        }
        self.blocks += 1;
        Some((unit, word * 64 + bit))
    }

    fn open(&mut self, at: usize) {
        self.groups[at].listed = Some(self.open.len() as u32);
        self.open.push(at as u32);
    }

    fn close(&mut self, at: usize) {
        let Some(listed) = self.groups[at].listed.take() else { return };
        self.open.swap_remove(listed as usize);
        if let Some(&moved) = self.open.get(listed as usize) {
            self.groups[moved as usize].listed = Some(listed);
        }
    }

    fn is_taken(&self, at: usize, number: usize) -> bool {
        self.groups[at].taken[number / 64] >> (number % 64) & 1 == 1
    }
}

impl Small {
    /// Those of a space of `pages`.
    pub(crate) fn new(pages: u64) -> Self {
        let units = pages.div_ceil(GROUP_PAGES) as usize;
        Self {
            units: (0..units.div_ceil(PART)).map(|_| OnceLock::new()).collect(),
            pools: (0..SHARDS * CLASSES).map(|_| Mutex::default()).collect(),
        }
    }

    fn pool(&self, number: usize) -> MutexGuard<'_, Pool> {
        self.pools[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn word(&self, unit: u32) -> Word {
        let part = self.units.get(unit as usize / PART).and_then(OnceLock::get);
        Word(part.map_or(0, |words| words[unit as usize % PART].load(Ordering::Acquire)))
    }

    fn set_word(&self, unit: u32, word: Word) {
        let make = || (0..PART).map(|_| AtomicU32::new(0)).collect();
        let words = self.units[unit as usize / PART].get_or_init(make);
        words[unit as usize % PART].store(word.0, Ordering::Release);
    }

    /// The pool from which this thread takes blocks of `class` at this moment.
    pub(crate) fn own_pool(class: Class) -> usize {
        stripe() % SHARDS * CLASSES + class.index()
    }

    /// The class of the group that `offset` lies in, if it is in one. Lock-free.
    pub(crate) fn class_at(&self, offset: u64) -> Option<Class> {
        self.word((offset / GROUP_BYTES as u64) as u32).pool().map(class_of)
    }

    /// A block of a pool: its offset in the space. `None` if a group must be added.
    pub(crate) fn take(&self, pool: usize) -> Option<u64> {
        let (unit, number) = self.pool(pool).take()?;
        Some(u64::from(unit) * GROUP_BYTES as u64 + (number * class_of(pool).slot_bytes()) as u64)
    }

    /// Adds a group to a pool, in 16 pages of the space that are nothing else, and takes a block of it.
    pub(crate) fn add(&self, number: usize, unit: u32) -> u64 {
        let places = places(class_of(number));
        let mut taken: Box<[u64]> = vec![0; places.div_ceil(64)].into();
        if !places.is_multiple_of(64) {
            let last = taken.len() - 1;
            taken[last] = u64::MAX << (places % 64);
        }
        let mut pool = self.pool(number);
        let at = pool.groups.len();
        pool.groups.push(Group { unit, free: places as u16, listed: None, hint: 0, taken });
        pool.open(at);
        self.set_word(unit, Word::new(number, at));
        let (unit, place) = pool.take().expect("the group is empty");
        u64::from(unit) * GROUP_BYTES as u64 + (place * class_of(number).slot_bytes()) as u64
    }

    /// The pool of the block that begins at `offset`, locked, with its group and its number there; `None` if none does.
    fn find(&self, offset: u64) -> Option<(usize, MutexGuard<'_, Pool>, usize, usize)> {
        let unit = (offset / GROUP_BYTES as u64) as u32;
        let number = self.word(unit).pool()?;
        let pool = self.pool(number);
        // The group may have gone, or stand elsewhere in its pool.
        let word = self.word(unit);
        let slot_bytes = class_of(number).slot_bytes();
        let within = (offset % GROUP_BYTES as u64) as usize;
        let (at, place) = (word.at(), within / slot_bytes);
        let is_block = word.pool() == Some(number)
            && within.is_multiple_of(slot_bytes)
            && place < places(class_of(number))
            && pool.is_taken(at, place);
        is_block.then_some((number, pool, at, place))
    }

    /// Whether a block that is taken begins at `offset`.
    pub(crate) fn is_block(&self, offset: u64) -> bool {
        self.find(offset).is_some()
    }

    /// Frees the block that begins at `offset`; `None` if none does.
    pub(crate) fn free(&self, offset: u64) -> Option<Freed> {
        let (number, mut pool, at, place) = self.find(offset)?;
        pool.blocks -= 1;
        let group = &mut pool.groups[at];
        group.taken[place / 64] &= !(1 << (place % 64));
        group.free += 1;
        group.hint = group.hint.min((place / 64) as u16);
        let (unit, is_empty) = (group.unit, usize::from(group.free) == places(class_of(number)));
        if group.listed.is_none() {
            pool.open(at);
        }
        // One that is empty stays as long as it is the only one with room.
        if !is_empty || pool.open.len() == 1 {
            return Some(Freed::Kept);
        }
        pool.close(at);
        pool.groups.swap_remove(at);
        self.set_word(unit, Word(0));
        if let Some(moved) = pool.groups.get(at) {
            let (unit, listed) = (moved.unit, moved.listed);
            self.set_word(unit, Word::new(number, at));
            if let Some(listed) = listed {
                pool.open[listed as usize] = at as u32;
            }
        }
        Some(Freed::Group(unit))
    }

    /// Keeps other threads out until the guard is dropped.
    pub(crate) fn rest(&self) -> Rest<'_> {
        Rest { _pools: (0..self.pools.len()).map(|number| self.pool(number)).collect() }
    }

    /// Blocks and their bytes, rounded up.
    pub(crate) fn usage(&self) -> (u64, u64) {
        (0..self.pools.len()).fold((0, 0), |(blocks, bytes), number| {
            let of_pool = self.pool(number).blocks;
            (blocks + of_pool, bytes + of_pool * class_of(number).slot_bytes() as u64)
        })
    }

    /// RAM of the bookkeeping, about.
    pub(crate) fn ram_bytes(&self) -> usize {
        (0..self.pools.len())
            .map(|number| {
                let pool = self.pool(number);
                let bits = places(class_of(number)).div_ceil(64) * 8;
                pool.groups.capacity() * (size_of::<Group>() + bits) + pool.open.capacity() * 4
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const UNITS: u32 = 64;

    fn take(small: &Small, class: Class, next: &mut Vec<u32>) -> Option<u64> {
        let pool = Small::own_pool(class);
        small.take(pool).or_else(|| Some(small.add(pool, next.pop()?)))
    }

    proptest! {
        /// Blocks are aligned, disjoint and inside of their groups; what is freed is free, once; groups come and go.
        #[test]
        fn blocks_never_overlap(ops in proptest::collection::vec((0usize..=4096, 0u32..13, any::<u16>()), 1..2000)) {
            let small = Small::new(u64::from(UNITS) * GROUP_PAGES);
            let mut next: Vec<u32> = (0..UNITS).collect();
            let mut held: BTreeMap<u64, u64> = BTreeMap::new();
            for (bytes, align, pick) in ops {
                let class = class_for(bytes, 1 << align).unwrap();
                if pick % 5 > 1 {
                    let Some(offset) = take(&small, class, &mut next) else { continue };
                    let len = class.slot_bytes() as u64;
                    prop_assert!(len >= bytes as u64 && offset.is_multiple_of(1 << align));
                    prop_assert_eq!(small.class_at(offset + len - 1), Some(class));
                    if let Some((before, len)) = held.range(..offset + len).next_back() {
                        prop_assert!(before + len <= offset);
                    }
                    held.insert(offset, len);
                } else if let Some((&offset, _)) = held.range(u64::from(pick) * 64..).next() {
                    prop_assert!(small.is_block(offset) && !small.is_block(offset + 1));
                    held.remove(&offset);
                    if let Some(Freed::Group(unit)) = small.free(offset) {
                        prop_assert_eq!(held.range(u64::from(unit) << 16..u64::from(unit + 1) << 16).count(), 0);
                        prop_assert_eq!(small.class_at(u64::from(unit) << 16).map(Class::index), None);
                        next.push(unit);
                    }
                    prop_assert_eq!(small.free(offset), None, "freed twice");
                }
                prop_assert_eq!(small.usage(), (held.len() as u64, held.values().sum()));
            }
        }
    }

    #[test]
    fn threads_have_groups_of_their_own_and_free_those_of_others() {
        let small = Small::new(u64::from(UNITS) * GROUP_PAGES);
        let next = Mutex::new((0..UNITS).collect::<Vec<_>>());
        let class = class_for(48, 16).unwrap();
        let blocks = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..3000 {
                        let mut own: Vec<u64> = Vec::new();
                        if let Some(offset) = take(&small, class, &mut next.lock().unwrap()) {
                            own.push(offset);
                        }
                        let mut blocks = blocks.lock().unwrap();
                        blocks.append(&mut own);
                        let (at, len) = (round % 97, blocks.len());
                        if round % 3 == 0 && at < len {
                            let freed = small.free(blocks.swap_remove(at)).expect("it was taken");
                            if let Freed::Group(unit) = freed {
                                next.lock().unwrap().push(unit);
                            }
                        }
                    }
                });
            }
        });
        let blocks = blocks.into_inner().unwrap();
        assert_eq!(small.usage().0, blocks.len() as u64);
        assert!(blocks.iter().all(|&offset| small.free(offset).is_some()));
        assert_eq!(small.usage(), (0, 0));
    }
}
