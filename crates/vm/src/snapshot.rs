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
use aquifer_map::Entry;
use aquifer_sys::memory::{Advice, advise};
use aquifer_sys::{Errno, Features, SignalsBlocked, SpinLock};

use crate::engine::Engine;
use crate::error::{FaultError, PinError};
use crate::whole_pages::zeros;

/// Unwritten pages that a child keeps: 16 MiB.
const SETS: usize = 512;
const WAYS: usize = 8;
/// Parts in which a region is registered at most: few programs map anything over it.
const REGISTRATIONS_MAX: u32 = 100_000;
/// No page.
const NONE: u64 = u64::MAX;

/// Unwritten pages of a child, in sets: neighbours never displace each other.
struct Unwritten {
    pages: [[u64; WAYS]; SETS],
}

/// What makes an engine a snapshot.
pub(crate) struct Snapshot {
    is_active: AtomicBool,
    /// The parent has forked before: pages may be shared with a child.
    has_children: AtomicBool,
    unwritten: SpinLock<Unwritten>,
}

impl Unwritten {
    const fn new() -> Self {
        Self { pages: [[NONE; WAYS]; SETS] }
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
    pub(crate) const fn new() -> Self {
        Self {
            is_active: AtomicBool::new(false),
            has_children: AtomicBool::new(false),
            unwritten: SpinLock::new(Unwritten::new()),
        }
    }

    /// Whether pages may be shared with a child.
    pub(crate) fn has_children(&self) -> bool {
        self.has_children.load(Ordering::Relaxed)
    }
}

/// Around the fork.
impl Engine {
    /// Whether this is a child's.
    pub fn is_snapshot(&self) -> bool {
        self.snapshot.is_active.load(Ordering::Relaxed)
    }

    /// Brings everybody between two steps: first those who use the heap, then the writer, on whom they wait, then the
    /// cleaner, on whom the writer waits.
    pub(crate) fn pause(&self) {
        self.snapshot.has_children.store(true, Ordering::SeqCst);
        [&self.users_gate, &self.writer_gate, &self.cleaner_gate].into_iter().for_each(|gate| gate.close());
    }

    /// Lets everybody go on.
    pub(crate) fn go_on(&self) {
        [&self.cleaner_gate, &self.writer_gate, &self.users_gate].into_iter().for_each(|gate| gate.open());
    }

    /// Whether the region is copied to children.
    pub(crate) fn show_to_children(&self, shown: bool) -> Result<(), Errno> {
        let advice = if shown { Advice::DoFork } else { Advice::DontFork };
        // SAFETY: the region is ours; no byte changes.
        unsafe { advise(self.base(), self.region_bytes(), advice) }
    }

    /// In a child: makes this copy of the engine a snapshot. False if the kernel does not allow it, or the copy is torn.
    pub(crate) fn become_snapshot(&self) -> bool {
        if self.users_gate.is_torn() {
            return false;
        }
        self.snapshot.is_active.store(true, Ordering::Relaxed);
        // What the parent, if it was a snapshot, had not written is unprotected here.
        *self.snapshot.unwritten.lock() = Unwritten::new();
        [&self.cleaner_gate, &self.writer_gate, &self.users_gate]
            .into_iter()
            .for_each(|gate| gate.open_in_child());
        let mut tries = REGISTRATIONS_MAX;
        self.uffd.renew_in_child(Features::SIGBUS | Features::PAGEFAULT_FLAG_WP).is_ok()
            && self.register_in_snapshot(self.base(), self.region_bytes(), &mut tries)
    }

    /// Registers a range, except for pages over which the program has mapped something else. False after too many tries.
    fn register_in_snapshot(&self, start: *mut u8, len: usize, tries: &mut u32) -> bool {
        if *tries == 0 {
            return false;
        }
        *tries -= 1;
        // SAFETY: the range is in the region, whose faults are resolved from here on.
        if unsafe { self.uffd.register(start, len, true) }.is_ok() || len <= OS_PAGE_BYTES {
            return true;
        }
        let half = len / OS_PAGE_BYTES / 2 * OS_PAGE_BYTES;
        self.register_in_snapshot(start, half, tries)
            && self.register_in_snapshot(start.wrapping_add(half), len - half, tries)
    }
}

/// In the child.
impl Engine {
    /// As [`Engine::resolve_in_fault`].
    pub(crate) fn resolve_in_snapshot(&self, page: PageId, write: bool) -> Result<Found, FaultError> {
        if !self.is_whole(page) {
            return Err(FaultError::NotAllocated(page));
        }
        let refused = |errno| Err(FaultError::Map { page, errno });
        let mut unwritten = self.snapshot.unwritten.lock();
        if unwritten.has(page) {
            if !write {
                return Ok(Found::Mapped);
            }
            unwritten.remove(page);
            // SAFETY: the page is of the region, and it is this child's own.
            return unsafe { self.uffd.write_protect(self.address_of(page), OS_PAGE_BYTES, false) }
                .map(|()| Found::FirstWrite)
                .or_else(refused);
        }
        drop(unwritten);
        let mut context = self.contexts.take_in_fault();
        let (bytes, found) = match self.entries.find(page) {
            // What was mapped has been copied by the kernel, unless it has been emptied since.
            Some(entry) => {
                self.slot_in_snapshot(entry).map_or((zeros(), Found::Zeros), |bytes| (bytes, Found::Ram))
            }
            None => match self.read_record_in_fault(page, OS_PAGE_BYTES, &mut context.scratch) {
                Ok(Some(range)) => (context.scratch[range].as_ptr(), Found::Flash),
                Ok(None) => (zeros(), Found::Zeros),
                Err(FaultError::Damaged { .. }) => return Err(FaultError::Gone(page)),
                Err(error) => return Err(error),
            },
        };
        let mut unwritten = self.snapshot.unwritten.lock();
        // SAFETY: the page is of the region; the source is a whole page.
        match unsafe { self.uffd.copy(self.address_of(page), bytes, OS_PAGE_BYTES, !write) } {
            Ok(()) if write => Ok(found),
            Ok(()) => {
                let dropped = unwritten.add(page).map_or(Ok(()), |left| self.drop_in_snapshot(left, 1));
                dropped.map(|()| found).or_else(refused)
            }
            Err(Errno::EEXIST) => Ok(Found::Mapped),
            Err(errno) => refused(errno),
        }
    }

    /// The bytes of a page that was in its slot.
    fn slot_in_snapshot(&self, entry: Entry) -> Option<*const u8> {
        let slot = entry.slot().filter(|_| entry.state() == aquifer_map::State::Cached)?;
        Some(self.cache.pointer(SlotId(slot)).cast_const())
    }

    fn drop_in_snapshot(&self, page: PageId, count: usize) -> Result<(), Errno> {
        // SAFETY: pages of the region, which nobody needs, or can write before their next fault.
        unsafe { advise(self.address_of(page), count * OS_PAGE_BYTES, Advice::DontNeed) }
    }

    /// In a child: makes `count` pages from `first` present and writable for as long as the child lives.
    ///
    /// # Errors
    /// [`PinError::Fault`].
    pub fn keep_in_snapshot(&self, first: PageId, count: u64) -> Result<(), PinError> {
        let _signals = SignalsBlocked::new();
        let _pass = self.users_gate.pass_in_fault();
        (first.0..first.0 + count).try_for_each(|page| {
            self.resolve_in_snapshot(PageId(page), true)?;
            Ok(())
        })
    }

    /// In a child: `count` pages from `first` read as zeros.
    ///
    /// # Errors
    /// The kernel's.
    pub fn empty_in_snapshot(&self, first: PageId, count: u64) -> Result<(), FaultError> {
        let _signals = SignalsBlocked::new();
        let _pass = self.users_gate.pass_in_fault();
        let mut unwritten = self.snapshot.unwritten.lock();
        (first.0..first.0 + count).for_each(|page| unwritten.remove(PageId(page)));
        let emptied = self.drop_in_snapshot(first, count as usize).and_then(|()| {
            // SAFETY: pages of the region, which are absent.
            unsafe { self.uffd.zero(self.address_of(first), count as usize * OS_PAGE_BYTES) }
        });
        emptied.map_err(|errno| FaultError::Map { page: first, errno })
    }
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
