//! The address map of a durable heap: where the newest version of each byte of home space is in the log.
//!
//! Two layers (Hu et al., "Log-Structured Non-Volatile Main Memory", ATC 2017): an index of partitions that is looked up
//! in one step, and for each partition of 4 KiB an ordered set of extents. The word beside it is the partition's lock and its version at
//! once, so what guards the map guards transactions too: readers take no lock, but look at the version before and after.
//!
//! ```text
//! word:    63..16 version of the last commit | 15..1 moves | 0 locked
//! handle:  63..56 unused | 55..48 class of the block | 47..32 extents | 31..0 block
//! ```

mod blocks;
mod extents;

use std::sync::atomic::{AtomicU64, Ordering, fence};

use aquifer_base::PartitionId;
use aquifer_base::limits::{HOME_BITS, PARTITION_BYTES};
use aquifer_sys::{Errno, Reservation};

use blocks::{Block, Blocks};
use extents::Extents;
pub use extents::{GRAINS, Source};

const PARTITIONS: usize = (1 << HOME_BITS) / PARTITION_BYTES;
const LOCKED: u64 = 1;
const MOVE: u64 = 2;
const VERSION_SHIFT: u32 = 16;
/// Largest version.
pub const VERSION_MAX: u64 = u64::MAX >> VERSION_SHIFT;

/// What a partition's word says. It is another one after each change of the partition's extents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word(u64);

impl Word {
    /// Whether somebody commits to the partition now.
    pub const fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    /// Version of the last transaction that wrote to it; 0 if none did.
    pub const fn version(self) -> u64 {
        self.0 >> VERSION_SHIFT
    }
}

#[repr(C, align(16))]
struct Partition {
    word: AtomicU64,
    handle: AtomicU64,
}

/// The address map.
pub struct Partitions {
    index: Reservation,
    blocks: Blocks,
}

/// A run of bytes with one source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Where they are.
    pub source: Source,
    /// The grain of the partition where it ends.
    pub end: usize,
}

/// Room for the change of one partition at a time.
#[derive(Default)]
pub struct Scratch {
    extents: Extents,
}

fn unpack(handle: u64) -> (Block, usize) {
    let block = Block { unit: handle as u32, class: (handle >> 48) as u8 };
    (block, (handle >> 32 & 0xFFFF) as usize)
}

fn pack(block: Block, extents: usize) -> u64 {
    u64::from(block.unit) | (extents as u64) << 32 | u64::from(block.class) << 48
}

impl Partitions {
    /// An empty map.
    ///
    /// # Errors
    /// The kernel refused the address space.
    pub fn new() -> Result<Self, Errno> {
        let index = Reservation::new(PARTITIONS * size_of::<Partition>(), 4096)?;
        Ok(Self { index, blocks: Blocks::new()? })
    }

    /// RAM of the extents.
    pub fn ram_bytes(&self) -> usize {
        self.blocks.ram_bytes()
    }

    #[inline]
    fn at(&self, id: PartitionId) -> &Partition {
        assert!((id.0 as usize) < PARTITIONS);
        // SAFETY: in bounds, aligned, zeroed at first, and only used as atomics.
        unsafe { &*self.index.base().cast::<Partition>().add(id.0 as usize) }
    }

    /// The partition's word, before its extents are looked at.
    #[inline]
    pub fn word(&self, id: PartitionId) -> Word {
        Word(self.at(id).word.load(Ordering::Acquire))
    }

    /// Whether its word is still the same, after its extents and what they lead to were looked at.
    #[inline]
    pub fn is_unchanged(&self, id: PartitionId, before: Word) -> bool {
        fence(Ordering::Acquire);
        self.at(id).word.load(Ordering::Relaxed) == before.0
    }

    /// The run that has `grain`. Anything at all if the partition is locked by somebody else or has changed meanwhile.
    #[inline]
    pub fn find(&self, id: PartitionId, grain: usize) -> Run {
        let (block, len) = unpack(self.at(id).handle.load(Ordering::Acquire));
        let behind = self.count_up_to(block, len, grain);
        let end = if behind < len { self.start(block, behind) } else { GRAINS };
        let Some(index) = behind.checked_sub(1) else { return Run { source: Source::Hole, end } };
        let word = self.blocks.address(block, index).load(Ordering::Relaxed);
        let start = self.start(block, index);
        Run {
            source: Source::from_word(word).plus(grain.saturating_sub(start)),
            end: end.clamp(grain + 1, GRAINS),
        }
    }

    #[inline]
    fn start(&self, block: Block, index: usize) -> usize {
        usize::from(self.blocks.start(block, index).load(Ordering::Relaxed))
    }

    /// How many of the `len` extents begin at `grain` or before.
    #[inline]
    fn count_up_to(&self, block: Block, len: usize, grain: usize) -> usize {
        let (mut low, mut high) = (0, len.min(block.capacity()));
        while low < high {
            let middle = (low + high) / 2;
            if self.start(block, middle) <= grain { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Locks the partition if it is free; returns its word before.
    #[inline]
    pub fn try_lock(&self, id: PartitionId) -> Option<Word> {
        let word = &self.at(id).word;
        let before = word.load(Ordering::Relaxed);
        if before & LOCKED != 0 {
            return None;
        }
        word.compare_exchange(before, before | LOCKED, Ordering::Acquire, Ordering::Relaxed).ok()?;
        // Readers that see anything that is stored from here on see the lock too.
        fence(Ordering::Release);
        Some(Word(before))
    }

    /// Unlocks the partition, which the caller has locked, with a new version.
    #[inline]
    pub fn unlock(&self, id: PartitionId, version: u64) {
        debug_assert!(version <= VERSION_MAX);
        self.at(id).word.store(version << VERSION_SHIFT, Ordering::Release);
    }

    /// Unlocks the partition as it was: its word before, and none of its extents has changed.
    pub fn unlock_unchanged(&self, id: PartitionId, before: Word) {
        self.at(id).word.store(before.0, Ordering::Release);
    }

    /// Unlocks the partition, of which bytes were moved in the log that are the same as before: to transactions nothing has
    /// happened, but who reads just now must look again.
    pub fn unlock_moved(&self, id: PartitionId, before: Word) {
        let moves = before.0.wrapping_add(MOVE) & ((1 << VERSION_SHIFT) - 1);
        self.at(id).word.store(before.version() << VERSION_SHIFT | moves, Ordering::Release);
    }

    /// Points the grains from `start` to `end` of a partition that the caller has locked to `source`. `released` is told
    /// where their bytes in the log were before, and how many grains.
    #[inline]
    pub fn replace(
        &self,
        id: PartitionId,
        start: usize,
        end: usize,
        source: Source,
        scratch: &mut Scratch,
        released: &mut dyn FnMut(u32, usize),
    ) {
        debug_assert!(start < end && end <= GRAINS && self.word(id).is_locked());
        let handle = self.at(id).handle.load(Ordering::Relaxed);
        let (block, len) = unpack(handle);
        let behind = self.count_up_to(block, len, start);
        if let Some(index) = behind.checked_sub(1)
            && self.is_exactly(block, len, index, start, end)
            && !self.meets_neighbours(block, len, index, start, end, source)
        {
            let word = self.blocks.address(block, index);
            if let Source::Log(grain) = Source::from_word(word.load(Ordering::Relaxed)) {
                released(grain, end - start);
            }
            word.store(source.word(), Ordering::Relaxed);
            return;
        }
        self.rebuild(id, handle, (start, end), source, scratch, released);
    }

    fn is_exactly(&self, block: Block, len: usize, index: usize, start: usize, end: usize) -> bool {
        let until = if index + 1 < len { self.start(block, index + 1) } else { GRAINS };
        self.start(block, index) == start && until == end
    }

    /// Whether the extent at `index` would be one with a neighbour if its source were this one.
    fn meets_neighbours(
        &self,
        block: Block,
        len: usize,
        index: usize,
        start: usize,
        end: usize,
        source: Source,
    ) -> bool {
        let word = |index| Source::from_word(self.blocks.address(block, index).load(Ordering::Relaxed));
        let meets_before = match index.checked_sub(1) {
            Some(before) => word(before).plus(start - self.start(block, before)) == source,
            None => source == Source::Hole,
        };
        meets_before || (index + 1 < len && source.plus(end - start) == word(index + 1))
    }

    fn rebuild(
        &self,
        id: PartitionId,
        handle: u64,
        (start, end): (usize, usize),
        source: Source,
        scratch: &mut Scratch,
        released: &mut dyn FnMut(u32, usize),
    ) {
        let (block, len) = unpack(handle);
        let extents = &mut scratch.extents;
        extents.clear();
        let mut old = Source::Hole;
        let mut old_start = 0;
        let mut is_in = false;
        for index in 0..=len {
            let (next_start, next) = if index < len {
                let word = self.blocks.address(block, index).load(Ordering::Relaxed);
                (self.start(block, index), Source::from_word(word))
            } else {
                (GRAINS, Source::Hole)
            };
            // The old extent covers old_start..next_start.
            let (from, to) = (old_start.max(start), next_start.min(end));
            if from < to
                && let Source::Log(grain) = old.plus(from - old_start)
            {
                released(grain, to - from);
            }
            if old_start < start && old_start < next_start {
                extents.push(old_start, old);
            }
            if !is_in && next_start > start {
                extents.push(start, source);
                is_in = true;
            }
            if next_start > end && old_start.max(end) < next_start {
                let from = old_start.max(end);
                extents.push(from, old.plus(from - old_start));
            }
            (old, old_start) = (next, next_start);
        }
        self.store(id, handle, extents);
    }

    fn store(&self, id: PartitionId, handle: u64, extents: &Extents) {
        let (old, old_len) = unpack(handle);
        let is_kept = old_len > 0 && blocks::class_for(extents.len()) == old.class && extents.len() > 0;
        let block = match extents.len() {
            0 => Block { unit: 0, class: 0 },
            _ if is_kept => old,
            len => self.blocks.allocate(len),
        };
        for (index, (start, word)) in extents.iter().enumerate() {
            self.blocks.start(block, index).store(start, Ordering::Relaxed);
            self.blocks.address(block, index).store(word, Ordering::Relaxed);
        }
        self.at(id).handle.store(pack(block, extents.len()), Ordering::Release);
        if old_len > 0 && !is_kept {
            self.blocks.free(old);
        }
    }
}

#[cfg(test)]
mod tests;
