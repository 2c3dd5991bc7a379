//! Whole pages: their bytes fill an OS page, so they are at their address or in their slot, never in both.
//!
//! Their RAM is that of their slots: while a page is mapped, its slot has no memory. So they need no page buffer and
//! may be mapped in any number. The hardware's bits that tell which pages are used are not shown to programs. So pages
//! leave their addresses for their slots in turn, a while before they leave RAM, and those that fault meanwhile were
//! used: they are mapped again and stay for another round ([`TwoHanded`](aquifer_cache::policy::TwoHanded)).

use aquifer_base::PageId;
use aquifer_cache::SlotId;
use aquifer_map::{Entry, State};
use aquifer_sys::SpinLock;

use super::{Held, Residence};

const STALE_MAX: usize = 256;

struct Pages {
    pages: [PageId; STALE_MAX],
    len: usize,
}

/// Mapped pages whose slots still have memory. It is given back in batches, together with that of pages that are unmapped.
pub(super) struct Stale {
    pages: SpinLock<Pages>,
    room: usize,
}

impl Stale {
    /// Room for about `room` pages.
    pub(super) fn new(room: usize) -> Self {
        let pages = Pages { pages: [PageId(0); STALE_MAX], len: 0 };
        Self { pages: SpinLock::new(pages), room: room.clamp(16, STALE_MAX) }
    }

    /// Adds a page; false if that makes it full.
    fn push_in_fault(&self, page: PageId) -> bool {
        let mut pages = self.pages.lock();
        if pages.len < STALE_MAX {
            let at = pages.len;
            pages.pages[at] = page;
            pages.len += 1;
        }
        pages.len < self.room
    }

    fn pop_in_fault(&self) -> Option<PageId> {
        let mut pages = self.pages.lock();
        pages.len = pages.len.checked_sub(1)?;
        Some(pages.pages[pages.len])
    }
}

impl Residence {
    /// Whether a whole page's slot has memory.
    pub(crate) fn has_memory(&self, slot: SlotId) -> bool {
        self.cache.has_memory(slot)
    }

    /// Says whether a slot has memory.
    pub(crate) fn set_has_memory(&self, slot: SlotId, has: bool) {
        self.cache.set_has_memory(slot, has);
    }

    /// A whole page was mapped whose slot still has memory; false if it is time to give some back.
    pub(crate) fn push_stale_in_fault(&self, page: PageId) -> bool {
        self.stale.push_in_fault(page)
    }

    /// Takes up to `taken.len()` mapped pages whose slots have memory, of which `is_whole` says that they are whole pages, and calls `add`
    /// with that memory. When that is gone they must be given to [`Residence::release_stale_in_fault`].
    pub(crate) fn take_stale_in_fault<'a>(
        &'a self,
        taken: &mut [Option<Held<'a>>],
        is_whole: impl Fn(PageId) -> bool,
        mut add: impl FnMut(*mut u8),
    ) {
        let mut count = 0;
        // Bounded: what is pushed meanwhile can wait.
        for _ in 0..STALE_MAX {
            if count == taken.len() {
                break;
            }
            let Some(page) = self.stale.pop_in_fault() else { break };
            let is_stale = |entry: Entry| {
                entry.state() == State::Mapped
                    && is_whole(page)
                    && entry.slot().is_some_and(|slot| self.cache.has_memory(SlotId(slot)))
            };
            let Some(held) = self.try_hold(page, is_stale) else { continue };
            add(self.cache.pointer(held.slot()));
            taken[count] = Some(held);
            count += 1;
        }
    }

    /// Gives back pages whose slots have no memory any more.
    pub(crate) fn release_stale_in_fault<'a>(&self, taken: impl IntoIterator<Item = Option<Held<'a>>>) {
        for held in taken.into_iter().flatten() {
            self.cache.set_has_memory(held.slot(), false);
        }
    }
}
