//! Memory for arrays of extents.
//!
//! It is never given back while the map lives, so that a reader who races with a writer reads something else, never nothing.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicUsize, Ordering};

use aquifer_sys::{Errno, Reservation, SpinLock};

use super::source::GRAINS;

/// Bytes of an extent.
pub(super) const EXTENT_BYTES: usize = 6;
/// Blocks begin at multiples of this.
const UNIT_BYTES: usize = 8;
/// Blocks have room for a multiple of this many extents.
const STEP: usize = 4;
const CLASSES: usize = (GRAINS + 1).div_ceil(STEP);
const NIL: u32 = u32::MAX;
/// Address space for blocks: as much as their numbers reach, and more than the extents of a log that its addresses reach.
const RESERVED_BYTES: usize = UNIT_BYTES * (NIL as usize - 1);

/// A block: its number of units from the start, and its class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Block {
    pub(super) unit: u32,
    pub(super) class: u8,
}

impl Block {
    /// Room for how many extents.
    pub(super) const fn capacity(self) -> usize {
        (self.class as usize + 1) * STEP
    }
}

/// The smallest class with room for `extents`.
pub(super) const fn class_for(extents: usize) -> u8 {
    (extents.div_ceil(STEP).saturating_sub(1)) as u8
}

const fn units(class: u8) -> usize {
    ((class as usize + 1) * STEP * EXTENT_BYTES).div_ceil(UNIT_BYTES)
}

/// Reserved memory divided into blocks, those that are free in a list for each class.
pub(super) struct Blocks {
    memory: Reservation,
    fresh: AtomicUsize,
    free: Box<[SpinLock<u32>]>,
}

impl Blocks {
    /// No blocks; they take RAM when they are used.
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(Self {
            memory: Reservation::new(RESERVED_BYTES, 64)?,
            fresh: AtomicUsize::new(0),
            free: (0..CLASSES).map(|_| SpinLock::new(NIL)).collect(),
        })
    }

    /// Bytes that were ever used.
    pub(super) fn ram_bytes(&self) -> usize {
        self.fresh.load(Ordering::Relaxed) * UNIT_BYTES
    }

    /// A block with room for `extents`.
    pub(super) fn allocate(&self, extents: usize) -> Block {
        let class = class_for(extents);
        let mut first = self.free[usize::from(class)].lock();
        if *first != NIL {
            let block = Block { unit: *first, class };
            *first = self.next(block).load(Ordering::Relaxed);
            return block;
        }
        drop(first);
        let unit = self.fresh.fetch_add(units(class), Ordering::Relaxed);
        assert!((unit + units(class)) * UNIT_BYTES <= self.memory.len(), "more extents than a log can have");
        Block { unit: unit as u32, class }
    }

    pub(super) fn free(&self, block: Block) {
        let mut first = self.free[usize::from(block.class)].lock();
        self.next(block).store(*first, Ordering::Relaxed);
        *first = block.unit;
    }

    /// Starts and addresses of the first `len` extents of a block, or as many as it has room for.
    #[inline]
    pub(super) fn extents(&self, block: Block, len: usize) -> (&[AtomicU16], &[AtomicU32]) {
        let (offset, capacity) = (block.unit as usize * UNIT_BYTES, block.capacity());
        assert!(offset + capacity * EXTENT_BYTES <= self.memory.len());
        let len = len.min(capacity);
        // SAFETY: in bounds, aligned to 8, zeroed at first, and only used as atomics. A block that was of another class when a racing
        // reader looked may mix sizes, which the hardware defines; what is read then is thrown away.
        unsafe {
            let start = self.memory.base().add(offset);
            let addresses = std::slice::from_raw_parts(start.cast::<AtomicU32>(), len);
            let starts = std::slice::from_raw_parts(start.add(capacity * 4).cast::<AtomicU16>(), len);
            (starts, addresses)
        }
    }

    /// The word in which a free block names the next one.
    fn next(&self, block: Block) -> &AtomicU32 {
        &self.extents(block, 1).1[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_do_not_overlap_and_are_used_again() {
        let blocks = Blocks::new().expect("address space");
        let taken: Vec<_> = [1, 4, 5, 64, 1024].map(|n| blocks.allocate(n)).into();
        for (n, &block) in taken.iter().enumerate() {
            let (starts, addresses) = blocks.extents(block, block.capacity());
            starts.iter().for_each(|start| start.store(n as u16, Ordering::Relaxed));
            addresses.iter().for_each(|address| address.store(n as u32, Ordering::Relaxed));
        }
        for (n, &block) in taken.iter().enumerate() {
            let (starts, addresses) = blocks.extents(block, usize::MAX);
            assert_eq!((starts.len(), addresses.len()), (block.capacity(), block.capacity()));
            assert!(starts.iter().all(|start| start.load(Ordering::Relaxed) == n as u16));
            assert!(addresses.iter().all(|address| address.load(Ordering::Relaxed) == n as u32));
        }
        let used = blocks.ram_bytes();
        blocks.free(taken[3]);
        assert_eq!(blocks.allocate(61), taken[3]);
        assert_eq!(blocks.ram_bytes(), used);
    }
}
