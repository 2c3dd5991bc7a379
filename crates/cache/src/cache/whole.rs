//! Whole pages: which of their slots have memory, their digests, their trials, and which are compressed next.
//!
//! Mark of a whole page's slot:
//! ```text
//! 6 read ahead | 5..4 turns to be passed over | 3..2 standing | 1 on trial | 0 has memory
//! ```
//! A page that is used while it is on trial stays, and its standing rises: the front hand passes over it
//! `standing` times before its next trial. So a page in constant use costs one fault in [`STANDING_MAX`] + 1
//! rounds, instead of one in each.

use std::sync::atomic::Ordering;

use aquifer_base::PageId;
use aquifer_map::EntryTable;

use super::{ObjectCache, Position};
use crate::class::Class;
use crate::returns::Distances;
use crate::slabs::{HAS_MEMORY, SlotId};

const ON_TRIAL: u8 = 1 << 1;
const STANDING_SHIFT: u8 = 2;
const TURNS_SHIFT: u8 = 4;
const READ_AHEAD: u8 = 1 << 6;
/// The highest standing.
const STANDING_MAX: u8 = 3;
/// What an eviction costs, which may have to be read again from flash, in units of what a compression costs, which may have to be undone.
const COMPRESSIONS_PER_EVICTION: u64 = 8;
/// Where pages are compressed, slots that are kept free for others: one in this many, and fewest and most.
const FREE: usize = 64;
const FREE_MIN: usize = 32;
const FREE_MAX: usize = 1024;

/// Too few slots of whole pages are free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lack {
    /// A thread that compresses already goes on.
    Slight,
    /// Less than half of what should be free: time to begin, so that it begins seldom.
    Urgent,
}

/// The mark of a page that was used while it was on trial.
fn proven(mark: u8) -> u8 {
    let standing = ((mark >> STANDING_SHIFT & 3) + 1).min(STANDING_MAX);
    mark & HAS_MEMORY | standing << STANDING_SHIFT | standing << TURNS_SHIFT
}

/// The mark of a page that was used in its slot. The first use of one that was read ahead proves nothing.
fn used(mark: u8) -> u8 {
    match mark & (READ_AHEAD | ON_TRIAL) {
        0 => mark,
        ON_TRIAL => proven(mark),
        _ => mark & !(READ_AHEAD | ON_TRIAL),
    }
}

/// The mark of a page that the front hand meets, and whether it passes the page over.
fn met(mark: u8) -> (u8, bool) {
    let turns = mark >> TURNS_SHIFT & 3;
    if turns > 0 { (mark - (1 << TURNS_SHIFT), true) } else { (mark | ON_TRIAL, false) }
}

/// Whether the page with this mark came back from its last trial.
pub(super) fn has_standing(mark: u8) -> bool {
    mark >> STANDING_SHIFT & 3 > 0
}

impl ObjectCache {
    /// Whether the slot of a whole page may have memory. The caller holds the entry of its page.
    pub fn has_memory(&self, slot: SlotId) -> bool {
        self.slabs.class_of(slot) == Class::WHOLE && self.slabs.mark(Class::WHOLE, slot) & HAS_MEMORY != 0
    }

    /// Notes whether the slot of a whole page has memory now. The caller holds the entry of its page.
    pub fn set_has_memory(&self, slot: SlotId, has: bool) {
        if self.slabs.class_of(slot) == Class::WHOLE {
            self.slabs
                .change_mark(Class::WHOLE, slot, |mark| (mark & !HAS_MEMORY) | (u8::from(has) * HAS_MEMORY));
        }
    }

    /// The digest that was kept with the slot of a whole page. The caller holds the entry of its page.
    pub fn digest(&self, slot: SlotId) -> u128 {
        self.slabs.digest(slot)
    }

    /// Keeps a digest with the slot of a whole page. The caller holds the entry of its page.
    pub fn set_digest(&self, slot: SlotId, digest: u128) {
        self.slabs.set_digest(slot, digest);
    }

    /// A whole page was used in its slot; whether it was read ahead, and this is its first use.
    pub(super) fn came_back(&self, slot: SlotId) -> bool {
        self.slabs.change_mark(Class::WHOLE, slot, used) & READ_AHEAD != 0
    }

    /// Notes that a page was read before anybody wanted it. The caller holds its entry.
    pub fn note_read_ahead(&self, slot: SlotId) {
        if self.slabs.class_of(slot) == Class::WHOLE {
            self.slabs.change_mark(Class::WHOLE, slot, |mark| mark | READ_AHEAD);
        }
    }

    /// Bytes of a slot.
    pub fn slot_bytes(&self, slot: SlotId) -> usize {
        self.slabs.class_of(slot).slot_bytes()
    }

    /// Whether so few slots of whole pages are free that some pages should be compressed; `None` if there are enough, or nothing has left RAM yet.
    pub fn lacks_free_whole(&self) -> Option<Lack> {
        let wanted = (self.slots(Class::WHOLE) / FREE).clamp(FREE_MIN, FREE_MAX);
        let free = self.slabs.free_of(Class::WHOLE) as usize;
        (self.is_full.load(Ordering::Relaxed) && free < wanted).then_some(if free < wanted / 2 {
            Lack::Urgent
        } else {
            Lack::Slight
        })
    }

    /// Passes `count` slots of whole pages that were unmapped and did not come back, and calls `visit` for their pages. Returns how many were
    /// passed. One thread at a time. `visit` neither allocates nor frees a slot.
    pub fn next_to_compress(&self, count: usize, visit: &mut dyn FnMut(PageId)) -> usize {
        let view = self.view(Class::WHOLE);
        let _sweep = self.slabs.sweep();
        let passed = self.whole.advance_middle(&view, count as u64, &mut |at| {
            if let Some(page) = view.slot(at).and_then(|slot| self.slabs.owner(Class::WHOLE, slot)) {
                visit(page);
            }
        });
        passed as usize
    }

    /// As [`ObjectCache::free`], of a whole page that is compressed in another slot from now on. Some of these count as an eviction where
    /// classes are compared.
    pub fn free_compressed(&self, slot: SlotId, entries: &EntryTable) {
        let compressions = self.compressions.fetch_add(1, Ordering::Relaxed) + 1;
        if compressions == 1 {
            self.slabs.keep_whole();
        }
        let left = self.plain_left.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(page) = self.slabs.owner(Class::WHOLE, slot) {
            self.compressed_returns.note_left(page, left);
        }
        self.free(slot);
        if compressions.is_multiple_of(COMPRESSIONS_PER_EVICTION) {
            let evictions = &self.classes[Class::WHOLE.index()].evictions;
            self.balance_whole(evictions.fetch_add(1, Ordering::Relaxed) + 1, entries);
        }
    }

    /// Notes that a page is wanted that is compressed.
    pub fn note_decompressed(&self, page: PageId) {
        self.compressed_returns.note_back(page, self.plain_left());
    }

    /// Of compressed pages that were wanted: after how many others, that were plain no longer. A sample.
    pub fn compressed_distances(&self) -> Distances {
        self.compressed_returns.distances()
    }

    /// How many whole pages have been plain and are no longer: they were compressed, or evicted as they were.
    pub fn plain_left(&self) -> u64 {
        self.plain_left.load(Ordering::Relaxed)
    }

    /// For how many whole pages there would be room if none were compressed.
    pub fn plain_most(&self) -> usize {
        self.slabs.count() * self.slabs.slots_per_slab(Class::WHOLE) as usize
    }

    /// How many slots of whole pages should be passed by [`ObjectCache::next_to_unmap`], so that evictions find pages
    /// that are not mapped.
    pub fn unmapping_due(&self) -> usize {
        if !self.is_full.load(Ordering::Relaxed) {
            return 0;
        }
        self.whole.front_due(&self.view(Class::WHOLE)) as usize
    }

    /// Passes at most `due` slots of whole pages, until `out` is full, and puts those pages there whose turn has come. They should leave
    /// their addresses for their slots; those that come back before their turn stay. Returns how many pages there are.
    pub fn next_to_unmap(&self, due: usize, out: &mut [PageId]) -> usize {
        let view = self.view(Class::WHOLE);
        let (mut count, mut left) = (0, due);
        while count < out.len() && left > 0 {
            let step = left.min(out.len() - count);
            left -= step;
            self.whole.advance_front(&view, step as u64, &mut |at: Position| {
                let slot = view.slot(at);
                let owner = slot.and_then(|slot| self.slabs.owner(Class::WHOLE, slot));
                if let (Some(slot), Some(page)) = (slot, owner)
                    && !met(self.slabs.change_mark(Class::WHOLE, slot, |mark| met(mark).0)).1
                {
                    out[count] = page;
                    count += 1;
                }
            });
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_was_used_on_trial_is_passed_over_as_often_as_it_has_standing() {
        let mut mark = HAS_MEMORY;
        for standing in [1, 2, 3, 3, 3] {
            for _ in 0..mark >> TURNS_SHIFT {
                let (after, is_passed_over) = met(mark);
                assert!(is_passed_over);
                mark = after;
            }
            assert_eq!(has_standing(mark), standing > 1);
            let (after, is_passed_over) = met(mark);
            assert!(!is_passed_over && after & (ON_TRIAL | HAS_MEMORY) == ON_TRIAL | HAS_MEMORY);
            mark = proven(after);
            assert_eq!((mark >> TURNS_SHIFT, mark & (ON_TRIAL | HAS_MEMORY)), (standing, HAS_MEMORY));
        }
    }
}
