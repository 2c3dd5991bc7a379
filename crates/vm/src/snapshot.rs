//! A heap's memory in a forked child: all as it was, without threads, budget or end of the log.
//!
//! Before the fork everybody is between two steps ([`gate`](crate::gate)). The child has the parent's mapped pages and object
//! cache, which the kernel copies when either writes to them, and a copy of the table. What is in neither it reads from the
//! log, where the parent keeps what the child may read (`Log::keep_for`).
//!
//! The child leaves entries and cache as they are. Pages that it brings in are write-protected; it forgets those that it has
//! not written when there are too many. Pages that it has written stay.

use std::sync::atomic::{AtomicBool, Ordering};

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_base::{Found, PageId};
use aquifer_cache::SlotId;
use aquifer_map::{Entry, State};
use aquifer_sys::{Errno, SpinLock};

use crate::context::{Context, zeros};
use crate::error::{FaultError, PinError};
use crate::pages::Pages;

/// Unwritten pages that a child keeps: 16 MiB.
const SETS: usize = 512;
const WAYS: usize = 8;
/// No page.
const NONE: u64 = u64::MAX;

/// Unwritten pages of a child, in sets: neighbours never displace each other.
struct Unwritten {
    pages: Box<[[u64; WAYS]]>,
}

/// What makes an engine a snapshot.
pub(crate) struct Snapshot {
    is_active: AtomicBool,
    unwritten: SpinLock<Unwritten>,
}

impl Unwritten {
    fn new() -> Self {
        Self { pages: vec![[NONE; WAYS]; SETS].into() }
    }

    fn set(&mut self, page: PageId) -> &mut [u64; WAYS] {
        &mut self.pages[page.0 as usize % SETS]
    }

    fn has(&mut self, page: PageId) -> bool {
        self.set(page).contains(&page.0)
    }

    fn remove(&mut self, page: PageId) {
        self.set(page).iter_mut().filter(|other| **other == page.0).for_each(|other| *other = NONE);
    }

    /// Adds a page; the one that must leave for it.
    fn add(&mut self, page: PageId) -> Option<PageId> {
        let set = self.set(page);
        // The oldest is the first.
        let at = set.iter().position(|&other| other == NONE).unwrap_or(0);
        let left = set[at];
        set[at..].rotate_left(1);
        set[WAYS - 1] = page.0;
        (left != NONE).then_some(PageId(left))
    }
}

impl Snapshot {
    pub(crate) fn new() -> Self {
        Self { is_active: AtomicBool::new(false), unwritten: SpinLock::new(Unwritten::new()) }
    }

    /// Whether this is a child's.
    pub(crate) fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// In a child: its copy of the pages is a snapshot from here on. False if the kernel does not allow it.
    pub(crate) fn begin(&self, pages: &Pages) -> bool {
        self.is_active.store(true, Ordering::Relaxed);
        // What the parent, if it was a snapshot, had not written is unprotected here.
        *self.unwritten.lock() = Unwritten::new();
        pages.mapping.take_in_child()
    }

    /// Makes `page` accessible for reading, or with `write` for writing.
    ///
    /// # Errors
    /// [`FaultError`]; the page is as it was.
    pub(crate) fn resolve_in_fault(
        &self,
        pages: &Pages,
        page: PageId,
        write: bool,
    ) -> Result<Found, FaultError> {
        if !pages.is_whole(page) {
            return Err(FaultError::NotAllocated(page));
        }
        let refused = |errno| Err(FaultError::Map { page, errno });
        let mut unwritten = self.unwritten.lock();
        if unwritten.has(page) {
            if !write {
                return Ok(Found::Mapped);
            }
            unwritten.remove(page);
            // SAFETY: the page is mapped, and this child's own.
            let allowed = unsafe { pages.mapping.allow_writes_in_fault(page) };
            return allowed.map(|()| Found::FirstWrite).or_else(refused);
        }
        drop(unwritten);
        let mut context = pages.contexts.take_in_fault();
        let (bytes, found) = match pages.residence.find(page) {
            // What was mapped has been copied by the kernel, unless it has been emptied since.
            Some(entry) => slot_bytes(pages, entry, &mut context)
                .map_or((zeros().as_ptr(), Found::Zeros), |bytes| (bytes, Found::Ram)),
            None => match pages.backing.read_in_fault(page, OS_PAGE_BYTES, &mut context.scratch, || {}) {
                Ok(Some(range)) => (context.scratch[range].as_ptr(), Found::Flash),
                Ok(None) => (zeros().as_ptr(), Found::Zeros),
                Err(FaultError::Damaged { .. }) => return Err(FaultError::Gone(page)),
                Err(error) => return Err(error),
            },
        };
        let mut unwritten = self.unwritten.lock();
        // SAFETY: the source is a whole page; in a child nobody drops ranges, and a page that is there stays.
        match unsafe { pages.mapping.appear_uncounted_in_fault(page, bytes, write) } {
            Ok(()) if write => Ok(found),
            Ok(()) => {
                let dropped = unwritten.add(page).map_or(Ok(()), |left| drop_pages(pages, left, 1));
                dropped.map(|()| found).or_else(refused)
            }
            // The parent's, which may be protected here as it was there.
            Err(Errno::EEXIST) => pages.mapping.open_in_child(page).map(|()| Found::Mapped).or_else(refused),
            Err(errno) => refused(errno),
        }
    }

    /// Makes `count` pages from `first` present and writable for as long as the child lives.
    ///
    /// # Errors
    /// [`PinError::Fault`].
    pub(crate) fn keep(&self, pages: &Pages, first: PageId, count: u64) -> Result<(), PinError> {
        (first.0..first.0 + count).try_for_each(|page| {
            self.resolve_in_fault(pages, PageId(page), true)?;
            Ok(())
        })
    }

    /// `count` pages from `first` read as zeros.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn empty(&self, pages: &Pages, first: PageId, count: u64) -> Result<(), FaultError> {
        let mut unwritten = self.unwritten.lock();
        (first.0..first.0 + count).for_each(|page| unwritten.remove(PageId(page)));
        let emptied = drop_pages(pages, first, count as usize).and_then(|()| {
            // SAFETY: the pages are absent, and this child's own.
            unsafe { pages.mapping.appear_zero_uncounted(first, count as usize) }
        });
        emptied.map_err(|errno| FaultError::Map { page: first, errno })
    }
}

/// The bytes of a page that was in its slot.
fn slot_bytes(pages: &Pages, entry: Entry, context: &mut Context) -> Option<*const u8> {
    let slot = SlotId(entry.slot().filter(|_| entry.state() == State::Cached)?);
    if entry.is_compressed() {
        let (plain, _) = context.scratch.split_first_chunk_mut()?;
        pages.residence.decompress_in_fault(slot, plain);
        return Some(plain.as_ptr());
    }
    Some(pages.residence.pointer(slot).cast_const())
}

fn drop_pages(pages: &Pages, first: PageId, count: usize) -> Result<(), Errno> {
    // SAFETY: nobody needs the pages, or can write them before their next fault.
    unsafe { pages.mapping.empty(first, count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_do_not_displace_each_other() {
        let mut unwritten = Unwritten::new();
        let room = (SETS * WAYS) as u64;
        assert!((0..room).all(|page| unwritten.add(PageId(page)).is_none()));
        let left: Vec<_> = (room..2 * room).filter_map(|page| unwritten.add(PageId(page))).collect();
        assert_eq!(left.len() as u64, room);
        assert!((0..room).all(|page| !unwritten.has(PageId(page)) && unwritten.has(PageId(room + page))));
        unwritten.remove(PageId(room));
        assert!(!unwritten.has(PageId(room)) && unwritten.add(PageId(0)).is_none());
    }
}
