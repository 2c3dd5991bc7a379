//! Blocks of any size in a space of pages: a coalescing allocator whose bookkeeping stays outside of that space.
//!
//! Blocks of more than an OS page are runs of pages. Smaller ones share groups of pages with others of their size class
//! (segregated fits; Wilson et al., "Dynamic Storage Allocation: A Survey", 1995).

use std::collections::{BTreeMap, HashMap};

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_cache::Class;

use crate::pool::{Freed, Pool};
use crate::runs::Runs;

const PAGE: u64 = OS_PAGE_BYTES as u64;
/// Bytes of a group of small blocks, unless 512 of them are less.
const GROUP_BYTES: usize = 64 << 10;

/// What some pages are used for.
#[derive(Clone, Copy)]
enum Use {
    Block,
    /// As a block, but of no use to who looks for blocks: it may hold blocks of others.
    Mapping,
    Group(Class),
}

#[derive(Clone, Copy)]
struct Taken {
    pages: u64,
    usage: Use,
}

/// Blocks of one space. Offsets are bytes from its start.
pub struct Space {
    runs: Runs,
    pages: u64,
    taken: BTreeMap<u64, Taken>,
    pools: HashMap<u8, Pool>,
    blocks: u64,
    block_bytes: u64,
}

/// A new block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// Where it begins.
    pub offset: u64,
    /// Its pages are newly taken: first page and count. They read as zeros if they did when they were freed.
    pub fresh: Option<(u64, u64)>,
}

fn places_of(class: Class) -> usize {
    (GROUP_BYTES / class.slot_bytes()).min(512)
}

fn group_pages(class: Class) -> u64 {
    (places_of(class) * class.slot_bytes()).div_ceil(OS_PAGE_BYTES) as u64
}

impl Space {
    /// A space of `pages`, all free.
    pub fn new(pages: u64) -> Self {
        Self {
            runs: Runs::new(pages),
            pages,
            taken: BTreeMap::new(),
            pools: HashMap::new(),
            blocks: 0,
            block_bytes: 0,
        }
    }

    /// Blocks in use.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Their bytes, rounded up.
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// RAM of the bookkeeping, about.
    pub fn ram_bytes(&self) -> usize {
        self.runs.ram_bytes()
            + self.taken.len() * 2 * (size_of::<Taken>() + 8)
            + self.pools.values().map(Pool::ram_bytes).sum::<usize>()
    }

    /// How many pages a block of `bytes` at a multiple of `align` bytes would newly take.
    pub fn pages_needed(&self, bytes: usize, align: usize) -> u64 {
        match small_class(bytes, align) {
            None => (bytes.max(1) as u64).div_ceil(PAGE),
            Some(class) if self.pools.get(&(class.index() as u8)).is_some_and(Pool::has_room) => 0,
            Some(class) => group_pages(class),
        }
    }

    /// `pages` of which no block is known: parts of them are given back by [`Space::cut`].
    pub fn allocate_mapping(&mut self, pages: u64) -> Option<Placed> {
        let first = self.runs.allocate(pages, 1)?;
        self.taken.insert(first, Taken { pages, usage: Use::Mapping });
        self.block_bytes += pages * PAGE;
        self.blocks += 1;
        Some(Placed { offset: first * PAGE, fresh: Some((first, pages)) })
    }

    /// Bytes of the mapping that begins at `offset`.
    pub fn mapping_bytes(&self, offset: u64) -> Option<usize> {
        let (first, taken) = self.taken_at(offset / PAGE)?;
        let is_start = offset == first * PAGE && matches!(taken.usage, Use::Mapping);
        is_start.then_some((taken.pages * PAGE) as usize)
    }

    /// Whether `offset` is in a mapping.
    pub fn is_mapping(&self, offset: u64) -> bool {
        self.taken_at(offset / PAGE).is_some_and(|(_, taken)| matches!(taken.usage, Use::Mapping))
    }

    /// A block of at least `bytes` at a multiple of `align` bytes, a power of two; `None` if no run is long enough.
    pub fn allocate(&mut self, bytes: usize, align: usize) -> Option<Placed> {
        let placed = match small_class(bytes, align) {
            Some(class) => self.allocate_small(class)?,
            None => {
                let pages = (bytes.max(1) as u64).div_ceil(PAGE);
                let first = self.runs.allocate(pages, (align as u64 / PAGE).max(1))?;
                self.taken.insert(first, Taken { pages, usage: Use::Block });
                self.block_bytes += pages * PAGE;
                Placed { offset: first * PAGE, fresh: Some((first, pages)) }
            }
        };
        self.blocks += 1;
        Some(placed)
    }

    fn allocate_small(&mut self, class: Class) -> Option<Placed> {
        let pool = self.pools.entry(class.index() as u8).or_insert_with(|| Pool::new(places_of(class)));
        let (place, fresh) = match pool.take() {
            Some(place) => (place, None),
            None => {
                let pages = group_pages(class);
                let first = self.runs.allocate(pages, 1)?;
                self.taken.insert(first, Taken { pages, usage: Use::Group(class) });
                pool.add_group(u32::try_from(first).ok()?);
                (pool.take().expect("an empty group has room"), Some((first, pages)))
            }
        };
        self.block_bytes += class.slot_bytes() as u64;
        let offset = u64::from(place.0) * PAGE + (place.1 * class.slot_bytes()) as u64;
        Some(Placed { offset, fresh })
    }

    /// The run or group that a page belongs to.
    fn taken_at(&self, page: u64) -> Option<(u64, Taken)> {
        let (&first, &taken) = self.taken.range(..=page).next_back()?;
        (page < first + taken.pages).then_some((first, taken))
    }

    /// Bytes that may be used at the block that begins at `offset`; `None` if none does.
    pub fn usable_bytes(&self, offset: u64) -> Option<usize> {
        let (first, taken) = self.taken_at(offset / PAGE)?;
        match taken.usage {
            Use::Mapping => None,
            Use::Block => (offset == first * PAGE).then_some((taken.pages * PAGE) as usize),
            Use::Group(class) => {
                let at = (offset - first * PAGE) as usize;
                let is_start = at.is_multiple_of(class.slot_bytes());
                let pool = &self.pools[&(class.index() as u8)];
                (is_start && pool.is_taken(first as u32, at / class.slot_bytes()))
                    .then_some(class.slot_bytes())
            }
        }
    }

    /// Frees the block that begins at `offset`. Returns the pages that are not taken any more, or an empty range; `None`
    /// if no block begins there.
    pub fn free(&mut self, offset: u64) -> Option<(u64, u64)> {
        let usable = self.usable_bytes(offset)?;
        let (first, taken) = self.taken_at(offset / PAGE)?;
        self.blocks -= 1;
        self.block_bytes -= usable as u64;
        if let Use::Group(class) = taken.usage {
            let number = (offset - first * PAGE) as usize / class.slot_bytes();
            let pool = self.pools.get_mut(&(class.index() as u8)).expect("its blocks are in the pool");
            if pool.free(first as u32, number) == Freed::Kept {
                return Some((first, 0));
            }
        }
        self.taken.remove(&first);
        Some((first, taken.pages))
    }

    /// Lets pages be taken again that [`Space::free`] or [`Space::cut`] returned, after their bytes are gone.
    pub fn recycle(&mut self, first: u64, pages: u64) {
        if pages > 0 {
            self.runs.free(first, pages);
        }
    }

    /// Makes a block of pages longer or shorter in place. Returns the pages that it gained or lost; `None` if it cannot, or
    /// is small.
    pub fn resize(&mut self, offset: u64, bytes: usize) -> Option<Resized> {
        let (first, taken) = self.taken_at(offset / PAGE)?;
        let pages = (bytes as u64).div_ceil(PAGE);
        if matches!(taken.usage, Use::Group(_)) || offset != first * PAGE || bytes <= OS_PAGE_BYTES {
            return None;
        }
        let resized = if pages > taken.pages {
            let more = (first + taken.pages, pages - taken.pages);
            if !self.runs.take(more.0, more.1) {
                return None;
            }
            Resized::Gained(more.0, more.1)
        } else {
            Resized::Lost(first + pages, taken.pages - pages)
        };
        self.taken.insert(first, Taken { pages, ..taken });
        self.block_bytes = self.block_bytes + pages * PAGE - taken.pages * PAGE;
        Some(resized)
    }

    /// Takes pages out of the block of pages that they lie in, which leaves up to two blocks. Returns how many pages that
    /// were, at least 0: those up to the end of the block or `pages`.
    pub fn cut(&mut self, page: u64, pages: u64) -> Option<u64> {
        let (first, taken) = self.taken_at(page)?;
        if matches!(taken.usage, Use::Group(_)) {
            return None;
        }
        let end = first + taken.pages;
        let cut = pages.min(end - page);
        self.taken.remove(&first);
        self.blocks -= 1;
        for (start, len) in [(first, page - first), (page + cut, end - page - cut)] {
            if len > 0 {
                self.taken.insert(start, Taken { pages: len, usage: taken.usage });
                self.blocks += 1;
            }
        }
        self.block_bytes -= cut * PAGE;
        Some(cut)
    }

    /// Calls `visit` with first page and count of everything that is taken.
    pub fn for_each_taken(&self, visit: &mut dyn FnMut(u64, u64)) {
        self.runs.for_each_taken(self.pages, visit);
    }
}

/// What [`Space::resize`] did: first page and count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resized {
    /// Pages that are taken now.
    Gained(u64, u64),
    /// Pages to be emptied and recycled.
    Lost(u64, u64),
}

fn small_class(bytes: usize, align: usize) -> Option<Class> {
    if bytes.max(align) > OS_PAGE_BYTES {
        return None;
    }
    // Blocks of a class stand at multiples of its size, so a power of two is aligned to itself.
    let bytes = if align > 16 { bytes.max(align).next_power_of_two() } else { bytes };
    Class::for_bytes(bytes.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGES: u64 = 2000;

    proptest! {
        /// Blocks are aligned, disjoint and inside; in the end everything is free again.
        #[test]
        fn blocks_never_overlap(ops in proptest::collection::vec((any::<u16>(), 0u32..14, any::<u16>()), 1..300)) {
            let mut space = Space::new(PAGES);
            let mut held: BTreeMap<u64, u64> = BTreeMap::new();
            for (size, align, pick) in ops {
                let (bytes, align) = (usize::from(size) * if pick % 7 == 0 { 3 } else { 1 } / 8, 1usize << align);
                if pick % 3 > 0 {
                    let expected = space.pages_needed(bytes, align);
                    let Some(placed) = space.allocate(bytes, align) else { continue };
                    prop_assert_eq!(placed.fresh.map_or(0, |f| f.1), expected);
                    let usable = space.usable_bytes(placed.offset).unwrap() as u64;
                    prop_assert!(usable >= bytes as u64 && placed.offset % align as u64 == 0);
                    prop_assert!(placed.offset + usable <= PAGES * PAGE);
                    if let Some((before, len)) = held.range(..placed.offset + usable).next_back() {
                        prop_assert!(before + len <= placed.offset);
                    }
                    held.insert(placed.offset, usable);
                } else if let Some((&offset, &usable)) = held.range(u64::from(pick) * 100..).next() {
                    match space.resize(offset, usize::from(size) + 4097) {
                        Some(Resized::Lost(first, pages)) if pick % 2 == 0 => {
                            space.recycle(first, pages);
                            held.insert(offset, space.usable_bytes(offset).unwrap() as u64);
                        }
                        Some(resized) => {
                            if let Resized::Lost(first, pages) = resized {
                                space.recycle(first, pages);
                            }
                            let usable = space.usable_bytes(offset).unwrap() as u64;
                            if let Some((after, _)) = held.range(offset + 1..).next() {
                                prop_assert!(offset + usable <= *after);
                            }
                            held.insert(offset, usable);
                        }
                        None => {
                            prop_assert_eq!(space.usable_bytes(offset), Some(usable as usize));
                            let (first, pages) = space.free(offset).unwrap();
                            prop_assert_eq!(space.usable_bytes(offset), None);
                            space.recycle(first, pages);
                            held.remove(&offset);
                        }
                    }
                }
                prop_assert_eq!(space.blocks(), held.len() as u64);
                prop_assert_eq!(space.block_bytes(), held.values().sum::<u64>());
            }
            for offset in held.into_keys() {
                let (first, pages) = space.free(offset).unwrap();
                space.recycle(first, pages);
            }
            let mut taken = 0;
            space.for_each_taken(&mut |_, pages| taken += pages);
            prop_assert_eq!(taken, 0);
        }
    }

    #[test]
    fn absurd_sizes_are_no_small_blocks() {
        let mut space = Space::new(100);
        for (bytes, align) in [(usize::MAX - 10_000, 4096), (usize::MAX, 16), (1 << 63, 1 << 20)] {
            assert_eq!(space.allocate(bytes, align), None, "{bytes} at {align}");
        }
        assert_eq!(space.blocks(), 0);
    }

    #[test]
    fn a_cut_leaves_both_ends() {
        let mut space = Space::new(100);
        let block = space.allocate(10 * OS_PAGE_BYTES, 1).unwrap();
        assert_eq!((block.offset, space.cut(3, 4)), (0, Some(4)));
        space.recycle(3, 4);
        assert_eq!((space.blocks(), space.block_bytes()), (2, 6 * PAGE));
        assert_eq!(space.usable_bytes(0), Some(3 * OS_PAGE_BYTES));
        assert_eq!(space.usable_bytes(7 * PAGE), Some(3 * OS_PAGE_BYTES));
        assert_eq!(space.cut(8, 100), Some(2));
        assert_eq!(space.cut(50, 1), None);
        let mapping = space.allocate_mapping(5).unwrap().offset;
        assert_eq!(
            (space.mapping_bytes(mapping), space.usable_bytes(mapping)),
            (Some(5 * OS_PAGE_BYTES), None)
        );
        assert!(
            space.is_mapping(mapping + 4 * PAGE) && !space.is_mapping(0) && space.free(mapping).is_none()
        );
        assert_eq!(space.cut(mapping / PAGE, 5), Some(5));
    }
}
