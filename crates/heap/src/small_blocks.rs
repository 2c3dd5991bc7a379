//! Blocks of up to 13,104 bytes: groups of 16 pages, each of one size (segregated fits; Wilson et al., "Dynamic Storage Allocation: A
//! Survey", 1995). Which block is free stands outside of the pages, so that allocating and freeing touch none.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_cache::class;
use aquifer_sys::counter::{STRIPES, stripe};

/// Pages of a group, which begins at a multiple of as many.
pub(crate) const GROUP_PAGES: u64 = 16;
const GROUP_BYTES: usize = GROUP_PAGES as usize * OS_PAGE_BYTES;
/// Pools of each size, over which threads are spread.
const SHARDS: usize = if STRIPES < 4 { STRIPES } else { 4 };
/// Sizes above a page, chosen so that a whole number of blocks nearly fills a group: a page and a header
/// would waste half of two pages.
const LARGER: [usize; 11] = [4368, 4672, 5040, 5456, 5952, 6544, 7280, 8192, 9360, 10912, 13104];
/// How many sizes there are.
const COUNT: usize = class::SIZES.len() + LARGER.len();
/// Sizes of blocks, ascending: those of slots, and the larger ones.
const SIZES: [usize; COUNT] = {
    let mut sizes = [0; COUNT];
    let mut at = 0;
    while at < COUNT {
        let of_slots = at < class::SIZES.len();
        sizes[at] = if of_slots { class::SIZES[at] } else { LARGER[at - class::SIZES.len()] };
        at += 1;
    }
    sizes
};
/// The largest small block.
pub const SMALL_BYTES_MAX: usize = SIZES[COUNT - 1];

/// A size of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Size(u8);

impl Size {
    /// The size of blocks of `bytes` at multiples of `align`, a power of two; `None` if such are no small blocks.
    pub(crate) fn of(bytes: usize, align: usize) -> Option<Self> {
        if align > OS_PAGE_BYTES || align > 16 && bytes > OS_PAGE_BYTES {
            return None;
        }
        // Blocks stand at multiples of their size, so a power of two is aligned to itself.
        let bytes = if align > 16 { bytes.max(align).next_power_of_two() } else { bytes };
        let at = SIZES.partition_point(|&size| size < bytes);
        (at < COUNT).then_some(Self(at as u8))
    }

    fn of_pool(pool: usize) -> Self {
        Self((pool % COUNT) as u8)
    }

    /// Bytes of a block.
    pub(crate) fn bytes(self) -> usize {
        SIZES[usize::from(self.0)]
    }

    /// Blocks of a group.
    fn per_group(self) -> usize {
        GROUP_BYTES / self.bytes()
    }
}

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

/// The groups of one size that one shard of the threads has.
#[derive(Default)]
struct Pool {
    groups: Vec<Group>,
    /// Positions of those with free blocks.
    open: Vec<u32>,
    blocks: u64,
}

/// Where a group stands: shard and size, counted together from 1, and its position there. 0 for pages that are no group.
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

const _: () = assert!(SHARDS * COUNT < 1 << Word::POOL_BITS);

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
            pools: (0..SHARDS * COUNT).map(|_| Mutex::default()).collect(),
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

    /// The pool from which this thread takes blocks of `size` at this moment.
    pub(crate) fn own_pool(size: Size) -> usize {
        stripe() % SHARDS * COUNT + usize::from(size.0)
    }

    /// The size of the group's blocks that `offset` lies in, if it is in one. Lock-free.
    pub(crate) fn size_at(&self, offset: u64) -> Option<Size> {
        self.word((offset / GROUP_BYTES as u64) as u32).pool().map(Size::of_pool)
    }

    /// A block of a pool: its offset in the space. `None` if a group must be added.
    pub(crate) fn take(&self, pool: usize) -> Option<u64> {
        let (unit, number) = self.pool(pool).take()?;
        Some(u64::from(unit) * GROUP_BYTES as u64 + (number * Size::of_pool(pool).bytes()) as u64)
    }

    /// Adds a group to a pool, in 16 pages of the space that are nothing else, and takes a block of it.
    pub(crate) fn add(&self, number: usize, unit: u32) -> u64 {
        let places = Size::of_pool(number).per_group();
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
        u64::from(unit) * GROUP_BYTES as u64 + (place * Size::of_pool(number).bytes()) as u64
    }

    /// The pool of the block that begins at `offset`, locked, with its group and its number there; `None` if none does.
    fn find(&self, offset: u64) -> Option<(usize, MutexGuard<'_, Pool>, usize, usize)> {
        let unit = (offset / GROUP_BYTES as u64) as u32;
        let number = self.word(unit).pool()?;
        let pool = self.pool(number);
        // The group may have gone, or stand elsewhere in its pool.
        let word = self.word(unit);
        let size = Size::of_pool(number);
        let within = (offset % GROUP_BYTES as u64) as usize;
        let (at, place) = (word.at(), within / size.bytes());
        let is_block = word.pool() == Some(number)
            && within.is_multiple_of(size.bytes())
            && place < size.per_group()
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
        let (unit, is_empty) = (group.unit, usize::from(group.free) == Size::of_pool(number).per_group());
        if group.listed.is_none() {
            pool.open(at);
        }
        // An empty group stays as long as no other group of the pool has room.
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
            (blocks + of_pool, bytes + of_pool * Size::of_pool(number).bytes() as u64)
        })
    }

    /// RAM of the bookkeeping, about.
    pub(crate) fn ram_bytes(&self) -> usize {
        (0..self.pools.len())
            .map(|number| {
                let pool = self.pool(number);
                let bits = Size::of_pool(number).per_group().div_ceil(64) * 8;
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

    fn take(small: &Small, size: Size, next: &mut Vec<u32>) -> Option<u64> {
        let pool = Small::own_pool(size);
        small.take(pool).or_else(|| Some(small.add(pool, next.pop()?)))
    }

    proptest! {
        /// Blocks are aligned, disjoint and inside of their groups; what is freed is free, once; groups come and go.
        #[test]
        fn blocks_never_overlap(ops in proptest::collection::vec((0usize..=SMALL_BYTES_MAX, 0u32..13, any::<u16>()), 1..2000)) {
            let small = Small::new(u64::from(UNITS) * GROUP_PAGES);
            let mut next: Vec<u32> = (0..UNITS).collect();
            let mut held: BTreeMap<u64, u64> = BTreeMap::new();
            for (bytes, align, pick) in ops {
                let Some(size) = Size::of(bytes, 1 << align) else {
                    prop_assert!(align > 4 && bytes > OS_PAGE_BYTES);
                    continue;
                };
                if pick % 5 > 1 {
                    let Some(offset) = take(&small, size, &mut next) else { continue };
                    let len = size.bytes() as u64;
                    prop_assert!(len >= bytes as u64 && offset.is_multiple_of(1 << align));
                    prop_assert_eq!(small.size_at(offset + len - 1), Some(size));
                    if let Some((before, len)) = held.range(..offset + len).next_back() {
                        prop_assert!(before + len <= offset);
                    }
                    held.insert(offset, len);
                } else if let Some((&offset, _)) = held.range(u64::from(pick) * 64..).next() {
                    prop_assert!(small.is_block(offset) && !small.is_block(offset + 1));
                    held.remove(&offset);
                    if let Some(Freed::Group(unit)) = small.free(offset) {
                        prop_assert_eq!(held.range(u64::from(unit) << 16..u64::from(unit + 1) << 16).count(), 0);
                        prop_assert_eq!(small.size_at(u64::from(unit) << 16), None);
                        next.push(unit);
                    }
                    prop_assert_eq!(small.free(offset), None, "freed twice");
                }
                prop_assert_eq!(small.usage(), (held.len() as u64, held.values().sum()));
            }
        }
    }

    /// What blocks of a size are given beside their bytes, and what of a group is left.
    #[test]
    fn little_is_wasted() {
        for bytes in 128..=SMALL_BYTES_MAX {
            let size = Size::of(bytes, 16).expect("it is small");
            let of_pages = GROUP_BYTES as f64 / (size.per_group() * bytes) as f64;
            assert!(
                of_pages < 1.35 && size.bytes().is_multiple_of(16),
                "{bytes} bytes: {of_pages} of memory"
            );
        }
        assert_eq!(
            (Size::of(4368, 16).map(Size::per_group), Size::of(SMALL_BYTES_MAX + 1, 16)),
            (Some(15), None)
        );
    }

    #[test]
    fn threads_have_groups_of_their_own_and_free_those_of_others() {
        let small = Small::new(u64::from(UNITS) * GROUP_PAGES);
        let next = Mutex::new((0..UNITS).collect::<Vec<_>>());
        let size = Size::of(48, 16).unwrap();
        let blocks = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..3000 {
                        let mut own: Vec<u64> = Vec::new();
                        if let Some(offset) = take(&small, size, &mut next.lock().unwrap()) {
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
