//! Memory for arrays of extents: frames, each divided into blocks of one class.
//!
//! It is never given back while the map lives, so that a reader who races with a writer reads something else, never nothing. A frame
//! whose blocks are all free serves any class. The first block is that of every partition which is all zeros, and never changes.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aquifer_base::limits::LOG_GRAIN_BYTES;
use aquifer_sys::{Errno, Reservation};

use super::extents::Extents;
use super::source::{GRAINS, Source};

const FRAME_BYTES: usize = 16 << 10;
/// A log that is longer has long addresses.
const SHORT_LOG_BYTES: u64 = (LOG_GRAIN_BYTES as u64) << u32::BITS;
/// Blocks have room for a multiple of this many extents.
const STEP: usize = 4;
const CLASSES: usize = GRAINS / STEP;
const NIL: u32 = u32::MAX;

/// How extents lie in blocks.
#[derive(Clone, Copy)]
struct Layout {
    /// Bytes of an extent.
    extent_bytes: usize,
    /// Blocks begin at multiples of this. With as much address space as their numbers reach there is more than the extents of a short log
    /// take; of a long one they may be 128 GiB.
    unit_bytes: usize,
}

const SHORT: Layout = Layout { extent_bytes: 6, unit_bytes: 8 };
const LONG: Layout = Layout { extent_bytes: 7, unit_bytes: 32 };

impl Layout {
    const fn frame_units(self) -> usize {
        FRAME_BYTES / self.unit_bytes
    }

    const fn units(self, class: u8) -> usize {
        ((class as usize + 1) * STEP * self.extent_bytes).div_ceil(self.unit_bytes)
    }

    /// Blocks of a frame.
    const fn blocks(self, class: u8) -> usize {
        self.frame_units() / self.units(class)
    }

    const fn is_long(self) -> bool {
        self.extent_bytes == LONG.extent_bytes
    }
}
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
    layout: Layout,
    memory: Reservation,
    frames: Mutex<Frames>,
}

impl Blocks {
    /// Nothing but [`ZEROS`], for addresses in a log of `log_bytes`; others take RAM when they are used.
    pub(super) fn new(log_bytes: u64) -> Result<Self, Errno> {
        let layout = if log_bytes > SHORT_LOG_BYTES { LONG } else { SHORT };
        let open = (0..CLASSES).map(|_| Vec::new()).collect();
        let frames = Frames { frames: Vec::new(), open, empty: Vec::new() };
        let memory = Reservation::new(layout.unit_bytes << u32::BITS, 64)?;
        let blocks = Self { layout, memory, frames: Mutex::new(frames) };
        let zeros = blocks.allocate(1);
        assert_eq!(zeros, ZEROS);
        // It starts at grain 0, as zeroed memory says.
        blocks.extents(zeros, 1).set(0, (0, Source::Zeros.word()));
        Ok(blocks)
    }

    fn frames(&self) -> MutexGuard<'_, Frames> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that were ever used.
    pub(super) fn ram_bytes(&self) -> usize {
        self.frames().frames.len() * (FRAME_BYTES + size_of::<Frame>())
    }

    /// Bytes of frames that can still be begun.
    pub(super) fn room_bytes(&self) -> usize {
        self.memory.len() - self.frames().frames.len() * FRAME_BYTES
    }

    /// A block with room for `extents`.
    pub(super) fn allocate(&self, extents: usize) -> Block {
        let (class, layout) = (class_for(extents), self.layout);
        let mut frames = self.frames();
        let number = match frames.open[usize::from(class)].last() {
            Some(&number) => number,
            None => frames.begin(class),
        };
        let frame = &mut frames.frames[number as usize];
        let block = if frame.free == NIL {
            let unit =
                number as usize * layout.frame_units() + usize::from(frame.fresh) * layout.units(class);
            frame.fresh += 1;
            Block { unit: u32::try_from(unit).expect("room was asked for"), class }
        } else {
            let block = Block { unit: frame.free, class };
            frame.free = self.next(block).load(Ordering::Relaxed);
            block
        };
        frame.used += 1;
        if usize::from(frame.used) == layout.blocks(class) {
            frames.close(number, class);
        }
        block
    }

    pub(super) fn free(&self, block: Block) {
        let (mut frames, number) = (self.frames(), block.unit as usize / self.layout.frame_units());
        let frame = &mut frames.frames[number];
        let was_full = usize::from(frame.used) == self.layout.blocks(block.class);
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

    /// The first `len` extents of a block, or as many as it has room for.
    #[inline]
    pub(super) fn extents(&self, block: Block, len: usize) -> Extents<'_> {
        let (offset, capacity) = (block.unit as usize * self.layout.unit_bytes, block.capacity());
        debug_assert!(offset + capacity * self.layout.extent_bytes <= self.memory.len());
        let len = len.min(capacity);
        let highs = if self.layout.is_long() { len } else { 0 };
        // SAFETY: in bounds, as every block is that was given out, aligned to 8, zeroed at first, and only used as atomics. A block that was of another class when a racing
        // reader looked may mix sizes, which the hardware defines; what is read then is thrown away.
        unsafe {
            let start = self.memory.base().add(offset);
            let addresses = std::slice::from_raw_parts(start.cast::<AtomicU32>(), len);
            let starts = std::slice::from_raw_parts(start.add(capacity * 4).cast::<AtomicU16>(), len);
            let highs = std::slice::from_raw_parts(start.add(capacity * 6).cast::<AtomicU8>(), highs);
            Extents { starts, addresses, highs }
        }
    }

    /// The word in which a free block names the next one.
    fn next(&self, block: Block) -> &AtomicU32 {
        &self.extents(block, 1).addresses[0]
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

    /// The shortest long log.
    const LONG_LOG_BYTES: u64 = SHORT_LOG_BYTES + 1;

    /// What an extent of a block has that was filled with `mark`.
    fn marked(blocks: &Blocks, mark: u16) -> (u16, u64) {
        let high = if blocks.layout.is_long() { u64::from(mark % 251) << 32 } else { 0 };
        (mark, u64::from(mark) | high)
    }

    fn fill(blocks: &Blocks, block: Block, mark: u16) {
        let extents = blocks.extents(block, usize::MAX);
        assert_eq!((extents.len(), extents.addresses.len()), (block.capacity(), block.capacity()));
        (0..extents.len()).for_each(|index| extents.set(index, marked(blocks, mark)));
    }

    fn check(blocks: &Blocks, block: Block, mark: u16) {
        let extents = blocks.extents(block, usize::MAX);
        for index in 0..extents.len() {
            let found = (extents.start(index) as u16, extents.word(index));
            assert_eq!(found, marked(blocks, mark), "{block:?}");
        }
    }

    #[test]
    fn blocks_do_not_overlap() {
        [SHORT_LOG_BYTES, LONG_LOG_BYTES].into_iter().for_each(blocks_of_a_log_do_not_overlap);
    }

    fn blocks_of_a_log_do_not_overlap(log_bytes: u64) {
        let blocks = Blocks::new(log_bytes).expect("address space");
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
        let blocks = Blocks::new(LONG_LOG_BYTES).expect("address space");
        let mut used = 0;
        for extents in [4, 40, 400, 1024] {
            let count = (1 << 20) / (extents * LONG.extent_bytes);
            let taken: Vec<_> = (0..count).map(|_| blocks.allocate(extents)).collect();
            used = used.max(blocks.ram_bytes());
            taken.into_iter().for_each(|block| blocks.free(block));
        }
        assert!(used < (3 << 20) / 2, "{used} bytes for a mebibyte at a time");
    }
}
