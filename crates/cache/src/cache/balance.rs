//! Slabs that move from class to class.
//!
//! A class that finds no victim takes a slab from another. All pages of the slab have to leave first: clean
//! ones can at once, dirty ones when the writer has written them, mapped ones when they have left the page
//! buffer. So the class keeps to one slab, the wanted one, until that is empty, and names its pages to those
//! who can help ([`ObjectCache::for_each_wanted`]). A slab that does not get empty is given up for the next.

use std::sync::atomic::{AtomicU32, Ordering};

use aquifer_base::PageId;
use aquifer_map::{Entry, EntryTable, State};

use super::{BALANCE_PERIOD, ObjectCache, Position, RETRY_PERIOD};
use crate::class::Class;
use crate::slabs::SlotId;

/// Least share of the slabs that whole pages keep, one in this many, while some are compressed.
const WHOLE_LEAST: usize = 8;
/// No slab is wanted.
const NONE: u32 = u32::MAX;
/// Attempts to empty the wanted slab before another is taken; the writer has time in between.
const ATTEMPTS: u32 = 256;

/// What a class wants of others.
pub(super) struct Wanted {
    slab: AtomicU32,
    attempts: AtomicU32,
}

impl Wanted {
    pub(super) const fn new() -> Self {
        Self { slab: AtomicU32::new(NONE), attempts: AtomicU32::new(0) }
    }

    fn set(&self, slab: u32) {
        self.attempts.store(0, Ordering::Relaxed);
        self.slab.store(slab, Ordering::Relaxed);
    }

    /// Whether the class waits for a slab.
    pub(super) fn is_set(&self) -> bool {
        self.slab.load(Ordering::Relaxed) != NONE
    }
}

fn may_leave(entry: Entry) -> bool {
    entry.state() == State::Cached && !entry.is_dirty() && !entry.is_pinned()
}

impl ObjectCache {
    /// What a class wants, or what is wanted for nobody: a slab that stays free.
    fn wanted(&self, class: Option<Class>) -> &Wanted {
        class.map_or(&self.wanted_free, |class| &self.classes[class.index()].wanted)
    }

    /// Leaves `bytes` of the RAM to others from now on. What is in use of that stays until [`ObjectCache::free_slab`].
    pub fn set_reserved(&self, bytes: usize) {
        self.slabs.keep_free(bytes.div_ceil(self.slabs.slab_bytes()));
    }

    /// Whether more RAM is in use than others leave.
    pub fn lacks_reserved(&self) -> bool {
        self.slabs.lacks_free()
    }

    /// Tries to empty a slab, so that its RAM is free; until that succeeds it is the one whose pages [`ObjectCache::for_each_wanted`] names.
    pub fn free_slab(&self, entries: &EntryTable) {
        self.empty_wanted(None, entries);
    }

    /// Whether the class should try to get a slab from another one, after this number of `evictions`.
    pub(super) fn is_time_for_balance(&self, class: Class, evictions: u64) -> bool {
        if self.classes[class.index()].wanted.is_set() {
            return evictions.is_multiple_of(RETRY_PERIOD);
        }
        let period = match self.compressions.load(Ordering::Relaxed) {
            0 => BALANCE_PERIOD,
            // Classes have little of what they need at first.
            _ => BALANCE_PERIOD.min(u64::from(self.slabs.slots_per_slab(class))),
        };
        evictions.is_multiple_of(period) && self.is_starved(class, evictions)
    }

    /// Has the slab leave that a class wants, if its pages may leave.
    pub fn give_wanted(&self, class: Class, entries: &EntryTable) {
        if self.wanted(Some(class)).is_set() {
            self.empty_wanted(Some(class), entries);
        }
    }

    /// Whole pages, of which some are compressed instead of evicted, take a slab from the others if that is worth more.
    pub(super) fn balance_whole(&self, evictions: u64, entries: &EntryTable) {
        let class = Class::WHOLE;
        if self.is_time_for_balance(class, evictions) && self.empty_wanted(Some(class), entries) {
            self.slabs.grow(class);
        }
    }

    /// Whether the class evicts more than twice as often per slab as the one with the most slabs.
    pub(super) fn is_starved(&self, class: Class, evictions: u64) -> bool {
        let Some(donor) = self.largest_other(Some(class)) else { return false };
        let rate = |evictions: u64, slabs: u32| evictions as f64 / f64::from(slabs.max(1));
        let mine = rate(evictions, self.slabs.slabs_of(class));
        let theirs = &self.classes[donor.index()].evictions;
        let starved = mine > 2.0 * rate(theirs.load(Ordering::Relaxed), self.slabs.slabs_of(donor));
        // Old evictions count half at each look, so that the balance follows the workload.
        self.classes[class.index()].evictions.store(evictions / 2, Ordering::Relaxed);
        theirs.store(theirs.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
        starved
    }

    /// Whether the class has more than its least. Where pages are compressed, whole ones keep some room to be plain, and the others nothing: two
    /// dozen of them with a slab for a few pages each are a twentieth of a small budget.
    fn may_give(&self, class: Class) -> bool {
        let is_shared = self.compressions.load(Ordering::Relaxed) > 0;
        let least = match (is_shared, class == Class::WHOLE) {
            (true, true) => (self.slabs.count() / WHOLE_LEAST).max(1),
            (true, false) => 0,
            (false, _) => 1,
        };
        self.slabs.slabs_of(class) as usize > least
    }

    fn largest_other(&self, class: Option<Class>) -> Option<Class> {
        Class::all()
            .filter(|&other| Some(other) != class && self.may_give(other))
            .max_by_key(|&other| self.slabs.slabs_of(other))
    }

    /// A slot of `class` in the slab that it wants; `None` while pages of that slab cannot leave.
    pub(super) fn allocate_from_other_class(
        &self,
        class: Class,
        page: PageId,
        entries: &EntryTable,
    ) -> Option<SlotId> {
        let slot = if self.empty_wanted(Some(class), entries) {
            self.slabs.allocate_kept(class, page)?
        } else {
            self.slabs.allocate(class, page)?
        };
        self.objects.fetch_add(1, Ordering::Relaxed);
        Some(slot)
    }

    /// Empties the slab that `class` wants, if its pages may leave; whether it did.
    fn empty_wanted(&self, class: Option<Class>, entries: &EntryTable) -> bool {
        let Some((donor, slab)) = self.wanted_slab(class) else { return false };
        if self.drain(donor, slab, entries) {
            self.wanted(class).set(NONE);
            return true;
        }
        let attempts = self.wanted(class).attempts.fetch_add(1, Ordering::Relaxed);
        if attempts >= ATTEMPTS || self.has_pins(donor, slab, entries) {
            self.wanted(class).set(self.slabs.slab_after(donor, slab));
        }
        false
    }

    /// The slab that `class` wants and the class that has it: at first the one with that class's next victim.
    fn wanted_slab(&self, class: Option<Class>) -> Option<(Class, u32)> {
        let slab = self.wanted(class).slab.load(Ordering::Relaxed);
        let in_use = self.slabs.class_in_use(slab);
        if slab != NONE && (in_use.is_none() || in_use == class) {
            // Its pages have left by themselves: it is free as any other.
            self.wanted(class).set(NONE);
            return None;
        }
        if let Some(donor) = in_use.filter(|&donor| self.may_give(donor)) {
            return Some((donor, slab));
        }
        let donor = self.largest_other(class)?;
        let mut chosen = self.slabs.slab_after(donor, NONE);
        self.upcoming(donor, 1, &mut |slot, _| chosen = slot.slab());
        self.wanted(class).set(chosen);
        Some((donor, chosen))
    }

    /// Slots in use of a slab that cannot leave `class` now.
    fn owners(&self, class: Class, slab: u32) -> impl Iterator<Item = (SlotId, PageId)> {
        self.slabs.slots_in(class, slab).filter_map(move |slot| Some((slot, self.slabs.owner(class, slot)?)))
    }

    /// Pages in a slab, if `class` has it. It stays there for as long as the iterator lives, in which nothing
    /// may be allocated or freed.
    fn pages_in(&self, class: Class, slab: u32) -> impl Iterator<Item = PageId> {
        let sweep = self.slabs.sweep();
        let is_there = self.slabs.class_in_use(slab) == Some(class);
        let owners = is_there.then(|| self.owners(class, slab)).into_iter().flatten();
        owners.map(move |(_, page)| {
            let _ends_with_the_iterator = &sweep;
            page
        })
    }

    fn has_pins(&self, class: Class, slab: u32, entries: &EntryTable) -> bool {
        self.pages_in(class, slab).any(|page| entries.find(page).is_some_and(Entry::is_pinned))
    }

    /// Empties a slab of `donor` if all its pages may leave; returns whether it is free now.
    fn drain(&self, donor: Class, slab: u32, entries: &EntryTable) -> bool {
        // Looked at first, so that none leaves in vain.
        let all_may_leave = self.pages_in(donor, slab).all(|page| entries.find(page).is_some_and(may_leave));
        if all_may_leave && self.slabs.retire_empty(donor, slab) {
            return true;
        }
        if !all_may_leave || !self.slabs.start_draining(donor, slab) {
            return false;
        }
        let view = self.view(donor);
        for (slot, _) in self.owners(donor, slab) {
            if !self.try_empty(donor, slot, entries) {
                break;
            }
            self.policy(donor).remove(&view, Position(self.slabs.position_of(donor, slot)));
            self.slabs.free(donor, slot);
            self.objects.fetch_sub(1, Ordering::Relaxed);
        }
        self.slabs.finish_draining(donor, slab)
    }

    /// Calls `visit` for the pages in the slab that `class` wants, or that is to be free. Some may have left meanwhile. `visit`
    /// neither allocates nor frees a slot.
    pub fn for_each_wanted(&self, class: Option<Class>, visit: &mut dyn FnMut(PageId)) {
        let slab = self.wanted(class).slab.load(Ordering::Relaxed);
        let Some(donor) = self.slabs.class_in_use(slab) else { return };
        self.pages_in(donor, slab).for_each(visit);
    }
}
