//! Whole pages: their bytes fill an OS page, so they are at their address or in their slot, never in both.
//!
//! Their RAM is that of their slots: while a page is mapped, its slot has no memory. So they need no page buffer and
//! may be mapped in any number. The hardware's bits that tell which pages are used are not shown to programs. So pages
//! leave their addresses for their slots in turn, a while before they leave RAM, and those that fault meanwhile were
//! used: they are mapped again and stay for another round ([`TwoHanded`](aquifer_cache::policy::TwoHanded)).

use aquifer_base::PageId;
use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_cache::{Class, SlotId};
use aquifer_map::{Locked, State};
use aquifer_sys::{Errno, SpinLock};

use crate::engine::Engine;
use crate::evict::{BATCH, Batch};

/// Batches that one fault unmaps at most.
const BATCHES_MAX: usize = 8;
const STALE_MAX: usize = 256;

#[repr(align(4096))]
struct ZeroPage([u8; OS_PAGE_BYTES]);

static ZEROS: ZeroPage = ZeroPage([0; OS_PAGE_BYTES]);

/// A page of zeros.
pub(crate) fn zeros() -> *const u8 {
    ZEROS.0.as_ptr()
}

struct Pages {
    pages: [PageId; STALE_MAX],
    len: usize,
}

/// Mapped pages whose slots still have memory. It is given back in batches, together with that of pages that are unmapped.
pub(crate) struct Stale {
    pages: SpinLock<Pages>,
    room: usize,
}

impl Stale {
    /// Room for about `room` pages.
    pub(crate) fn new(room: usize) -> Self {
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

impl Engine {
    /// Whether the bytes of `page` fill it.
    pub(crate) fn is_whole(&self, page: PageId) -> bool {
        self.leaves.page_bytes(page.leaf()) == OS_PAGE_BYTES
    }

    /// A page was mapped whose slot still has memory.
    pub(crate) fn note_stale_in_fault(&self, page: PageId) {
        if !self.stale.push_in_fault(page) {
            self.drop_stale_in_fault();
        }
    }

    /// Unmaps pages so that evictions find some that are not mapped.
    pub(crate) fn unmap_due_in_fault(&self) {
        for _ in 0..BATCHES_MAX {
            let due = self.cache.unmapping_due();
            // A few less cost a call to the kernel for a few pages.
            if due == 0 || (due < BATCH && due < self.cache.slots(Class::WHOLE) / 16) {
                break;
            }
            let mut pages = [PageId(0); BATCH];
            let count = self.cache.next_to_unmap(&mut pages[..due.clamp(1, BATCH)]);
            pages[..count].sort_unstable();
            self.unmap_pages_in_fault(&pages[..count]);
        }
        self.free_page_tables_in_fault();
    }

    fn unmap_pages_in_fault(&self, pages: &[PageId]) {
        let mut batch = Batch::new();
        for &page in pages {
            self.take_mapped_in_fault(page, &mut batch);
        }
        self.unmap_in_fault(batch);
    }

    /// The page tables of thinly spread pages can take more RAM than their share. Then ranges are emptied, all pages of each,
    /// beginning with those of the pages whose turn it is.
    fn free_page_tables_in_fault(&self) {
        let share = self.page_buffer_units / 4 * 3;
        let mut pages = [PageId(0); 1];
        for _ in 0..BATCHES_MAX {
            if self.ranges.live() < share || self.cache.next_to_unmap(&mut pages) == 0 {
                return;
            }
            let (mut of_leaf, mut count) = ([PageId(0); BATCH], 0);
            self.entries.for_each_of_leaf(pages[0].leaf(), &mut |page, entry| {
                if entry.state() == State::Mapped && count < BATCH {
                    of_leaf[count] = page;
                    count += 1;
                }
            });
            self.unmap_pages_in_fault(&of_leaf[..count]);
        }
    }

    /// Takes mapped pages whose slots have memory, and adds that memory to the `ranges` to discard, of which there are
    /// `len`. They must be given to [`Engine::release_stale_in_fault`].
    pub(crate) fn take_stale_in_fault<'a>(
        &'a self,
        ranges: &mut [libc::iovec; 2 * BATCH],
        len: &mut usize,
    ) -> [Option<Locked<'a>>; BATCH] {
        let mut taken = [const { None }; BATCH];
        let mut count = 0;
        // Bounded: what is pushed meanwhile can wait.
        for _ in 0..STALE_MAX {
            if count == BATCH || *len == ranges.len() {
                break;
            }
            let Some(page) = self.stale.pop_in_fault() else { break };
            let is_stale = |entry: aquifer_map::Entry| {
                entry.state() == State::Mapped
                    && self.is_whole(page)
                    && entry.slot().is_some_and(|slot| self.cache.has_memory(SlotId(slot)))
            };
            let Some(locked) = self.entries.try_lock_if(page, is_stale) else { continue };
            let slot = SlotId(locked.entry().slot().expect("a mapped page has a slot"));
            ranges[*len] = libc::iovec { iov_base: self.cache.pointer(slot).cast(), iov_len: OS_PAGE_BYTES };
            *len += 1;
            taken[count] = Some(locked);
            count += 1;
        }
        taken
    }

    /// Gives back pages whose slots have no memory any more.
    pub(crate) fn release_stale_in_fault(&self, taken: [Option<Locked<'_>>; BATCH]) {
        for locked in taken.into_iter().flatten() {
            let slot = SlotId(locked.entry().slot().expect("a mapped page has a slot"));
            self.cache.set_has_memory(slot, false);
            locked.restore();
        }
    }

    fn drop_stale_in_fault(&self) {
        let mut ranges = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; 2 * BATCH];
        let mut len = 0;
        let taken = self.take_stale_in_fault(&mut ranges, &mut len);
        // SAFETY: the bytes of the pages are at their addresses, and their entries are held.
        let dropped: Result<(), Errno> = unsafe { self.discarder.discard(&ranges[..len]) };
        if dropped.is_err() {
            crate::fault::abort_in_fault(b"the kernel refused to discard memory of a heap's slots\n");
        }
        self.release_stale_in_fault(taken);
    }
}
