//! The address map of a durable heap: where the newest version of each byte of home space is in the log.
//!
//! Two layers (Hu et al., "Log-Structured Non-Volatile Main Memory", ATC 2017): an index of partitions that is looked up
//! in one step, and for each partition of 4 KiB an ordered set of extents. The [`Word`] beside it is the partition's lock and its version
//! at once, so what guards the map guards transactions too: readers take no lock, but look at the version before and after.
//!
//! ```text
//! handle:  63..56 unused | 55..48 class of the block | 47..32 extents | 31..0 block        block 0: all zeros
//! ```

mod blocks;
mod extents;
mod fill;
mod portion;
mod source;

use std::sync::atomic::{AtomicU64, Ordering};

use aquifer_base::PartitionId;
use aquifer_base::limits::{HOME_BITS, PARTITION_BYTES};
use aquifer_sys::prefetch::prefetch;
use aquifer_sys::{Errno, Reservation};

use blocks::{Block, Blocks};
pub use extents::Hint;
use extents::{Change, Extents};
pub use fill::{Filler, Told};
pub use portion::{Portion, portions};
pub use source::{FIRST_GRAIN, GRAINS, Source};

use crate::word::WordCell;
pub use crate::word::{VERSION_MAX, Word};

const PARTITIONS: usize = (1 << HOME_BITS) / PARTITION_BYTES;
/// Cache lines of starts, and of addresses, that are loaded ahead.
const PREFETCHED_LINES: usize = 4;

#[repr(C, align(16))]
struct Partition {
    word: WordCell,
    handle: AtomicU64,
}

/// The address map.
pub struct Partitions {
    index: Reservation,
    blocks: Blocks,
    /// Whether extents that could be one are.
    joins: bool,
}

/// A run of bytes with one source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Where they are.
    pub source: Source,
    /// The grain of the partition where it ends.
    pub end: usize,
}

fn unpack(handle: u64) -> (Block, usize) {
    let block = Block { unit: handle as u32, class: (handle >> 48) as u8 };
    (block, (handle >> 32 & 0xFFFF) as usize)
}

fn pack(block: Block, extents: usize) -> u64 {
    u64::from(block.unit) | (extents as u64) << 32 | u64::from(block.class) << 48
}

impl Partitions {
    /// An empty map to a log of up to `log_bytes`. Those of more than 16 GiB have a byte more for each extent.
    ///
    /// # Errors
    /// The kernel refused the address space.
    pub fn new(log_bytes: u64) -> Result<Self, Errno> {
        let index = Reservation::new(PARTITIONS * size_of::<Partition>(), 4096)?;
        Ok(Self { index, blocks: Blocks::new(log_bytes)?, joins: true })
    }

    /// The same map; what it is told from now on makes extents of its own if it does not join, also beside ones with which it could be one.
    #[must_use]
    pub fn joining(self, joins: bool) -> Self {
        Self { joins, ..self }
    }

    /// RAM of the extents.
    pub fn ram_bytes(&self) -> usize {
        self.blocks.ram_bytes()
    }

    /// RAM that the extents may still take. To add more than that panics.
    pub fn room_bytes(&self) -> usize {
        self.blocks.room_bytes()
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
        self.at(id).word.word()
    }

    /// Whether its word is still the same, after its extents and what they lead to were looked at.
    #[inline]
    pub fn is_unchanged(&self, id: PartitionId, before: Word) -> bool {
        self.at(id).word.is_unchanged(before)
    }

    /// The run that has `grain`. Anything at all if the partition is locked by somebody else or has changed meanwhile.
    /// With a hint that was left by the last look at this place it is found at once.
    #[inline]
    pub fn find(&self, id: PartitionId, grain: usize, hint: &mut Hint) -> Run {
        let extents = self.extents(id);
        let behind = extents.count_up_to(grain, hint);
        let end = if behind < extents.len() { extents.start(behind) } else { GRAINS };
        Run { source: Source::from_word(extents.continued(behind, grain)), end: end.clamp(grain + 1, GRAINS) }
    }

    /// Calls `visit` with the start and source of every extent of a partition, in order; each ends where the next one begins. Anything at
    /// all if somebody changes the partition meanwhile.
    pub fn for_each_extent(&self, id: PartitionId, mut visit: impl FnMut(u16, Source)) {
        let extents = self.extents(id);
        (0..extents.len()).for_each(|n| visit(extents.start(n) as u16, Source::from_word(extents.word(n))));
    }

    /// Begins to load what is looked at first in a partition, so that [`Partitions::prefetch_extents`] need not wait for it.
    #[inline]
    pub fn prefetch(&self, id: PartitionId) {
        prefetch(std::ptr::from_ref(self.at(id)).cast(), size_of::<Partition>(), 1);
    }

    /// Begins to load the extents of a partition, or the first of them if there are many. Others may change them meanwhile.
    #[inline]
    pub fn prefetch_extents(&self, id: PartitionId) {
        let Extents { starts, addresses, .. } = self.extents(id);
        prefetch(starts.as_ptr().cast(), size_of_val(starts), PREFETCHED_LINES);
        prefetch(addresses.as_ptr().cast(), size_of_val(addresses), PREFETCHED_LINES);
    }

    #[inline]
    fn extents(&self, id: PartitionId) -> Extents<'_> {
        let (block, len) = unpack(self.at(id).handle.load(Ordering::Acquire));
        self.blocks.extents(block, len)
    }

    /// Locks the partition if it is free, to commit to it; returns its word before.
    #[inline]
    pub fn try_lock(&self, id: PartitionId) -> Option<Word> {
        self.at(id).word.try_lock()
    }

    /// Locks the partition if it is free, to move bytes of it in the log; returns its word before.
    #[inline]
    pub fn try_lock_to_move(&self, id: PartitionId) -> Option<Word> {
        self.at(id).word.try_lock_to_move()
    }

    /// Unlocks the partition, which the caller has locked, with a new version.
    #[inline]
    pub fn unlock(&self, id: PartitionId, version: u64) {
        self.at(id).word.unlock(version);
    }

    /// Unlocks the partition as it was: its word before, and none of its extents has changed.
    pub fn unlock_unchanged(&self, id: PartitionId, before: Word) {
        self.at(id).word.unlock_unchanged(before);
    }

    /// Unlocks the partition, of which bytes were moved in the log that are the same as before: to transactions nothing has
    /// happened, but who reads just now must look again.
    pub fn unlock_moved(&self, id: PartitionId, before: Word) {
        self.at(id).word.unlock_moved(before);
    }

    /// Points the grains from `start` to `end` of a partition that the caller has locked to `source`. `released` is told
    /// where their bytes in the log were before, and how many grains. The hint is one for `start`.
    #[inline]
    pub fn replace(
        &self,
        id: PartitionId,
        (start, end): (usize, usize),
        source: Source,
        hint: &mut Hint,
        mut released: impl FnMut(u64, usize),
    ) {
        debug_assert!(start < end && end <= GRAINS && self.word(id).is_locked());
        let extents = self.extents(id);
        let kept = extents.count_up_to(start, hint);
        let word = source.word();
        if !self.is_shared(id)
            && let Some(before) = extents.replace_one(kept, (start, end), word, self.joins)
        {
            if let Source::Log(grain) = Source::from_word(before) {
                released(grain, end - start);
            }
            return;
        }
        let (last, before) = extents.release(kept, (start, end), &mut released);
        let kept = kept - usize::from(kept > 0 && extents.start(kept - 1) == start);
        let mut change = Change { kept, dropped: last, new: [(0, 0); 2], count: 0 };
        if extents.continued(kept, start) != word || !self.joins {
            change.push(start, word);
        }
        if end < GRAINS {
            let behind = source::plus(word, end - start);
            let next = (last < extents.len() && extents.start(last) == end).then(|| extents.word(last));
            match next {
                Some(next) if next == behind && self.joins => change.dropped += 1,
                None if before != behind || !self.joins => change.push(end, before),
                _ => {}
            }
        }
        self.splice(id, &change);
    }

    /// Puts new extents in the place of old ones.
    fn splice(&self, id: PartitionId, change: &Change) {
        let (old, len) = unpack(self.at(id).handle.load(Ordering::Relaxed));
        let new_len = change.kept + change.count + len - change.dropped;
        let has_own = len > 0 && !blocks::is_shared(old);
        if new_len == len && has_own {
            // The usual case: an extent changes its address.
            return self.extents(id).put(change);
        }
        let is_kept = has_own && new_len > 0 && blocks::class_for(new_len) == old.class;
        let is_zeros = new_len == 1 && change.new[..change.count] == [(0, Source::Zeros.word())];
        let block = match new_len {
            0 => Block { unit: 0, class: 0 },
            1 if is_zeros => blocks::ZEROS,
            _ if is_kept => old,
            _ => self.blocks.allocate(new_len),
        };
        if block == blocks::ZEROS {
            self.at(id).handle.store(pack(block, new_len), Ordering::Release);
            return if has_own {
                self.blocks.free(old)
            };
        }
        let (from, to) = (self.blocks.extents(old, len), self.blocks.extents(block, new_len));
        // Moved from the end on where they are moved up within one block.
        if !is_kept {
            (0..change.kept).for_each(|index| to.copy(index, &from, index));
        }
        let (source, target, tail) = (change.dropped, change.kept + change.count, len - change.dropped);
        if target > source {
            (0..tail).rev().for_each(|n| to.copy(target + n, &from, source + n));
        } else {
            (0..tail).for_each(|n| to.copy(target + n, &from, source + n));
        }
        to.put(change);
        self.at(id).handle.store(pack(block, new_len), Ordering::Release);
        if has_own && !is_kept {
            self.blocks.free(old);
        }
    }

    /// Whether a partition has no extents of its own: it is like others.
    #[inline]
    fn is_shared(&self, id: PartitionId) -> bool {
        blocks::is_shared(unpack(self.at(id).handle.load(Ordering::Relaxed)).0)
    }
}

#[cfg(test)]
mod tests;
