//! Pages leave their addresses for their slots, in batches.
//!
//! 1. Take up to 64 of the oldest pages, holding their entries.
//! 2. Secure the pages that were mapped writable, so that no write to them is lost ([`Secured`]). A small page that was
//!    only read is equal to its slot already.
//! 3. Unmap all in one call (one TLB shootdown); a range that lost its last page goes as a whole, with
//!    its page table.
//! 4. Compare each page that was secured with its slot or its digest: if it was written, its bytes go there and it is dirty.
//! 5. Release the entries as cached.
//!
//! This runs in the thread whose fault found no room.

use aquifer_base::PageId;
use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_map::State;

use crate::mapping::{BATCH, Secured, Vanishing};
use crate::pages::Pages;
use crate::residence::{Held, may_leave};

/// A page that leaves.
struct Leaving<'a> {
    held: Held<'a>,
    /// Bytes of the page when it was taken. From then on only these count: its leaf may be taken back before the page has
    /// left, and its pages have no bytes then ([`take_back_leaf`](crate::Engine::take_back_leaf)).
    page_bytes: usize,
}

/// The pages that leave together.
pub(crate) struct Batch<'a> {
    pages: &'a Pages,
    taken: [Option<Leaving<'a>>; BATCH],
    len: usize,
    /// Bit n is set if page n was found written.
    written: u64,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(pages: &'a Pages) -> Self {
        Self { pages, taken: [const { None }; BATCH], len: 0, written: 0 }
    }

    /// Adds a page if it is mapped and may leave now; whether it was added. There is room for it.
    pub(crate) fn take_in_fault(&mut self, page: PageId) -> bool {
        let Some(held) = self.pages.residence.try_hold(page, may_leave) else { return false };
        let page_bytes = self.pages.backing.leaves().page_bytes(page.leaf());
        self.taken[self.len] = Some(Leaving { held, page_bytes });
        self.len += 1;
        true
    }

    fn taken(&self) -> impl Iterator<Item = &Leaving<'a>> + Clone {
        self.taken.iter().map_while(Option::as_ref)
    }

    fn writable(&self) -> impl Iterator<Item = &Leaving<'a>> + Clone {
        self.taken().filter(|leaving| leaving.held.is_writable())
    }

    /// Has the pages leave.
    pub(crate) fn leave_in_fault(mut self) {
        if self.len > 0 {
            let secured = self.secure_in_fault();
            self.leave_secured_in_fault(secured);
        }
    }

    /// Takes hold of what may have been written.
    fn secure_in_fault(&mut self) -> Secured<'a> {
        let pages = self.pages;
        let written = self.writable().map(|leaving| (leaving.held.page(), leaving.page_bytes));
        // SAFETY: the pages are mapped and their entries are held.
        let secured = unsafe { pages.mapping.secure_in_fault(written) };
        if let Secured::AtAddress = secured {
            self.keep_each_in_fault(|leaving| {
                let address = pages.mapping.address_of(leaving.held.page());
                // SAFETY: the page is present and write-protected, so it cannot change.
                let newer = unsafe { std::slice::from_raw_parts(address, leaving.page_bytes) };
                keep_in_fault(pages, &leaving.held, newer)
            });
        }
        secured
    }

    /// Has the pages leave, of which no write is lost any more.
    fn leave_secured_in_fault(mut self, secured: Secured<'a>) {
        let pages = self.pages;
        self.keep_read_only_in_fault();
        let mut vanishing = pages.mapping.prepare_in_fault(self.taken().map(|leaving| leaving.held.page()));
        drop_stale_with_in_fault(pages, &mut vanishing);
        if let Secured::InPipe(mut pipe) = secured {
            self.keep_each_in_fault(|leaving| {
                keep_in_fault(pages, &leaving.held, pipe.next_in_fault(leaving.page_bytes))
            });
        }
        for (n, taken) in self.taken.iter_mut().take(self.len).enumerate() {
            if let Some(Leaving { held, .. }) = taken.take() {
                let is_dirty = held.entry().is_dirty() || self.written >> n & 1 == 1;
                held.release_cached(is_dirty);
            }
        }
        pages.counters.evicted_pages.add(self.len as u64);
    }

    /// Calls `keep`, which tells whether the page was written, for each page that is writable.
    fn keep_each_in_fault(&mut self, mut keep: impl FnMut(&Leaving<'a>) -> bool) {
        for (n, leaving) in self.taken.iter().map_while(Option::as_ref).enumerate() {
            if leaving.held.is_writable() && keep(leaving) {
                self.written |= 1 << n;
            }
        }
    }

    /// Puts the bytes of the whole pages that were only read in their slots. Nobody can write to the pages: that would fault,
    /// and wait for their entries.
    fn keep_read_only_in_fault(&self) {
        for Leaving { held, page_bytes } in self.taken().filter(|leaving| !leaving.held.is_writable()) {
            if *page_bytes == OS_PAGE_BYTES {
                let address = self.pages.mapping.address_of(held.page());
                // SAFETY: the page is present and write-protected, so it cannot change.
                let bytes = unsafe { &*address.cast::<[u8; OS_PAGE_BYTES]>() };
                held.keep_unwritten_in_fault(bytes);
            }
            self.pages.foresight.note_read_only_in_fault(held.page().leaf());
        }
    }
}

/// Puts the bytes that a page had at last in its slot; whether they are new.
fn keep_in_fault(pages: &Pages, held: &Held<'_>, newer: &[u8]) -> bool {
    let (is_written, is_as_mapped) = held.keep_in_fault(newer);
    if let Some(is_as_mapped) = is_as_mapped {
        pages.foresight.note_whole_in_fault(held.page().leaf(), !is_as_mapped);
    }
    is_written
}

/// Has all of it vanish, and with it the memory of slots whose pages are at their addresses.
fn drop_stale_with_in_fault(pages: &Pages, vanishing: &mut Vanishing) {
    let mut stale = [const { None }; BATCH];
    let room = vanishing.room().min(BATCH);
    let is_whole = |page| pages.is_whole(page);
    let add = |memory| vanishing.add_memory(memory);
    pages.residence.take_stale_in_fault(&mut stale[..room], is_whole, add);
    // SAFETY: the bytes of the pages are in their slots or secured, those of the slots at the pages' addresses, and all entries are held.
    unsafe { pages.mapping.vanish_in_fault(vanishing) };
    pages.residence.release_stale_in_fault(stale);
}

/// A whole page was mapped whose slot still has memory.
pub(crate) fn note_stale_in_fault(pages: &Pages, page: PageId) {
    if !pages.residence.push_stale_in_fault(page) {
        drop_stale_with_in_fault(pages, &mut Vanishing::new());
    }
}

/// Has one page leave that may not be in the queue.
pub(crate) fn leave_one_in_fault(pages: &Pages, page: PageId) {
    let mut batch = Batch::new(pages);
    take_in_turn_in_fault(pages, page, &mut batch);
    batch.leave_in_fault();
}

/// Has one batch of the oldest small pages leave.
pub(crate) fn leave_oldest_in_fault(pages: &Pages) {
    let mut oldest = [PageId(0); BATCH];
    let wanted = (pages.residence.page_buffer_units() / 8).clamp(1, BATCH);
    let count = pages.residence.pop_mapped_in_fault(&mut oldest[..wanted]);
    let mut batch = Batch::new(pages);
    for &page in &oldest[..count] {
        take_in_turn_in_fault(pages, page, &mut batch);
    }
    batch.leave_in_fault();
    pages.residence.have_left(wanted);
}

/// Has those of the pages leave that are mapped.
pub(crate) fn leave_all_in_fault(pages: &Pages, leaving: &[PageId]) {
    let mut batch = Batch::new(pages);
    for &page in leaving {
        batch.take_in_fault(page);
    }
    batch.leave_in_fault();
}

fn take_in_turn_in_fault(pages: &Pages, page: PageId, batch: &mut Batch<'_>) {
    if batch.take_in_fault(page) {
        return;
    }
    match pages.residence.find(page) {
        // Somebody is looking at it now: it keeps its place in the queue, at the end.
        Some(entry) if entry.state() != State::Cached && !entry.is_pinned() && !pages.is_whole(page) => {
            pages.residence.push_mapped_in_fault(page);
        }
        // It left already, or comes back to the queue when it is unpinned.
        _ => {}
    }
}

#[cfg(test)]
pub(crate) mod tests;
