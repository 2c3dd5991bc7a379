//! Pages side by side that were never written, mapped by one call.

use aquifer_base::PageId;
use arrayvec::ArrayVec;

use super::{Access, Fill};
use crate::context::{ZERO_PAGES, zero_pages, zeros};
use crate::leave::leave_one_in_fault;

/// Pages of one size that are to be mapped, each behind the one before.
pub(crate) struct FreshRun<'a> {
    fills: ArrayVec<Fill<'a>, ZERO_PAGES>,
    access: Access,
}

impl<'a> FreshRun<'a> {
    pub(crate) fn new(access: Access) -> Self {
        Self { fills: ArrayVec::new(), access }
    }

    /// Adds a page of zeros that has its slot. If it cannot follow the others, these are mapped first.
    pub(crate) fn push_in_fault(&mut self, fill: Fill<'a>) {
        let follows = self.fills.last().is_none_or(|last| last.page().0 + 1 == fill.page().0);
        if !follows || self.fills.is_full() {
            self.publish_in_fault();
        }
        self.fills.push(fill);
    }

    /// Publishes the pages at their addresses. Where the kernel refuses, they stay as they were.
    pub(crate) fn publish_in_fault(&mut self) {
        let Some(first) = self.fills.first() else { return };
        let (pages, page, write) = (first.pages, first.page, self.access != Access::Read);
        for fill in self.fills.iter().filter(|fill| fill.size.is_whole()) {
            let digested = (self.access == Access::MayWrite).then_some(zeros().as_slice());
            pages.residence.note_digest_in_fault(fill.slot(), digested);
        }
        // SAFETY: the entries of the pages are held, which are absent, as these say.
        let done = unsafe { pages.mapping.appear_zeros_in_fault(page, zero_pages(self.fills.len()), write) };
        let unqueued: ArrayVec<_, ZERO_PAGES> =
            self.fills.drain(..done).filter_map(|fill| fill.publish_fresh_in_fault(write)).collect();
        self.fills.clear();
        // When no entry is held any more: leaving may wait.
        unqueued.into_iter().for_each(|page| leave_one_in_fault(pages, page));
    }
}

impl Fill<'_> {
    /// Publishes a page of zeros that is at its address; returns it if it must leave at once, as the queue of mapped pages is full.
    fn publish_fresh_in_fault(mut self, write: bool) -> Option<PageId> {
        let (pages, page, slot) = (self.pages, self.page, self.slot());
        // In the queue whenever it is mapped.
        let queued = self.size.is_whole() || pages.residence.push_mapped_in_fault(page);
        let has_memory = self.size.is_whole() && pages.residence.has_memory(slot);
        self.publish(|held| held.entry().mapped(slot.0, write));
        if has_memory {
            super::note_stale_in_fault(pages, page);
        }
        (!queued).then_some(page)
    }
}
