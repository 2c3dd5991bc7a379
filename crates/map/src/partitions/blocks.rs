//! Memory for arrays of extents: frames, each divided into blocks of one class.
//!
//! It is never given back while the map lives, so that a reader who races with a writer reads something else, never nothing. A frame
//! whose blocks are all free serves any class. The first block is that of every partition which is all zeros, and never changes.

use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aquifer_sys::{Errno, Reservation};

use super::source::{GRAINS, Source};

/// Bytes of an extent.
const EXTENT_BYTES: usize = 6;
/// Blocks begin at multiples of this.
const UNIT_BYTES: usize = 8;
const FRAME_BYTES: usize = 16 << 10;
const FRAME_UNITS: usize = FRAME_BYTES / UNIT_BYTES;
/// Blocks have room for a multiple of this many extents.
const STEP: usize = 4;
const CLASSES: usize = GRAINS / STEP;
const NIL: u32 = u32::MAX;
/// Address space for blocks: as much as their numbers reach, and more than the extents of a log that its addresses reach.
const RESERVED_BYTES: usize = UNIT_BYTES << 32;

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

    const fn frame(self) -> usize {
        self.unit as usize / FRAME_UNITS
    }
}

/// The block of partitions that are all zeros.
pub(super) const ZEROS: Block = Block { unit: 0, class: 0 };

/// Whether a block that is in use is that of many partitions.
#[inline]
pub(super) const fn is_shared(block: Block) -> bool {
    block.unit == ZEROS.unit
}

/// The smallest class with room for `extents`.
pub(super) const fn class_for(extents: usize) -> u8 {
    (extents.div_ceil(STEP).saturating_sub(1)) as u8
}

const fn units(class: u8) -> usize {
    ((class as usize + 1) * STEP * EXTENT_BYTES).div_ceil(UNIT_BYTES)
}

/// A frame with blocks in use.
#[derive(Clone, Copy)]
struct Frame {
    used: u16,
    /// Blocks that were ever given out.
    fresh: u16,
    /// The first of those that came back, as a unit; each names the next one.
    free: u32,
    /// Its place in the list of its class, if it has a free block.
    place: u32,
}

struct Frames {
    frames: Vec<Frame>,
    /// Frames of each class that have a free block.
    open: Box<[Vec<u32>]>,
    /// Frames without blocks in use.
    empty: Vec<u32>,
}

/// Reserved memory in frames.
pub(super) struct Blocks {
    memory: Reservation,
    frames: Mutex<Frames>,
}

impl Blocks {
    /// Nothing but [`ZEROS`]; others take RAM when they are used.
    pub(super) fn new() -> Result<Self, Errno> {
        let open = (0..CLASSES).map(|_| Vec::new()).collect();
        let frames = Frames { frames: Vec::new(), open, empty: Vec::new() };
        let blocks = Self { memory: Reservation::new(RESERVED_BYTES, 64)?, frames: Mutex::new(frames) };
        let zeros = blocks.allocate(1);
        assert_eq!(zeros, ZEROS);
        // It starts at grain 0, as zeroed memory says.
        blocks.extents(zeros, 1).1[0].store(Source::Zeros.word(), Ordering::Relaxed);
        Ok(blocks)
    }

    fn frames(&self) -> MutexGuard<'_, Frames> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that were ever used.
    pub(super) fn ram_bytes(&self) -> usize {
        self.frames().frames.len() * (FRAME_BYTES + size_of::<Frame>())
    }

    /// A block with room for `extents`.
    pub(super) fn allocate(&self, extents: usize) -> Block {
        let class = class_for(extents);
        let mut frames = self.frames();
        let number = match frames.open[usize::from(class)].last() {
            Some(&number) => number,
            None => frames.begin(class),
        };
        let frame = &mut frames.frames[number as usize];
        let block = if frame.free == NIL {
            let unit = number as usize * FRAME_UNITS + usize::from(frame.fresh) * units(class);
            frame.fresh += 1;
            Block { unit: u32::try_from(unit).expect("no log has more extents"), class }
        } else {
            let block = Block { unit: frame.free, class };
            frame.free = self.next(block).load(Ordering::Relaxed);
            block
        };
        frame.used += 1;
        if usize::from(frame.used) == FRAME_UNITS / units(class) {
            frames.close(number, class);
        }
        block
    }

    pub(super) fn free(&self, block: Block) {
        let (mut frames, number) = (self.frames(), block.frame());
        let frame = &mut frames.frames[number];
        let was_full = usize::from(frame.used) == FRAME_UNITS / units(block.class);
        self.next(block).store(frame.free, Ordering::Relaxed);
        frame.free = block.unit;
        frame.used -= 1;
        let is_empty = frame.used == 0;
        if was_full {
            frames.open(number as u32, block.class);
        }
        if is_empty {
            frames.close(number as u32, block.class);
            frames.empty.push(number as u32);
        }
    }

    /// Starts and addresses of the first `len` extents of a block, or as many as it has room for.
    #[inline]
    pub(super) fn extents(&self, block: Block, len: usize) -> (&[AtomicU16], &[AtomicU32]) {
        let (offset, capacity) = (block.unit as usize * UNIT_BYTES, block.capacity());
        debug_assert!(offset + capacity * EXTENT_BYTES <= self.memory.len());
        let len = len.min(capacity);
        // SAFETY: in bounds, as every block is that was given out, aligned to 8, zeroed at first, and only used as atomics. A block that was of another class when a racing
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

impl Frames {
    /// A frame for blocks of a class, all of them free.
    fn begin(&mut self, class: u8) -> u32 {
        let fresh = Frame { used: 0, fresh: 0, free: NIL, place: NIL };
        let number = self.empty.pop().unwrap_or_else(|| {
            self.frames.push(fresh);
            self.frames.len() as u32 - 1
        });
        self.frames[number as usize] = fresh;
        self.open(number, class);
        number
    }

    /// Adds a frame to those with a free block.
    fn open(&mut self, number: u32, class: u8) {
        let open = &mut self.open[usize::from(class)];
        self.frames[number as usize].place = open.len() as u32;
        open.push(number);
    }

    /// Takes it away from them.
    fn close(&mut self, number: u32, class: u8) {
        let open = &mut self.open[usize::from(class)];
        let place = self.frames[number as usize].place;
        open.swap_remove(place as usize);
        if let Some(&moved) = open.get(place as usize) {
            self.frames[moved as usize].place = place;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(blocks: &Blocks, block: Block, mark: u16) {
        let (starts, addresses) = blocks.extents(block, usize::MAX);
        assert_eq!((starts.len(), addresses.len()), (block.capacity(), block.capacity()));
        starts.iter().for_each(|start| start.store(mark, Ordering::Relaxed));
        addresses.iter().for_each(|address| address.store(u32::from(mark), Ordering::Relaxed));
    }

    fn check(blocks: &Blocks, block: Block, mark: u16) {
        let (starts, addresses) = blocks.extents(block, usize::MAX);
        assert!(starts.iter().all(|start| start.load(Ordering::Relaxed) == mark), "{block:?}");
        assert!(addresses.iter().all(|address| address.load(Ordering::Relaxed) == u32::from(mark)));
    }

    #[test]
    fn blocks_do_not_overlap() {
        let blocks = Blocks::new().expect("address space");
        let (mut taken, mut random) = (Vec::new(), 1u64);
        for mark in 0..20_000u16 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let extents = 1 + (random >> 33) as usize % if random >> 60 == 0 { GRAINS } else { 60 };
            let block = blocks.allocate(extents);
            assert!(block.capacity() >= extents);
            fill(&blocks, block, mark);
            taken.push((block, mark));
            if random >> 62 > 0 || taken.len() > 500 {
                let (block, mark) = taken.swap_remove((random >> 20) as usize % taken.len());
                check(&blocks, block, mark);
                blocks.free(block);
            }
        }
        taken.iter().for_each(|&(block, mark)| check(&blocks, block, mark));
    }

    #[test]
    fn empty_frames_serve_any_class() {
        let blocks = Blocks::new().expect("address space");
        let mut used = 0;
        for extents in [4, 40, 400, 1024] {
            let count = (1 << 20) / (extents * EXTENT_BYTES);
            let taken: Vec<_> = (0..count).map(|_| blocks.allocate(extents)).collect();
            used = used.max(blocks.ram_bytes());
            taken.into_iter().for_each(|block| blocks.free(block));
        }
        assert!(used < (3 << 20) / 2, "{used} bytes for a mebibyte at a time");
    }
}
