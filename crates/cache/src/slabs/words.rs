//! What is kept with a slot: its header word, its policy's links, and of a whole page the digest of what it was mapped with.

use std::sync::atomic::{AtomicU64, Ordering};

use aquifer_base::PageId;

use super::{Slabs, SlotId};
use crate::class::Class;

const USED: u64 = 1 << 63;
const MARK_SHIFT: u32 = 34;
const MARK_MASK: u64 = 0x7f;
const PAGE_MASK: u64 = (1 << MARK_SHIFT) - 1;

/// Words in a slab for each slot, without and with links.
const WORDS: [usize; 2] = [1, 2];
/// Words of a whole page's slot: the header and the digest.
const WORDS_WHOLE: usize = 3;

/// Words in a slab for each slot of `slot_bytes`.
pub(super) const fn beside(slot_bytes: usize, links: bool) -> usize {
    if slot_bytes == Class::WHOLE.slot_bytes() { 0 } else { WORDS[links as usize] }
}

/// Bytes of the words of `slots` whole pages.
pub(super) const fn of_whole_bytes(slots: u32) -> usize {
    slots as usize * WORDS_WHOLE * 8
}

impl Slabs {
    #[inline]
    pub(super) fn word(&self, class: Class, slot: SlotId, which: usize) -> &AtomicU64 {
        let per_slab = self.slots_per_slab(class) as usize;
        let (slab, index) = (slot.slab() as usize, slot.index() as usize);
        let (memory, offset) = if class == Class::WHOLE {
            (&self.whole_words, ((slab * per_slab + index) * WORDS_WHOLE + which) * 8)
        } else {
            let headers = (per_slab * class.slot_bytes()).next_multiple_of(8);
            (&self.memory, slab * self.slab_bytes + headers + (which * per_slab + index) * 8)
        };
        assert!(index < per_slab && offset + 8 <= memory.len());
        // SAFETY: in bounds, aligned to 8 (slot sizes are multiples of 16), and only used as an atomic.
        unsafe { &*memory.base().add(offset).cast::<AtomicU64>() }
    }

    /// The page that owns the slot, if it is used.
    pub(crate) fn owner(&self, class: Class, slot: SlotId) -> Option<PageId> {
        let word = self.word(class, slot, 0).load(Ordering::Acquire);
        (word & USED != 0).then_some(PageId(word & PAGE_MASK))
    }

    /// Gives a slot that this thread took out of use to `page`.
    pub(crate) fn set_owner(&self, class: Class, slot: SlotId, page: PageId) {
        self.word(class, slot, 0).store(USED | page.0, Ordering::Release);
    }

    /// Takes the slot out of use without giving it back to its slab.
    pub(crate) fn clear_owner(&self, class: Class, slot: SlotId) {
        self.word(class, slot, 0).store(0, Ordering::Release);
    }

    #[inline]
    pub(crate) fn mark(&self, class: Class, slot: SlotId) -> u8 {
        (self.word(class, slot, 0).load(Ordering::Relaxed) >> MARK_SHIFT & MARK_MASK) as u8
    }

    /// The mark of a slot that may have changed hands meanwhile, even its class: anything then.
    pub(crate) fn mark_of_any(&self, slot: SlotId) -> u8 {
        let class = self.class_of(slot);
        if slot.index() < self.slots_per_slab(class) { self.mark(class, slot) } else { 0 }
    }

    /// Replaces the mark of a used slot; a slot that was given up meanwhile is left alone.
    pub(crate) fn set_mark(&self, class: Class, slot: SlotId, mark: u8) {
        self.change_mark(class, slot, |_| mark);
    }

    /// Changes the mark of a used slot, of which no other change is lost; a slot that was given up meanwhile is left alone. Returns
    /// the mark from before.
    pub(crate) fn change_mark(&self, class: Class, slot: SlotId, change: impl Fn(u8) -> u8) -> u8 {
        let mark = |header: u64| (header >> MARK_SHIFT & MARK_MASK) as u8;
        let changed =
            self.word(class, slot, 0).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |before| {
                let after =
                    before & !(MARK_MASK << MARK_SHIFT) | u64::from(change(mark(before))) << MARK_SHIFT;
                (before & USED != 0 && after != before).then_some(after)
            });
        changed.map_or_else(mark, mark)
    }

    pub(crate) fn links(&self, class: Class, slot: SlotId) -> (u32, u32) {
        let word = self.word(class, slot, 1).load(Ordering::Relaxed);
        (word as u32, (word >> 32) as u32)
    }

    pub(crate) fn set_links(&self, class: Class, slot: SlotId, links: (u32, u32)) {
        let word = u64::from(links.0) | u64::from(links.1) << 32;
        self.word(class, slot, 1).store(word, Ordering::Relaxed);
    }

    /// The digest that was kept with a whole page's slot.
    pub(crate) fn digest(&self, slot: SlotId) -> u128 {
        let word = |which| u128::from(self.word(Class::WHOLE, slot, which).load(Ordering::Relaxed));
        word(1) | word(2) << 64
    }

    /// Keeps a digest with a whole page's slot.
    pub(crate) fn set_digest(&self, slot: SlotId, digest: u128) {
        self.word(Class::WHOLE, slot, 1).store(digest as u64, Ordering::Relaxed);
        self.word(Class::WHOLE, slot, 2).store((digest >> 64) as u64, Ordering::Relaxed);
    }
}
