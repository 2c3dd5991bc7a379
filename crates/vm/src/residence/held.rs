//! A page whose entry this thread holds.

use aquifer_base::PageId;
use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_cache::{Class, SlotId};
use aquifer_map::{Entry, Locked};

use super::Residence;

/// A page whose entry this thread holds: nobody else brings it in, takes it away or changes what is known of it. Dropped, it is as it was.
pub(crate) struct Held<'a> {
    residence: &'a Residence,
    page: PageId,
    /// `None` once the entry was given back.
    locked: Option<Locked<'a>>,
}

impl<'a> Held<'a> {
    pub(super) fn new(residence: &'a Residence, page: PageId, locked: Locked<'a>) -> Self {
        Self { residence, page, locked: Some(locked) }
    }

    /// Which page.
    pub(crate) fn page(&self) -> PageId {
        self.page
    }

    /// The entry itself, as proof that it is held.
    pub(crate) fn locked(&self) -> &Locked<'a> {
        self.locked.as_ref().expect("an entry is held until it is given back")
    }

    /// The page's entry as it was; `None` if it is not in RAM.
    pub(crate) fn before(&self) -> Option<Entry> {
        self.locked().before()
    }

    /// The page's entry while it is held.
    pub(crate) fn entry(&self) -> Entry {
        self.locked().entry()
    }

    /// The page's slot.
    ///
    /// # Panics
    /// If the page is not in RAM.
    pub(crate) fn slot(&self) -> SlotId {
        SlotId(self.entry().slot().expect("a page in RAM has a slot"))
    }

    /// Whether the page may be written at its address.
    pub(crate) fn is_writable(&self) -> bool {
        self.entry().is_writable()
    }

    /// Gives the page back as `entry`.
    pub(crate) fn release(mut self, entry: Entry) -> Entry {
        let locked = self.locked.take().expect("an entry is given back once");
        let was_dirty = locked.before().is_some_and(Entry::is_dirty);
        locked.release(entry);
        self.residence.note_dirty(was_dirty, entry.is_dirty());
        entry
    }

    /// Gives the page back in its slot.
    pub(crate) fn release_cached(self, is_dirty: bool) {
        let entry = self.entry().cached(self.slot().0).with_dirty(is_dirty);
        self.release(entry);
    }

    /// Gives a cached page back as it was, but clean.
    pub(crate) fn release_clean(self) {
        let before = self.before().expect("a cached page is in RAM");
        self.release(before.with_dirty(false));
    }

    /// Gives back a whole page that may be compressed, in a slot of its own class with `packed` instead of its bytes; false, and it stays as it was, if there is no slot.
    pub(crate) fn release_compressed(self, packed: &[u8]) -> bool {
        let residence = self.residence;
        let class = Class::for_bytes(packed.len()).expect("it is shorter than a page");
        let Some(slot) = residence.allocate_slot(class, self.page()) else { return false };
        // SAFETY: the slot is the page's, whose entry is held, and has room.
        unsafe { residence.cache.pointer(slot).copy_from_nonoverlapping(packed.as_ptr(), packed.len()) };
        residence.cache.free_compressed(self.slot(), &residence.entries);
        let entry = self.entry().compressed(slot.0);
        self.release(entry);
        true
    }

    /// Ends the page's stay in RAM, without keeping its bytes. It is at no address.
    pub(crate) fn forget(mut self) {
        let locked = self.locked.take().expect("an entry is given back once");
        let entry = locked.entry();
        if let Some(slot) = entry.slot() {
            self.residence.cache.free(SlotId(slot));
        }
        self.residence.note_dirty(entry.is_dirty(), false);
        locked.remove();
    }

    /// The bytes of the page in its slot; in `plain`, if they are compressed there.
    ///
    /// # Safety
    /// The slot has `len` bytes, which are the page's, or the page is compressed.
    pub(crate) unsafe fn bytes<'b>(&'b self, len: usize, plain: &'b mut [u8; OS_PAGE_BYTES]) -> &'b [u8] {
        if self.before().is_some_and(Entry::is_compressed) {
            self.residence.decompress_in_fault(self.slot(), plain);
            return plain;
        }
        // SAFETY: we hold the entry of the page that owns the slot; the rest is passed on to the caller.
        unsafe { std::slice::from_raw_parts(self.residence.cache.pointer(self.slot()), len) }
    }

    /// Puts the bytes that a page had at last at its address in its slot. Returns whether they are new: those of a whole page, which had
    /// no others, if nothing tells that they are not; and of a whole page what is known.
    pub(crate) fn keep_in_fault(&self, newer: &[u8]) -> (bool, Option<bool>) {
        let (slot, cache) = (self.slot(), &self.residence.cache);
        // SAFETY: the slot is the page's, whose entry is held, and has room.
        let older = unsafe { std::slice::from_raw_parts_mut(cache.pointer(slot), newer.len()) };
        if newer.len() == OS_PAGE_BYTES {
            cache.set_has_memory(slot, true);
            older.copy_from_slice(newer);
            let is_as_mapped = self.residence.has_digest_in_fault(slot, newer);
            return (is_as_mapped != Some(true), is_as_mapped);
        }
        let written = newer != older;
        if written {
            older.copy_from_slice(newer);
        }
        (written, None)
    }

    /// Puts the bytes of a whole page that was only read in its slot, which has memory from now on.
    pub(crate) fn keep_unwritten_in_fault(&self, bytes: &[u8; OS_PAGE_BYTES]) {
        let slot = self.slot();
        // SAFETY: the slot is the page's, whose entry is held, and has room for it.
        unsafe { self.residence.cache.pointer(slot).copy_from_nonoverlapping(bytes.as_ptr(), OS_PAGE_BYTES) };
        self.residence.set_has_memory(slot, true);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(locked) = self.locked.take() {
            locked.restore();
        }
    }
}
