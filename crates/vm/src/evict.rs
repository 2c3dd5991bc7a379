//! Page buffer to cache, in batches.
//!
//! 1. Take up to 64 of the oldest pages, holding their entries.
//! 2. Take hold of the pages that were mapped writable, so that no write to them is lost (`save`). A page that was
//!    only read is equal to its slot already.
//! 3. Unmap all in one call (one TLB shootdown); a range that lost its last page goes as a whole, with
//!    its page table.
//! 4. Compare each page that was held with its slot: if it was written, its bytes go there and it is dirty.
//! 5. Release the entries as cached.
//!
//! This runs in the thread whose fault found the page buffer full.

use std::sync::atomic::Ordering;

use aquifer_base::limits::{LEAF_RANGE_BYTES, OS_PAGE_BYTES};
use aquifer_base::{LeafId, PageId};
use aquifer_map::{Entry, Locked, State};
use aquifer_sys::Backoff;

use crate::engine::Engine;
use crate::pool::PoolGuard;
use crate::save::Saver;

/// Share of the page buffer for pages that are on their way out: one in this many.
const LEAVING: usize = 8;
/// How often one fault tries to make room by evicting, and how often it waits for other threads that do.
const TRIES: usize = 32;
/// Who evicts may have lost the processor. After [`TRIES`] the page buffer may exceed its share by half, three per cent of
/// the budget, rather than keep faults from the device; beyond that they wait, a second at most.
const WAITS_MAX: usize = 10_000;
/// Pages that leave together.
pub(crate) const BATCH: usize = 64;

/// A page that leaves.
pub(crate) struct Leaving<'a> {
    pub(crate) page: PageId,
    /// Bytes of the page when it was taken. From then on only these count: its leaf may be taken back before the page has
    /// left, and its pages have no bytes then ([`Engine::take_back_leaf`]).
    pub(crate) page_bytes: usize,
    pub(crate) locked: Locked<'a>,
}

/// The pages that leave together.
pub(crate) struct Batch<'a> {
    pages: [Option<Leaving<'a>>; BATCH],
    len: usize,
    /// Bit n is set if page n was found written.
    written: u64,
}

impl<'a> Batch<'a> {
    pub(crate) fn new() -> Self {
        Self { pages: [const { None }; BATCH], len: 0, written: 0 }
    }

    fn take(&mut self, leaving: Leaving<'a>) {
        self.pages[self.len] = Some(leaving);
        self.len += 1;
    }

    /// The pages taken so far.
    pub(crate) fn taken(&self) -> impl Iterator<Item = &Leaving<'a>> {
        self.pages.iter().map_while(Option::as_ref)
    }

    /// Those of them that are writable.
    pub(crate) fn writable(&self) -> impl Iterator<Item = &Leaving<'a>> {
        self.taken().filter(|leaving| leaving.locked.entry().is_writable())
    }

    /// Calls `save`, which tells whether the page was written, for each page that is writable.
    pub(crate) fn save_each(&mut self, mut save: impl FnMut(&Leaving<'a>) -> bool) {
        for (n, leaving) in self.pages.iter().map_while(Option::as_ref).enumerate() {
            if leaving.locked.entry().is_writable() && save(leaving) {
                self.written |= 1 << n;
            }
        }
    }
}

impl Engine {
    fn units_used(&self) -> usize {
        self.page_buffer.len() + self.ranges.live()
    }

    /// Evicts until the page buffer has room for `pages` more and a page table.
    ///
    /// A part of it is for pages that are on their way out in other threads. Beyond that, wait for them.
    pub(crate) fn make_page_room_in_fault(&self, pages: usize) {
        let (share, most) = (self.page_buffer_units, self.page_buffer_units / 2 * 3);
        let limit = share - share / LEAVING;
        let mut backoff = Backoff::new();
        let (mut evictions, mut waits) = (0, 0);
        // Bounded: pinned and busy pages may keep it full for a while; the page queue has some slack.
        while evictions < TRIES && waits < WAITS_MAX {
            let used = self.units_used() + pages;
            let mapped = used + self.leaving.load(Ordering::Relaxed);
            if used >= limit {
                self.evict_pages_in_fault();
                evictions += 1;
            } else if mapped < share || (waits >= TRIES && mapped < most) {
                return;
            } else {
                backoff.wait();
                waits += 1;
            }
        }
    }

    /// Evicts one batch of the oldest pages.
    pub(crate) fn evict_pages_in_fault(&self) {
        let mut pages = [PageId(0); BATCH];
        let wanted = (self.page_buffer_units / 8).clamp(1, BATCH);
        self.leaving.fetch_add(wanted, Ordering::Relaxed);
        let count = self.page_buffer.pop_in_fault(&mut pages[..wanted]);
        let mut batch = Batch::new();
        for &page in &pages[..count] {
            self.take_for_eviction_in_fault(page, &mut batch);
        }
        self.unmap_in_fault(batch);
        self.leaving.fetch_sub(wanted, Ordering::Relaxed);
    }

    /// Evicts one page that may not be in the queue.
    pub(crate) fn evict_page_in_fault(&self, page: PageId) {
        let mut batch = Batch::new();
        self.take_for_eviction_in_fault(page, &mut batch);
        self.unmap_in_fault(batch);
    }

    fn take_for_eviction_in_fault<'a>(&'a self, page: PageId, batch: &mut Batch<'a>) {
        if self.take_mapped_in_fault(page, batch) {
            return;
        }
        match self.entries.find(page) {
            // Somebody is looking at it now: it keeps its place in the queue, at the end.
            Some(entry) if entry.state() != State::Cached && !entry.is_pinned() && !self.is_whole(page) => {
                self.page_buffer.push_in_fault(page);
            }
            // It left already, or comes back to the queue when it is unpinned.
            _ => {}
        }
    }

    /// Adds a page to the batch if it is mapped and may leave now; returns whether it was added.
    pub(crate) fn take_mapped_in_fault<'a>(&'a self, page: PageId, batch: &mut Batch<'a>) -> bool {
        let may_leave = |entry: Entry| entry.state() == State::Mapped && !entry.is_pinned();
        let Some(locked) = self.entries.try_lock_if(page, may_leave) else { return false };
        let page_bytes = self.leaves.page_bytes(page.leaf());
        batch.take(Leaving { page, page_bytes, locked });
        true
    }

    pub(crate) fn unmap_in_fault(&self, mut batch: Batch<'_>) {
        if batch.len == 0 {
            return;
        }
        let saver = self.hold_written_in_fault(&mut batch);
        self.unmap_held_in_fault(batch, saver);
    }

    /// Unmaps the pages of a batch, whose written ones are held by the saver or saved, and gives their entries back.
    pub(crate) fn unmap_held_in_fault(&self, mut batch: Batch<'_>, saver: Option<PoolGuard<'_, Saver>>) {
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut ranges = [none; 2 * BATCH];
        let mut ranges_len = 0;
        let mut dropped = [None; BATCH];
        self.save_read_only_in_fault(&batch);
        for (n, Leaving { page, locked, .. }) in batch.taken().enumerate() {
            if !locked.entry().is_writable() {
                self.first_writes.note_read_only_in_fault(page.leaf());
            }
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
        self.grace.drop_in_fault(dropped.iter().flatten().count() as u64);
        let stale = self.take_stale_in_fault(&mut ranges, &mut ranges_len);
        // SAFETY: the pages' bytes are in their slots or held, and their entries are held; ranges are ours and
        // locked by their counts.
        let unmapped = unsafe { self.discarder.discard(&ranges[..ranges_len]) };
        if unmapped.is_err() {
            crate::fault::abort_in_fault(b"the kernel refused to unmap pages of a heap\n");
        }
        self.release_stale_in_fault(stale);
        for leaf in dropped[..batch.len].iter().flatten() {
            self.ranges.dropped_in_fault(*leaf);
        }
        if let Some(mut saver) = saver {
            self.save_held_in_fault(&mut batch, &mut saver);
        }
        let Batch { mut pages, len, written } = batch;
        for (n, Leaving { locked, .. }) in pages.iter_mut().map_while(Option::take).enumerate() {
            let entry = locked.entry();
            let slot = entry.slot().expect("a mapped page has a slot");
            let written = written >> n & 1 == 1;
            if written && !entry.is_dirty() {
                self.dirty.fetch_add(1, Ordering::Relaxed);
            }
            let entry = entry.cached(slot).with_dirty(written || entry.is_dirty());
            locked.release(entry);
        }
        self.counters.evicted_pages.add(len as u64);
    }

    /// What to unmap so that `page` goes, and the range if it goes as a whole.
    fn unmapping_in_fault(&self, page: PageId) -> (libc::iovec, Option<LeafId>) {
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
        self.grace.drop_in_fault(u64::from(dropped.is_some()));
        // SAFETY: the caller holds the entry and wants the bytes gone.
        if unsafe { self.discarder.discard(&[range]) }.is_err() {
            crate::fault::abort_in_fault(b"the kernel refused to unmap a page of a heap\n");
        }
        if let Some(leaf) = dropped {
            self.ranges.dropped_in_fault(leaf);
        }
    }

    /// A page that was announced to its range was not mapped after all.
    pub(crate) fn leave_range_in_fault(&self, leaf: LeafId) {
        if !self.ranges.leave_in_fault(leaf) {
            return;
        }
        self.grace.drop_in_fault(1);
        let start = self.address_of(leaf.page(0));
        let range = libc::iovec { iov_base: start.cast(), iov_len: LEAF_RANGE_BYTES };
        // SAFETY: no page of the range is mapped.
        if unsafe { self.discarder.discard(&[range]) }.is_err() {
            crate::fault::abort_in_fault(b"the kernel refused to drop a range of a heap\n");
        }
        self.ranges.dropped_in_fault(leaf);
    }
}
