//! Memory divided into slabs, each slab into slots of one class.
//!
//! ```text
//! slab:  slot 0 | slot 1 | ... | header word 0 | header word 1 | ... [| links 0 | links 1 | ...]
//! header word of a used slot:   63 used | 40..34 mark | 33..0 page
//! header word of a free slot:   31..0 next free slot of the slab
//! ```
//!
//! Slabs stand in huge pages, except those of whole pages, whose memory is given back page by page. Whole pages fill their slabs: their
//! header words, and the digests of what they were mapped with, stand beside the slabs.

mod drain;
mod words;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use aquifer_base::PageId;
use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_sys::memory::{Advice, advise, prefer_huge_pages};
use aquifer_sys::{Errno, Reservation, SpinLock, SpinLockGuard};

use crate::class::{Class, SIZES};
use crate::sweeps::{Sweep, Sweeps};

/// A slot: slab number and index within it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SlotId(pub u32);

const INDEX_BITS: u32 = 14;
const NIL: u32 = u32::MAX;
const NO_CLASS: u8 = u8::MAX;
/// Bit of the mark of a whole page's slot that may have memory.
pub(crate) const HAS_MEMORY: u8 = 1;

impl SlotId {
    fn new(slab: u32, index: u32) -> Self {
        Self(slab << INDEX_BITS | index)
    }

    /// The slab it is in.
    pub(crate) fn slab(self) -> u32 {
        self.0 >> INDEX_BITS
    }

    /// Its index in the slab.
    pub(crate) fn index(self) -> u32 {
        self.0 & ((1 << INDEX_BITS) - 1)
    }
}

#[derive(Clone, Copy)]
struct Slab {
    used: u32,
    fresh: u32,
    free: u32,
    previous: u32,
    next: u32,
    draining: bool,
}

struct State {
    slabs: Box<[Slab]>,
    /// Those of whole pages keep to the front, the others to the back: a huge page has room for the others only.
    free_slabs: VecDeque<u32>,
    /// Slabs of `free_slabs` that no class may take.
    kept_free: usize,
    /// Per class, the first of its slabs that have a free slot.
    open: [u32; SIZES.len()],
}

/// What fault handlers read of a slab without the lock.
struct Shared {
    class: AtomicU8,
    /// Position of the slab among those of its class.
    rank: AtomicU32,
}

/// The slabs of one cache.
pub(crate) struct Slabs {
    memory: Reservation,
    /// Words of whole pages' slots, which have memory for slabs that have had any.
    whole_words: Reservation,
    slab_bytes: usize,
    /// Whether slots have links for their policy.
    has_links: bool,
    /// Slots of one slab, per class.
    per_slab: [u32; SIZES.len()],
    shared: Box<[Shared]>,
    ranks: Box<[Ranks]>,
    /// Whether slabs of whole pages stay when they get empty.
    keeps_whole: AtomicBool,
    /// Per class, slots that are used.
    used: [AtomicU32; SIZES.len()],
    sweeps: Sweeps,
    state: SpinLock<State>,
}

/// The slabs of one class by rank; a rank is reused after its slab left the class.
struct Ranks {
    slab_at: Box<[AtomicU32]>,
    end: AtomicU32,
    count: AtomicU32,
}

impl Slabs {
    /// `bytes` of slabs. With `links`, every slot has 8 more bytes for its policy.
    pub(crate) fn new(bytes: usize, links: bool) -> Result<Self, Errno> {
        let slab_bytes = if bytes < 48 << 20 { 64 << 10 } else { 256 << 10 };
        let of_slab = |size: usize| (slab_bytes / (size + 8 * words::beside(size, links))) as u32;
        let whole_bytes = words::of_whole_bytes(of_slab(Class::WHOLE.slot_bytes()));
        let count = (bytes / (slab_bytes + whole_bytes)).max(1);
        let vacant = Slab { used: 0, fresh: 0, free: NIL, previous: NIL, next: NIL, draining: false };
        let ranks = || Ranks {
            slab_at: (0..count).map(|_| AtomicU32::new(NIL)).collect(),
            end: AtomicU32::new(0),
            count: AtomicU32::new(0),
        };
        let memory = Reservation::new(count * slab_bytes, 2 << 20)?;
        // SAFETY: the reservation is ours and reads as zeros.
        prefer_huge_pages(unsafe { std::slice::from_raw_parts(memory.base(), memory.len()) });
        Ok(Self {
            memory,
            whole_words: Reservation::new(
                (count * whole_bytes).next_multiple_of(OS_PAGE_BYTES),
                OS_PAGE_BYTES,
            )?,
            slab_bytes,
            has_links: links,
            per_slab: SIZES.map(of_slab),
            shared: (0..count)
                .map(|_| Shared { class: AtomicU8::new(NO_CLASS), rank: AtomicU32::new(0) })
                .collect(),
            ranks: SIZES.iter().map(|_| ranks()).collect(),
            keeps_whole: AtomicBool::new(false),
            used: [const { AtomicU32::new(0) }; SIZES.len()],
            sweeps: Sweeps::new(),
            state: SpinLock::new(State {
                slabs: vec![vacant; count].into(),
                free_slabs: (0..count as u32).rev().collect(),
                kept_free: 0,
                open: [NIL; SIZES.len()],
            }),
        })
    }

    /// While the sweep lasts, slabs that leave a class get no other.
    pub(crate) fn sweep(&self) -> Sweep<'_> {
        self.sweeps.begin()
    }

    /// Slots of `class` in one slab.
    #[inline]
    pub(crate) fn slots_per_slab(&self, class: Class) -> u32 {
        self.per_slab[class.index()]
    }

    /// RAM of the slabs in use and of the bookkeeping.
    pub(crate) fn ram_bytes(&self) -> usize {
        let slabs: u32 = Class::all().map(|class| self.slabs_of(class)).sum();
        slabs as usize * self.slab_bytes + self.whole_bytes() + self.bookkeeping_bytes()
    }

    /// RAM of the words beside slabs of whole pages.
    fn whole_bytes(&self) -> usize {
        self.slabs_of(Class::WHOLE) as usize * words::of_whole_bytes(self.slots_per_slab(Class::WHOLE))
    }

    /// RAM that is not slots: slot headers of slabs in use, slab tables.
    pub(crate) fn metadata_bytes(&self) -> usize {
        let headers: usize = Class::all()
            .map(|class| {
                let slabs = self.slabs_of(class) as usize;
                slabs * (self.slab_bytes - self.slots_per_slab(class) as usize * class.slot_bytes())
            })
            .sum();
        headers + self.whole_bytes() + self.bookkeeping_bytes()
    }

    fn bookkeeping_bytes(&self) -> usize {
        self.shared.len() * (size_of::<Slab>() + size_of::<Shared>() + 4)
    }

    /// How many slabs the class has.
    pub(crate) fn slabs_of(&self, class: Class) -> u32 {
        self.ranks[class.index()].count.load(Ordering::Relaxed)
    }

    /// One more than the largest position of the class.
    pub(crate) fn positions(&self, class: Class) -> u32 {
        self.ranks[class.index()].end.load(Ordering::Acquire) * self.slots_per_slab(class)
    }

    /// The slab with this rank in its class, if there is one.
    pub(crate) fn slab_at(&self, class: Class, rank: u32) -> Option<u32> {
        let slab = self.ranks[class.index()].slab_at.get(rank as usize)?.load(Ordering::Acquire);
        (slab != NIL).then_some(slab)
    }

    /// How many ranks the class has ever had at once.
    pub(crate) fn rank_end(&self, class: Class) -> u32 {
        self.ranks[class.index()].end.load(Ordering::Acquire)
    }

    /// The class that has the slab now, if one does.
    pub(crate) fn class_in_use(&self, slab: u32) -> Option<Class> {
        let Shared { class, rank } = self.shared.get(slab as usize)?;
        let class = class.load(Ordering::Acquire);
        let class = (class != NO_CLASS).then(|| Class::from_index(usize::from(class)))?;
        (self.slab_at(class, rank.load(Ordering::Acquire)) == Some(slab)).then_some(class)
    }

    /// The slab behind `slab` in the order of ranks, and around; the first one for no slab.
    pub(crate) fn slab_after(&self, class: Class, slab: u32) -> u32 {
        let end = self.rank_end(class);
        let rank = self.shared.get(slab as usize).map_or(0, |shared| shared.rank.load(Ordering::Acquire) + 1);
        (rank..end).chain(0..rank.min(end)).find_map(|rank| self.slab_at(class, rank)).unwrap_or(NIL)
    }

    /// The slot at a position of its class; `None` in a hole.
    pub(crate) fn slot_at(&self, class: Class, position: u32) -> Option<SlotId> {
        let per_slab = self.slots_per_slab(class);
        let slab = self.slab_at(class, position / per_slab)?;
        Some(SlotId::new(slab, position % per_slab))
    }

    /// The position of a slot in its class.
    pub(crate) fn position_of(&self, class: Class, slot: SlotId) -> u32 {
        self.shared[slot.slab() as usize].rank.load(Ordering::Relaxed) * self.slots_per_slab(class)
            + slot.index()
    }

    /// The class of a used slot.
    #[inline]
    pub(crate) fn class_of(&self, slot: SlotId) -> Class {
        let class = self.shared[slot.slab() as usize].class.load(Ordering::Acquire);
        assert!(class != NO_CLASS, "slot {slot:?} is in no class");
        Class::from_index(usize::from(class))
    }

    /// Advice about the memory of a slab that nobody uses: the caller holds the lock.
    fn advise(&self, slab: u32, advice: Advice) {
        // SAFETY: in bounds.
        let start = unsafe { self.memory.base().add(slab as usize * self.slab_bytes) };
        // SAFETY: as above, and its bytes are not needed. What the kernel refuses costs memory or speed, nothing else.
        let _ = unsafe { advise(start, self.slab_bytes, advice) };
    }

    /// First byte of the slot. The entry of the page that owns the slot says which threads may use it.
    #[inline]
    pub(crate) fn pointer(&self, slot: SlotId) -> *mut u8 {
        let class = self.class_of(slot);
        let offset = slot.slab() as usize * self.slab_bytes + slot.index() as usize * class.slot_bytes();
        debug_assert!(offset < self.memory.len());
        // SAFETY: slab and index are within the reservation, because allocate made the slot.
        unsafe { self.memory.base().add(offset) }
    }

    /// All slabs that there are.
    pub(crate) fn count(&self) -> usize {
        self.shared.len()
    }

    /// Slots of the class's slabs that nobody uses.
    pub(crate) fn free_of(&self, class: Class) -> u32 {
        let slots = self.slabs_of(class) * self.slots_per_slab(class);
        slots.saturating_sub(self.used[class.index()].load(Ordering::Relaxed))
    }

    /// Bytes of a slab.
    pub(crate) fn slab_bytes(&self) -> usize {
        self.slab_bytes
    }

    /// Has `count` slabs stay free from now on, without memory. What is in use stays until it is drained.
    pub(crate) fn keep_free(&self, count: usize) {
        let mut state = self.state.lock();
        let has_grown = count > state.kept_free;
        state.kept_free = count;
        if has_grown {
            // Those of whole pages gave theirs back when they became free, and new ones have none.
            let has_memory = |slab: u32| {
                let class = self.shared[slab as usize].class.load(Ordering::Relaxed);
                class != NO_CLASS && class != Class::WHOLE.index() as u8
            };
            let free = state.free_slabs.iter().copied();
            free.filter(|&slab| has_memory(slab)).for_each(|slab| self.advise(slab, Advice::DontNeed));
        }
    }

    /// Whether fewer slabs are free than should stay so.
    pub(crate) fn lacks_free(&self) -> bool {
        let state = self.state.lock();
        state.free_slabs.len() < state.kept_free
    }

    /// Slabs that classes may still have.
    pub(crate) fn unused(&self) -> usize {
        let state = self.state.lock();
        state.free_slabs.len().saturating_sub(state.kept_free)
    }

    /// A slot that nobody uses, from the class's slabs or a new one; `None` if a slab would have to be
    /// taken from another class or something evicted.
    pub(crate) fn allocate(&self, class: Class, page: PageId) -> Option<SlotId> {
        let state = self.state.lock();
        let kept_free = if self.slabs_of(class) > 0 { state.kept_free } else { 0 };
        self.allocate_beyond(kept_free, state, class, page)
    }

    /// As [`Slabs::allocate`], from slabs that should stay free, too.
    pub(crate) fn allocate_kept(&self, class: Class, page: PageId) -> Option<SlotId> {
        self.allocate_beyond(0, self.state.lock(), class, page)
    }

    fn allocate_beyond(
        &self,
        kept_free: usize,
        mut state: SpinLockGuard<'_, State>,
        class: Class,
        page: PageId,
    ) -> Option<SlotId> {
        let slab = match state.open[class.index()] {
            NIL if state.free_slabs.len() <= kept_free => return None,
            NIL => self.add_slab(&mut state, class)?,
            slab => slab,
        };
        let Slab { free, fresh, .. } = state.slabs[slab as usize];
        let index = if free != NIL { free } else { fresh };
        let slot = SlotId::new(slab, index);
        let per_slab = self.slots_per_slab(class);
        let entry = &mut state.slabs[slab as usize];
        if free != NIL {
            entry.free = self.word(class, slot, 0).load(Ordering::Relaxed) as u32;
        } else {
            entry.fresh += 1;
        }
        entry.used += 1;
        self.used[class.index()].fetch_add(1, Ordering::Relaxed);
        if entry.used == per_slab {
            state.unlink(class, slab);
        }
        self.set_owner(class, slot, page);
        if class == Class::WHOLE && free != NIL {
            self.set_mark(class, slot, HAS_MEMORY);
        }
        Some(slot)
    }

    /// One slab more for the class, if one is free.
    pub(crate) fn grow(&self, class: Class) {
        self.add_slab(&mut self.state.lock(), class);
    }

    fn add_slab(&self, state: &mut State, class: Class) -> Option<u32> {
        let free = &mut state.free_slabs;
        let slab = if class == Class::WHOLE { free.pop_front()? } else { free.pop_back()? };
        state.slabs[slab as usize] =
            Slab { used: 0, fresh: 0, free: NIL, previous: NIL, next: NIL, draining: false };
        let ranks = &self.ranks[class.index()];
        let end = ranks.end.load(Ordering::Relaxed);
        let hole = (0..end).find(|&rank| ranks.slab_at[rank as usize].load(Ordering::Relaxed) == NIL);
        let rank = hole.filter(|_| ranks.count.load(Ordering::Relaxed) < end).unwrap_or(end);
        let before = self.shared[slab as usize].class.load(Ordering::Relaxed);
        if before != NO_CLASS && before != class.index() as u8 {
            self.sweeps.wait_for_earlier();
        }
        self.settle_memory(slab, before, class);
        self.shared[slab as usize].class.store(class.index() as u8, Ordering::Release);
        self.shared[slab as usize].rank.store(rank, Ordering::Release);
        self.clear_headers(class, slab);
        ranks.slab_at[rank as usize].store(slab, Ordering::Release);
        ranks.end.store(end.max(rank + 1), Ordering::Release);
        ranks.count.fetch_add(1, Ordering::Relaxed);
        state.link(class, slab);
        Some(slab)
    }

    /// Slots of whole pages begin without memory; slots of other classes stand in huge pages.
    fn settle_memory(&self, slab: u32, before: u8, class: Class) {
        let was_whole = before == Class::WHOLE.index() as u8;
        if class == Class::WHOLE && !was_whole {
            self.advise(slab, Advice::NoHugePage);
            self.advise(slab, Advice::DontNeed);
        } else if class != Class::WHOLE && was_whole {
            self.advise(slab, Advice::HugePage);
        }
    }

    /// Makes every slot of a slab unused: what stands there are bytes of objects of another class.
    fn clear_headers(&self, class: Class, slab: u32) {
        for slot in self.slots_in(class, slab) {
            self.clear_owner(class, slot);
            if self.has_links && class != Class::WHOLE {
                self.set_links(class, slot, (NIL, NIL));
            }
        }
    }

    /// Gives a slot back whose owner was cleared.
    pub(crate) fn free(&self, class: Class, slot: SlotId) {
        let mut state = self.state.lock();
        let slab = slot.slab();
        let was_full = state.slabs[slab as usize].used == self.slots_per_slab(class);
        let entry = &mut state.slabs[slab as usize];
        self.word(class, slot, 0).store(u64::from(entry.free), Ordering::Release);
        entry.free = slot.index();
        entry.used -= 1;
        self.used[class.index()].fetch_sub(1, Ordering::Relaxed);
        let (used, draining) = (entry.used, entry.draining);
        if was_full && !draining {
            state.link(class, slab);
        }
        let is_kept = class == Class::WHOLE && self.keeps_whole.load(Ordering::Relaxed);
        if used == 0 && !draining && !is_kept && self.slabs_of(class) > 1 {
            state.unlink(class, slab);
            self.retire(&mut state, class, slab);
        }
    }

    fn retire(&self, state: &mut State, class: Class, slab: u32) {
        let ranks = &self.ranks[class.index()];
        let rank = self.shared[slab as usize].rank.load(Ordering::Relaxed);
        ranks.slab_at[rank as usize].store(NIL, Ordering::Release);
        ranks.count.fetch_sub(1, Ordering::Relaxed);
        // A policy may still look at its slots, until the slab gets another class.
        // There is room for all slabs, so this allocates nothing.
        if class != Class::WHOLE {
            state.free_slabs.push_back(slab);
        } else {
            state.free_slabs.push_front(slab);
        }
        // Slots of whole pages that were never used have no memory.
        if class == Class::WHOLE || state.free_slabs.len() <= state.kept_free {
            self.advise(slab, Advice::DontNeed);
        }
    }

    /// The slots of a slab.
    pub(crate) fn slots_in(&self, class: Class, slab: u32) -> impl Iterator<Item = SlotId> {
        (0..self.slots_per_slab(class)).map(move |index| SlotId::new(slab, index))
    }
}

impl State {
    fn link(&mut self, class: Class, slab: u32) {
        let head = self.open[class.index()];
        self.slabs[slab as usize].previous = NIL;
        self.slabs[slab as usize].next = head;
        if head != NIL {
            self.slabs[head as usize].previous = slab;
        }
        self.open[class.index()] = slab;
    }

    fn unlink(&mut self, class: Class, slab: u32) {
        let Slab { previous, next, .. } = self.slabs[slab as usize];
        match previous {
            NIL => self.open[class.index()] = next,
            _ => self.slabs[previous as usize].next = next,
        }
        if next != NIL {
            self.slabs[next as usize].previous = previous;
        }
    }
}

#[cfg(test)]
mod tests;
