//! Page buffer to cache, in batches.
//!
//! 1. Take up to 64 of the oldest pages, holding their entries.
//! 2. Pages that were mapped writable are write-protected, so that no write can come in between, and each is
//!    compared with its slot: if it was written, its bytes go there and it is dirty. A page that was only read is
//!    equal to its slot already.
//! 3. Unmap all in one call (one TLB shootdown); a range that lost its last page goes as a whole, with
//!    its page table.
//! 4. Release the entries as cached.
//!
//! This runs in the thread whose fault found the page buffer full.

use std::sync::atomic::Ordering;

use aquifer_base::PageId;
use aquifer_base::limits::{LEAF_RANGE_BYTES, OS_PAGE_BYTES};
use aquifer_cache::SlotId;
use aquifer_map::{Locked, State};

use crate::engine::Engine;

const BATCH: usize = 64;

/// What a batch has collected so far.
struct Batch<'a> {
    locked: [Option<(PageId, Locked<'a>)>; BATCH],
    len: usize,
}

impl Engine {
    fn units_used(&self) -> usize {
        self.page_buffer.len() + self.ranges.live()
    }

    /// Evicts until the page buffer has room for `pages` more and a page table.
    pub(crate) fn make_page_room_in_fault(&self, pages: usize) {
        // Bounded: pinned and busy pages may keep it full for a while; the page queue has some slack.
        for _ in 0..16 {
            if self.units_used() + pages < self.page_buffer_units {
                return;
            }
            self.evict_pages_in_fault();
        }
    }

    /// Evicts one batch of the oldest pages.
    pub(crate) fn evict_pages_in_fault(&self) {
        let mut pages = [PageId(0); BATCH];
        let wanted = (self.page_buffer_units / 8).clamp(1, BATCH);
        let count = self.page_buffer.pop_in_fault(&mut pages[..wanted]);
        let mut batch = Batch { locked: [const { None }; BATCH], len: 0 };
        for &page in &pages[..count] {
            self.take_for_eviction_in_fault(page, &mut batch);
        }
        self.unmap_in_fault(batch);
    }

    /// Evicts one page that may not be in the queue.
    pub(crate) fn evict_page_in_fault(&self, page: PageId) {
        let mut batch = Batch { locked: [const { None }; BATCH], len: 0 };
        self.take_for_eviction_in_fault(page, &mut batch);
        self.unmap_in_fault(batch);
    }

    fn take_for_eviction_in_fault<'a>(&'a self, page: PageId, batch: &mut Batch<'a>) {
        match self.entries.try_lock_if(page, |e| e.state() == State::Mapped && !e.is_pinned()) {
            Some(locked) => {
                batch.locked[batch.len] = Some((page, locked));
                batch.len += 1;
            }
            // Somebody is looking at it now: it keeps its place in the queue, at the end.
            None => match self.entries.find(page) {
                Some(entry) if entry.state() != State::Cached && !entry.is_pinned() => {
                    self.page_buffer.push_in_fault(page);
                }
                // It left already, or comes back to the queue when it is unpinned.
                _ => {}
            },
        }
    }

    fn unmap_in_fault(&self, mut batch: Batch<'_>) {
        if batch.len == 0 {
            return;
        }
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut ranges = [none; BATCH];
        let mut ranges_len = 0;
        let mut dropped = [None; BATCH];
        let mut written = [false; BATCH];
        self.protect_in_fault(&batch);
        for n in 0..batch.len {
            let (page, locked) = batch.locked[n].as_ref().expect("filled up to len");
            written[n] = self.save_in_fault(*page, locked);
            let (range, leaf) = self.unmapping_in_fault(*page);
            dropped[n] = leaf;
            match ranges[..ranges_len].last_mut() {
                Some(last) if last.iov_base as usize + last.iov_len == range.iov_base as usize => {
                    last.iov_len += range.iov_len;
                }
                _ => {
                    ranges[ranges_len] = range;
                    ranges_len += 1;
                }
            }
        }
        // SAFETY: the pages are write-protected, their bytes are in their slots, and their entries are
        // held; ranges are ours and locked by their counts.
        let unmapped = unsafe { self.discarder.discard(&ranges[..ranges_len]) };
        if unmapped.is_err() {
            crate::fault::abort_in_fault(b"the kernel refused to unmap pages of a heap\n");
        }
        for leaf in dropped[..batch.len].iter().flatten() {
            self.ranges.dropped_in_fault(*leaf);
        }
        for (slot, written) in batch.locked[..batch.len].iter_mut().zip(written) {
            let (_, locked) = slot.take().expect("filled up to len");
            let slot = locked.entry().slot().expect("a mapped page has a slot");
            if written && !locked.entry().is_dirty() {
                self.dirty.fetch_add(1, Ordering::Relaxed);
            }
            let entry = locked.entry().cached(slot).with_dirty(written || locked.entry().is_dirty());
            locked.release(entry);
        }
        self.counters.evicted_pages.fetch_add(batch.len as u64, Ordering::Relaxed);
    }

    /// Excludes writes to the writable pages of the batch, neighbours in one call.
    fn protect_in_fault(&self, batch: &Batch<'_>) {
        let writable = |n: usize| {
            let taken = batch.locked.get(n).and_then(Option::as_ref);
            taken.filter(|(_, locked)| locked.entry().is_writable()).map(|(page, _)| page.0)
        };
        let mut n = 0;
        while n < batch.len {
            let Some(first) = writable(n) else {
                n += 1;
                continue;
            };
            let count =
                (1..).take_while(|&ahead| writable(n + ahead) == Some(first + ahead as u64)).count() + 1;
            // SAFETY: the pages are mapped and their entries are held.
            let outcome = unsafe {
                self.uffd.write_protect(self.address_of(PageId(first)), count * OS_PAGE_BYTES, true)
            };
            if outcome.is_err() {
                crate::fault::abort_in_fault(b"the kernel refused to write-protect pages of a heap\n");
            }
            n += count;
        }
    }

    /// Copies the bytes of a page that may have been written to its slot. Returns whether it was.
    fn save_in_fault(&self, page: PageId, locked: &Locked<'_>) -> bool {
        let entry = locked.entry();
        if !entry.is_writable() {
            return false;
        }
        let slot = SlotId(entry.slot().expect("a mapped page has a slot"));
        let page_bytes = self.leaves.page_bytes(page.leaf());
        // SAFETY: the page is present and write-protected, so it cannot change.
        let newer = unsafe { std::slice::from_raw_parts(self.address_of(page), page_bytes) };
        // SAFETY: the slot is the page's, whose entry is held, and has room.
        let older = unsafe { std::slice::from_raw_parts_mut(self.cache.pointer(slot), page_bytes) };
        let written = newer != older;
        if written {
            older.copy_from_slice(newer);
        }
        written
    }

    /// What to unmap so that `page` goes, and the range if it goes as a whole.
    fn unmapping_in_fault(&self, page: PageId) -> (libc::iovec, Option<aquifer_base::LeafId>) {
        if self.ranges.leave_in_fault(page.leaf()) {
            let start = self.address_of(page.leaf().page(0));
            (libc::iovec { iov_base: start.cast(), iov_len: LEAF_RANGE_BYTES }, Some(page.leaf()))
        } else {
            (libc::iovec { iov_base: self.address_of(page).cast(), iov_len: OS_PAGE_BYTES }, None)
        }
    }

    /// Takes a mapped page away without keeping its bytes. The caller holds its entry.
    pub(crate) fn drop_page(&self, page: PageId) {
        let (range, dropped) = self.unmapping_in_fault(page);
        // SAFETY: the caller holds the entry and wants the bytes gone.
        if unsafe { self.discarder.discard(&[range]) }.is_err() {
            crate::fault::abort_in_fault(b"the kernel refused to unmap a page of a heap\n");
        }
        if let Some(leaf) = dropped {
            self.ranges.dropped_in_fault(leaf);
        }
    }

    /// A page that was announced to its range could not be mapped after all.
    pub(crate) fn leave_range_in_fault(&self, page: PageId) {
        self.drop_page(page);
    }
}
