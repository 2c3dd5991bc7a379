//! What is in RAM, and in which form.
//!
//! | file | noun |
//! |---|---|
//! | `held` | a page whose entry this thread holds: the only way to change it |
//! | `compressed` | whole pages that are compressed, and what does that |
//! | `page_buffer` | which small pages are mapped, in order of arrival |
//! | `digests` | what tells whether a whole page was written |
//! | `stale` | whole pages that are mapped, and whose slots have memory still |

mod compressed;
mod digests;
mod held;
mod page_buffer;
mod stale;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_base::{LeafId, PageId};
use aquifer_cache::{Class, Distances, ObjectCache, PolicyKind, SlotId};
use aquifer_map::entries::TableFull;
use aquifer_map::{Entry, EntryTable, Locked, State};
use aquifer_sys::Errno;

use crate::budget::Budget;
pub use compressed::Compression;
use digests::Digests;
use page_buffer::PageBuffer;
use stale::Stale;

pub(crate) use compressed::{Compressor, may_be_compressed};
pub(crate) use held::Held;

/// Share of a class's slots that the writer keeps clean ahead of eviction: one in this many.
const AHEAD: usize = 32;
/// Fewest and most slots that one look ahead takes in.
const AHEAD_MIN: usize = 64;
const AHEAD_MAX: usize = 4096;

/// The pages of one heap that are in RAM.
pub(crate) struct Residence {
    entries: EntryTable,
    cache: ObjectCache,
    page_buffer: PageBuffer,
    page_buffer_units: usize,
    /// Pages that were taken from the page buffer and may still be mapped.
    leaving: AtomicUsize,
    stale: Stale,
    digests: Digests,
    /// Pages whose newest bytes are only in RAM.
    dirty: AtomicU64,
    /// How long threads waited for room.
    room_wait_ns: AtomicU64,
    /// Whether whole pages are compressed before they leave RAM.
    compression: Compression,
    /// None is until that many pages have left RAM.
    compression_rests_until: AtomicU64,
}

/// Whether nobody uses the page in its slot.
pub(crate) fn is_unused(entry: Entry) -> bool {
    entry.state() != State::Cached || !entry.is_pinned()
}

/// Whether the page is at its address and may leave it.
pub(crate) fn may_leave(entry: Entry) -> bool {
    entry.state() == State::Mapped && !entry.is_pinned()
}

/// Whether the page may be written to flash. A page in use in its slot may not: the user may be writing to
/// it.
pub(crate) fn may_be_written(entry: Entry) -> bool {
    entry.state() == State::Cached && entry.is_dirty() && !entry.is_pinned()
}

impl Residence {
    /// No pages yet.
    ///
    /// # Errors
    /// The kernel refused the address space.
    pub(crate) fn new(budget: &Budget, policy: PolicyKind, compression: Compression) -> Result<Self, Errno> {
        Ok(Self {
            entries: EntryTable::new(budget.entries),
            cache: ObjectCache::new(budget.cache, policy)?,
            page_buffer: PageBuffer::new(budget.page_buffer_units() + 128),
            page_buffer_units: budget.page_buffer_units(),
            leaving: AtomicUsize::new(0),
            stale: Stale::new(budget.cache / OS_PAGE_BYTES / 64),
            digests: Digests::new(),
            dirty: AtomicU64::new(0),
            room_wait_ns: AtomicU64::new(0),
            compression,
            compression_rests_until: AtomicU64::new(0),
        })
    }

    // ---- Entries -------------------------------------------------------------

    /// The page's entry at this moment; `None` if the page is not in RAM.
    pub(crate) fn find(&self, page: PageId) -> Option<Entry> {
        self.entries.find(page)
    }

    /// Calls `visit` for every entry, in no particular order.
    pub(crate) fn for_each(&self, visit: &mut dyn FnMut(PageId, Entry)) {
        self.entries.for_each(visit);
    }

    /// Calls `visit` for every page of `leaf` that is in RAM.
    pub(crate) fn for_each_of_leaf(&self, leaf: LeafId, visit: &mut dyn FnMut(PageId, Entry)) {
        self.entries.for_each_of_leaf(leaf, visit);
    }

    /// Calls `visit` for every page that one entry of `page` would take the place of.
    pub(crate) fn for_each_rival(&self, page: PageId, visit: &mut dyn FnMut(PageId, Entry)) {
        self.entries.for_each_rival(page, visit);
    }

    fn held<'a>(&'a self, page: PageId, locked: Locked<'a>) -> Held<'a> {
        Held::new(self, page, locked)
    }

    /// Takes a page that is in RAM, if its entry may be taken now.
    pub(crate) fn try_hold(&self, page: PageId, may: impl Fn(Entry) -> bool) -> Option<Held<'_>> {
        Some(self.held(page, self.entries.try_lock_if(page, may)?))
    }

    /// Takes a page that is not in RAM, if nobody else does and there is room for its entry.
    pub(crate) fn try_hold_absent(&self, page: PageId) -> Option<Held<'_>> {
        Some(self.held(page, self.entries.try_insert(page)?))
    }

    /// Takes a page; `None` if somebody else holds it.
    ///
    /// # Errors
    /// There is no room for its entry.
    pub(crate) fn try_hold_any(&self, page: PageId) -> Result<Option<Held<'_>>, TableFull> {
        Ok(self.entries.try_lock(page)?.map(|locked| self.held(page, locked)))
    }

    /// Takes a page that is in RAM, and waits while another thread holds it.
    pub(crate) fn hold_resident(&self, page: PageId) -> Option<Held<'_>> {
        Some(self.held(page, self.entries.lock_resident(page)?))
    }

    // ---- Uses in slots -------------------------------------------------------

    /// Begins the use of a page that is in its slot and that nobody uses; where its bytes are.
    #[inline]
    pub(crate) fn try_use(&self, page: PageId, write: bool) -> Option<*mut u8> {
        let first_use = |entry: Entry| {
            let is_free = entry.state() == State::Cached && !entry.is_pinned() && !entry.is_compressed();
            is_free.then(|| entry.with_pinned(true).with_dirty(entry.is_dirty() || write))
        };
        let (before, after) = self.entries.exchange(page, first_use)?;
        if after.is_dirty() && !before.is_dirty() {
            self.dirty.fetch_add(1, Ordering::Relaxed);
        }
        let slot = SlotId(before.slot().expect("a cached page has a slot"));
        self.cache.touch(slot);
        Some(self.cache.pointer(slot))
    }

    /// Ends the only use of a page in its slot; false if it has none or more.
    #[inline]
    pub(crate) fn try_end_use(&self, page: PageId) -> bool {
        let only_use = |entry: Entry| {
            let is_only = entry.state() == State::Cached && entry.is_pinned() && !entry.is_shared();
            is_only.then(|| entry.with_pinned(false))
        };
        self.entries.exchange(page, only_use).is_some()
    }

    #[inline]
    fn note_dirty(&self, before: bool, after: bool) {
        if after && !before {
            self.dirty.fetch_add(1, Ordering::Relaxed);
        } else if before && !after {
            self.dirty.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether any page is newer than on flash.
    pub(crate) fn has_dirty(&self) -> bool {
        self.dirty.load(Ordering::Relaxed) > 0
    }

    // ---- Slots ---------------------------------------------------------------

    /// A slot for `page`; a clean page leaves RAM for it. `None` if there is none now.
    pub(crate) fn allocate_slot(&self, class: Class, page: PageId) -> Option<SlotId> {
        self.cache.allocate(class, page, &self.entries)
    }

    /// Gives back a slot that was allocated and not published.
    pub(crate) fn free_slot(&self, slot: SlotId) {
        self.cache.free(slot);
    }

    /// Where a slot's bytes are.
    #[inline]
    pub(crate) fn pointer(&self, slot: SlotId) -> *mut u8 {
        self.cache.pointer(slot)
    }

    /// The page of a slot was used; whether it is a whole one that was read ahead, and this is its first use.
    #[inline]
    pub(crate) fn touch(&self, slot: SlotId) -> bool {
        self.cache.touch(slot)
    }

    /// Notes that the page of a slot was read before anybody wanted it.
    pub(crate) fn note_read_ahead(&self, slot: SlotId) {
        self.cache.note_read_ahead(slot);
    }

    /// Slots of a class.
    pub(crate) fn slots(&self, class: Class) -> usize {
        self.cache.slots(class)
    }

    /// How many of the slots of a class the writer keeps clean ahead of eviction.
    pub(crate) fn slots_ahead(&self, class: Class) -> usize {
        (self.cache.slots(class) / AHEAD).clamp(AHEAD_MIN, AHEAD_MAX)
    }

    /// Pages that have left RAM so far.
    pub(crate) fn evicted(&self) -> u64 {
        self.cache.evicted()
    }

    /// Notes that a thread has waited for room.
    pub(crate) fn note_room_wait(&self, ns: u64) {
        self.room_wait_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// How long threads have waited for room so far, nanoseconds.
    pub(crate) fn room_wait_ns(&self) -> u64 {
        self.room_wait_ns.load(Ordering::Relaxed)
    }

    /// Notes that a page is wanted which is not in RAM, but on flash.
    pub(crate) fn note_back(&self, page: PageId) {
        self.cache.note_back(page);
    }

    /// How far pages had gone that came back.
    pub(crate) fn distances(&self) -> Distances {
        self.cache.distances()
    }

    /// Has a page leave RAM that is in its slot, clean and unused; whether it did.
    pub(crate) fn evict(&self, page: PageId) -> bool {
        self.cache.evict_page(page, &self.entries)
    }

    /// Leaves `bytes` of the slots' RAM to others from now on.
    pub(crate) fn set_reserved(&self, bytes: usize) {
        self.cache.set_reserved(bytes);
    }

    /// Whether slots have more RAM than others leave.
    pub(crate) fn lacks_reserved(&self) -> bool {
        self.cache.lacks_reserved()
    }

    /// Tries to free a slab for others.
    pub(crate) fn free_slab(&self) {
        self.cache.free_slab(&self.entries);
    }

    /// Calls `visit` for the pages of the slab that `class` waits for, or that is to be free.
    pub(crate) fn for_each_wanted(&self, class: Option<Class>, visit: &mut dyn FnMut(PageId)) {
        self.cache.for_each_wanted(class, visit);
    }

    /// Calls `visit` for `count` pages of a class that leave RAM next.
    pub(crate) fn upcoming(&self, class: Class, count: usize, visit: &mut dyn FnMut(PageId)) {
        self.cache.upcoming(class, count, &mut |_, page| visit(page));
    }

    /// Whether the page of a slot was not used of late.
    pub(crate) fn is_cold(&self, slot: SlotId) -> bool {
        self.cache.is_cold(slot)
    }

    /// Whether used pages stay longer than others.
    pub(crate) fn set_spares_used(&self, spares: bool) {
        self.cache.set_spares_used(spares);
    }

    /// Calls `visit` for every slot in use.
    pub(crate) fn for_each_slot(&self, visit: &mut dyn FnMut(SlotId, PageId)) {
        self.cache.for_each(visit);
    }

    /// The page that has a slot.
    pub(crate) fn owner(&self, slot: SlotId) -> Option<PageId> {
        self.cache.owner(slot)
    }

    // ---- Pages at their addresses --------------------------------------------

    /// Most pages that may be pinned at a time.
    pub(crate) fn pin_limit(&self) -> usize {
        (self.page_buffer_units + self.cache.slots(Class::WHOLE)) / 4
    }

    /// The same for whole pages, of all slots that they could get: few may be in use now.
    pub(crate) fn pin_limit_at_most(&self) -> usize {
        (self.page_buffer_units + self.cache.slots_to_be_had(Class::WHOLE)) / 4
    }

    /// Room of the page buffer, in pages and page tables.
    pub(crate) fn page_buffer_units(&self) -> usize {
        self.page_buffer_units
    }

    /// Pages in the page buffer.
    pub(crate) fn buffered(&self) -> usize {
        self.page_buffer.len()
    }

    /// Adds a small page that is mapped; false if there is no room.
    pub(crate) fn push_mapped_in_fault(&self, page: PageId) -> bool {
        self.page_buffer.push_in_fault(page)
    }

    /// Takes up to `out.len()` of the small pages that should leave their addresses next; returns how many. Until
    /// [`Residence::have_left`] they count as leaving.
    pub(crate) fn pop_mapped_in_fault(&self, out: &mut [PageId]) -> usize {
        self.leaving.fetch_add(out.len(), Ordering::Relaxed);
        self.page_buffer.pop_in_fault(out)
    }

    /// `count` places that were asked for have left.
    pub(crate) fn have_left(&self, count: usize) {
        self.leaving.fetch_sub(count, Ordering::Relaxed);
    }

    /// Pages that were taken from the page buffer and may still be mapped.
    pub(crate) fn leaving(&self) -> usize {
        self.leaving.load(Ordering::Relaxed)
    }

    /// How many whole pages should leave their addresses now.
    pub(crate) fn unmapping_due(&self) -> usize {
        self.cache.unmapping_due()
    }

    /// The whole pages that should leave their addresses next, among at most `due`; returns how many.
    pub(crate) fn next_to_unmap(&self, due: usize, out: &mut [PageId]) -> usize {
        self.cache.next_to_unmap(due, out)
    }

    // ---- Account -------------------------------------------------------------

    /// RAM of slots and what is kept with them, and of these what is kept with them.
    pub(crate) fn cache_bytes(&self) -> (usize, usize) {
        (self.cache.ram_bytes(), self.cache.metadata_bytes())
    }

    /// RAM of entries and queues.
    pub(crate) fn table_bytes(&self) -> usize {
        self.entries.ram_bytes() + self.page_buffer.ram_bytes()
    }

    /// Pages in slots.
    pub(crate) fn objects(&self) -> u64 {
        self.cache.objects()
    }
}
