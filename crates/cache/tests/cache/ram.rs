//! Pages in RAM: their entries, their slots, and what a fault, a writer and an eviction do to them.

use aquifer_base::PageId;
use aquifer_cache::{Class, ObjectCache, PolicyKind, SlotId};
use aquifer_map::{Entry, EntryTable, State};

const SLABS: usize = 16;
/// Slabs, and beside each three words for each of its sixteen whole pages.
const CACHE_BYTES: usize = SLABS * ((64 << 10) + 16 * 3 * 8);

pub struct Ram {
    pub entries: EntryTable,
    pub cache: ObjectCache,
}

/// What a page is left as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    Clean,
    Dirty,
    Mapped,
    Pinned,
}

pub fn class(bytes: usize) -> Class {
    Class::for_bytes(bytes).expect("a page has at most 4096 bytes")
}

impl Ram {
    pub fn new(policy: PolicyKind) -> Self {
        let cache = ObjectCache::new(CACHE_BYTES, policy).expect("address space");
        Self { entries: EntryTable::new(200_000), cache }
    }

    /// A fault without its I/O: a slot for the page, if it has none. False if there is no room now.
    pub fn bring_in(&self, page: u64, bytes: usize, left: Left) -> bool {
        let locked = self.entries.lock(PageId(page)).expect("the table is large");
        let slot = match locked.before().and_then(Entry::slot) {
            Some(slot) => SlotId(slot),
            None => match self.cache.allocate(class(bytes), PageId(page), &self.entries) {
                Some(slot) => slot,
                None => {
                    locked.remove();
                    return false;
                }
            },
        };
        self.cache.set_has_memory(slot, true);
        let held = locked.entry();
        let entry = match left {
            Left::Clean => held.cached(slot.0),
            Left::Dirty => held.cached(slot.0).with_dirty(true),
            Left::Mapped => held.mapped(slot.0, false),
            Left::Pinned => held.mapped(slot.0, true).with_pinned(true),
        };
        locked.release(entry);
        true
    }

    /// Compresses a whole page that is in RAM, into a slot of `bytes`; false if there is no room now.
    pub fn compress(&self, page: u64, bytes: usize) -> bool {
        let locked = self.entries.lock(PageId(page)).expect("the table is large");
        let whole = locked.before().and_then(Entry::slot).expect("it is in RAM");
        let Some(slot) = self.cache.allocate(class(bytes), PageId(page), &self.entries) else {
            let before = locked.before().expect("as above");
            locked.release(before);
            return false;
        };
        self.cache.free_compressed(SlotId(whole), &self.entries);
        let entry = locked.entry().compressed(slot.0);
        locked.release(entry);
        true
    }

    /// Brings in pages from `first` on until every slot is in use; returns how many there are.
    pub fn fill(&self, first: u64, bytes: usize, left: impl Fn(u64) -> Left) -> u64 {
        assert!(self.bring_in(first, bytes, left(first)));
        let count = (self.cache.slots(class(bytes)) * SLABS) as u64;
        (first + 1..first + count).for_each(|page| assert!(self.bring_in(page, bytes, left(page))));
        assert_eq!(self.cache.evicted(), 0);
        count
    }

    pub fn has(&self, page: u64) -> bool {
        self.entries.find(PageId(page)).is_some()
    }

    /// What the writer does to one page, if it is cached and dirty.
    pub fn write_back(&self, page: PageId) {
        let wanted = |entry: Entry| entry.state() == State::Cached && entry.is_dirty();
        if let Some(locked) = self.entries.try_lock_if(page, wanted) {
            let slot = locked.entry().slot().expect("cached");
            let entry = locked.entry().cached(slot).with_dirty(false);
            locked.release(entry);
        }
    }

    /// What the writer does in one pass.
    pub fn writer_pass(&self, ahead: usize) {
        for class in Class::all() {
            let mut pages = Vec::new();
            self.cache.for_each_wanted(Some(class), &mut |page| pages.push(page));
            self.cache.upcoming(class, ahead, &mut |_, page| pages.push(page));
            pages.into_iter().for_each(|page| self.write_back(page));
        }
    }

    /// Frees a page as the heap does.
    pub fn free(&self, page: u64) {
        if let Some(locked) = self.entries.lock_resident(PageId(page)) {
            self.cache.free(SlotId(locked.entry().slot().expect("it has one")));
            locked.remove();
        }
    }

    /// Every entry names a slot that its page owns, every slot in use belongs to a page whose entry names it.
    pub fn check(&self) {
        let (mut slots, mut entries) = (0, 0);
        self.cache.for_each(&mut |slot, page| {
            slots += 1;
            let named = self.entries.find(page).and_then(Entry::slot);
            assert_eq!(named, Some(slot.0), "slot of {page:?}");
        });
        self.entries.for_each(&mut |page, entry| {
            entries += 1;
            let slot = SlotId(entry.slot().expect("pages at rest have slots"));
            assert_eq!(self.cache.owner(slot), Some(page));
        });
        assert_eq!((slots, entries), (self.cache.objects(), self.cache.objects()));
        assert!(self.cache.ram_bytes() <= CACHE_BYTES + CACHE_BYTES / 64);
    }
}
