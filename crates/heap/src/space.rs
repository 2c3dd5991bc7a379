//! Blocks of whole pages in a space: a coalescing allocator whose bookkeeping stays outside of that space.

use std::collections::BTreeMap;

use aquifer_base::limits::OS_PAGE_BYTES;

use crate::runs::Runs;

const PAGE: u64 = OS_PAGE_BYTES as u64;

/// What some pages are used for.
#[derive(Clone, Copy)]
enum Use {
    Block,
    /// As a block, but of no use to who looks for blocks: it may hold blocks of others.
    Mapping,
    /// Small blocks, whose books are others.
    Group,
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
    blocks: u64,
    block_bytes: u64,
}

impl Space {
    /// A space of `pages`, all free.
    pub fn new(pages: u64) -> Self {
        Self { runs: Runs::new(pages), pages, taken: BTreeMap::new(), blocks: 0, block_bytes: 0 }
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
        self.runs.ram_bytes() + self.taken.len() * 2 * (size_of::<Taken>() + 8)
    }

    /// Where `pages` begin of which no block is known, at a multiple of `align` pages: parts of them are given back by [`Space::cut`].
    pub fn allocate_mapping(&mut self, pages: u64, align: u64) -> Option<u64> {
        let placed = self.take_run(pages, align, Use::Mapping)?;
        self.block_bytes += pages * PAGE;
        self.blocks += 1;
        Some(placed)
    }

    /// Takes the first free pages between two as a mapping: first page and count; `None` if none of them is free.
    pub fn claim(&mut self, from: u64, end: u64) -> Option<(u64, u64)> {
        let (first, pages) = self.runs.next_free(from, end)?;
        self.runs.take(first, pages);
        self.taken.insert(first, Taken { pages, usage: Use::Mapping });
        self.block_bytes += pages * PAGE;
        self.blocks += 1;
        Some((first, pages))
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

    /// Where a block of at least `bytes` begins, at a multiple of `align` bytes, a power of two; `None` if no run is long enough.
    pub fn allocate(&mut self, bytes: usize, align: usize) -> Option<u64> {
        let pages = (bytes.max(1) as u64).div_ceil(PAGE);
        let placed = self.take_run(pages, (align as u64 / PAGE).max(1), Use::Block)?;
        self.block_bytes += pages * PAGE;
        self.blocks += 1;
        Some(placed)
    }

    /// `pages` for small blocks, at a multiple of as many. They count as no block, and go by [`Space::free_group`].
    pub(crate) fn allocate_group(&mut self, pages: u64) -> Option<u64> {
        Some(self.take_run(pages, pages, Use::Group)? / PAGE)
    }

    /// The group that begins at page `first` has no blocks any more; its pages are to be emptied and recycled.
    pub(crate) fn free_group(&mut self, first: u64) {
        self.taken.remove(&first);
    }

    fn take_run(&mut self, pages: u64, align: u64, usage: Use) -> Option<u64> {
        let first = self.runs.allocate(pages, align)?;
        self.taken.insert(first, Taken { pages, usage });
        Some(first * PAGE)
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
            Use::Mapping | Use::Group => None,
            Use::Block => (offset == first * PAGE).then_some((taken.pages * PAGE) as usize),
        }
    }

    /// Frees the block that begins at `offset`. Returns the pages that are not taken any more; `None`
    /// if no block begins there.
    pub fn free(&mut self, offset: u64) -> Option<(u64, u64)> {
        let usable = self.usable_bytes(offset)?;
        self.blocks -= 1;
        self.block_bytes -= usable as u64;
        let first = offset / PAGE;
        self.taken.remove(&first);
        Some((first, usable as u64 / PAGE))
    }

    /// Lets pages be taken again that [`Space::free`] or [`Space::cut`] returned, after their bytes are gone.
    pub fn recycle(&mut self, first: u64, pages: u64) {
        if pages > 0 {
            self.runs.free(first, pages);
        }
    }

    /// Makes a block of pages longer or shorter in place. Returns the pages that it gained or lost; `None` if it cannot.
    pub fn resize(&mut self, offset: u64, bytes: usize) -> Option<Resized> {
        let (first, taken) = self.taken_at(offset / PAGE)?;
        let pages = (bytes as u64).div_ceil(PAGE);
        if matches!(taken.usage, Use::Group) || offset != first * PAGE || bytes <= OS_PAGE_BYTES {
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
        if matches!(taken.usage, Use::Group) {
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
                let (bytes, align) = (usize::from(size) * if pick % 7 == 0 { 3 } else { 1 }, 1usize << align);
                if pick % 3 > 0 {
                    let Some(offset) = space.allocate(bytes, align) else { continue };
                    let usable = space.usable_bytes(offset).unwrap() as u64;
                    prop_assert!(usable >= bytes as u64 && offset % align as u64 == 0);
                    prop_assert!(offset + usable <= PAGES * PAGE);
                    if let Some((before, len)) = held.range(..offset + usable).next_back() {
                        prop_assert!(before + len <= offset);
                    }
                    held.insert(offset, usable);
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
    fn absurd_sizes_are_refused() {
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
        assert_eq!((block, space.cut(3, 4)), (0, Some(4)));
        space.recycle(3, 4);
        assert_eq!((space.blocks(), space.block_bytes()), (2, 6 * PAGE));
        assert_eq!(space.usable_bytes(0), Some(3 * OS_PAGE_BYTES));
        assert_eq!(space.usable_bytes(7 * PAGE), Some(3 * OS_PAGE_BYTES));
        assert_eq!(space.cut(8, 100), Some(2));
        assert_eq!(space.cut(50, 1), None);
        let mapping = space.allocate_mapping(5, 1).unwrap();
        assert_eq!(
            (space.mapping_bytes(mapping), space.usable_bytes(mapping)),
            (Some(5 * OS_PAGE_BYTES), None)
        );
        assert!(
            space.is_mapping(mapping + 4 * PAGE) && !space.is_mapping(0) && space.free(mapping).is_none()
        );
        assert_eq!(space.cut(mapping / PAGE, 5), Some(5));
    }

    #[test]
    fn free_pages_can_be_claimed() {
        let mut space = Space::new(100);
        let block = space.allocate(10 * OS_PAGE_BYTES, 1).unwrap();
        assert_eq!((block, space.claim(5, 20), space.claim(5, 20)), (0, Some((10, 10)), None));
        assert!(space.is_mapping(15 * PAGE) && !space.is_mapping(5 * PAGE));
        assert_eq!((space.blocks(), space.block_bytes()), (2, 20 * PAGE));
        assert_eq!(space.allocate(80 * OS_PAGE_BYTES, 1), Some(20 * PAGE));
    }
}
