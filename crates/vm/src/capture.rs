//! Memory that becomes a heap's when it no longer fits in RAM.
//!
//! A program whose memory fits in its budget needs no heap. So a region can begin as ordinary memory, of which the kernel
//! alone takes care; an engine that is made over it later captures what is there.
//!
//! A page that has bytes and no entry is *native*: its bytes are at its address, in RAM or in the kernel's swap. It becomes the heap's
//! when it is captured, or by the first fault or pin that finds it so. A capture that ends with an error leaves the rest
//! native: all of it can be used, only the kernel cannot be asked to take it away.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aquifer_base::limits::{LEAF_PAGES, LEAF_RANGE_BYTES, OS_PAGE_BYTES};
use aquifer_base::{LeafId, PageId};
use aquifer_cache::SlotId;
use aquifer_map::{Entry, State};
use aquifer_sys::memory::{Advice, Presence, advise};
use aquifer_sys::{Errno, Reservation, SignalsBlocked};

use crate::engine::Engine;
use crate::error::{FaultError, PinError};
use crate::patience::Patience;

/// Pages that are looked at together.
const CHUNK_PAGES: usize = 4096;
/// Pages that become native again when a capture ends with an error: others can then be read, which need slots.
const GIVEN_BACK: usize = 128;

/// Pages side by side: the first, and how many.
pub type Run = (PageId, u64);

/// A region that is ordinary memory. Clones are the same region, which ends with the last of them and the engine over it.
#[derive(Clone, Debug)]
pub struct NativeRegion {
    pub(crate) reservation: Arc<Reservation>,
}

impl NativeRegion {
    /// Reserves address space for `leaves`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(leaves: u32) -> Result<Self, Errno> {
        let reservation = Reservation::new(leaves as usize * LEAF_RANGE_BYTES, LEAF_RANGE_BYTES)?;
        Ok(Self { reservation: Arc::new(reservation) })
    }

    /// Its first byte.
    pub fn base(&self) -> *mut u8 {
        self.reservation.base()
    }

    /// Its leaves.
    pub fn leaves(&self) -> u32 {
        (self.reservation.len() / LEAF_RANGE_BYTES) as u32
    }

    fn advise(&self, (first, count): Run, advice: Advice) -> Result<(), Errno> {
        let (offset, len) = (first.offset_bytes() as usize, count as usize * OS_PAGE_BYTES);
        if offset + len > self.reservation.len() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: in the region; who empties pages gives them up.
        unsafe { advise(self.reservation.base().add(offset), len, advice) }
    }

    /// Empties `count` pages from `first`: they read as zeros. Nobody uses them meanwhile.
    ///
    /// # Errors
    /// The kernel's.
    pub fn release(&self, first: PageId, count: u64) -> Result<(), Errno> {
        self.advise((first, count), Advice::DontNeed)
    }

    /// Gives `count` pages from `first` memory, so that they are present when the region is taken over.
    ///
    /// # Errors
    /// The kernel's.
    pub fn populate(&self, first: PageId, count: u64) -> Result<(), Errno> {
        self.advise((first, count), Advice::PopulateWrite)
    }
}

/// What a capture knows.
struct Capture {
    presence: Presence,
    /// The pages that were adopted last.
    newest: VecDeque<PageId>,
}

/// The native pages of an engine's region.
pub(crate) struct Natives {
    /// There may be some: nothing is brought in that was not touched.
    any: AtomicBool,
    books: Mutex<Books>,
}

struct Books {
    /// Every native page is in one of these; not every page in these is native, as faults make some the heap's.
    runs: Vec<Run>,
    /// Leaves whose ranges were entered for them: who drops a range with its last page would drop native ones too.
    guarded: Vec<LeafId>,
}

impl Books {
    /// Takes those of the pages that are in the runs.
    fn cut(&mut self, (first, count): Run) -> Vec<Run> {
        let (start, end) = (first.0, first.0 + count);
        let mut taken = Vec::new();
        let mut left = Vec::with_capacity(self.runs.len() + 1);
        for &(run, count) in &self.runs {
            let (run_start, run_end) = (run.0, run.0 + count);
            let keep = |from: u64, to: u64, into: &mut Vec<Run>| {
                if from < to {
                    into.push((PageId(from), to - from));
                }
            };
            keep(run_start, run_end.min(start), &mut left);
            keep(run_start.max(start), run_end.min(end), &mut taken);
            keep(run_start.max(end), run_end, &mut left);
        }
        self.runs = left;
        taken
    }

    fn has(&self, leaf: LeafId) -> bool {
        let (start, end) = (leaf.page(0).0, leaf.page(0).0 + LEAF_PAGES as u64);
        self.runs.iter().any(|&(first, count)| first.0 < end && start < first.0 + count)
    }
}

impl Natives {
    pub(crate) fn none() -> Self {
        let books = Books { runs: Vec::new(), guarded: Vec::new() };
        Self { any: AtomicBool::new(false), books: Mutex::new(books) }
    }

    /// Whether pages may be native.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::SeqCst)
    }

    /// How often the range of the leaf was entered for native pages.
    pub(crate) fn guards(&self, leaf: LeafId) -> u32 {
        u32::from(self.any() && self.books().guarded.contains(&leaf))
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Takes over the region from the kernel: from here on its faults are the engine's, and what is there is native. Other threads may
    /// use it meanwhile.
    ///
    /// # Errors
    /// The kernel refused; the region is ordinary memory as before, and the engine over it of no use.
    pub fn take_over(&self) -> Result<(), Errno> {
        let mut books = self.natives.books();
        self.natives.any.store(true, Ordering::SeqCst);
        for leaf in (0..(self.region.len() / LEAF_RANGE_BYTES) as u32).map(LeafId) {
            self.leaves.set_page_bytes(leaf, OS_PAGE_BYTES);
            self.ranges.enter_in_fault(leaf);
            books.guarded.push(leaf);
        }
        self.take_over_region()
    }

    /// Makes pages of a region that was taken over the heap's: `taken` are those that are in use. Other threads may use them
    /// meanwhile; their faults wait for nothing but their own pages.
    ///
    /// # Errors
    /// [`FaultError`]; the rest of the pages stay native ([`Engine::capture_rest`]).
    pub fn capture(&self, taken: Vec<Run>) -> Result<(), FaultError> {
        self.natives.books().runs = taken;
        self.capture_rest()
    }

    /// Whether pages of the region may be native.
    pub fn has_natives(&self) -> bool {
        self.natives.any()
    }

    /// Makes the native pages the heap's. Nobody else does meanwhile.
    ///
    /// # Errors
    /// As [`Engine::capture`].
    pub fn capture_rest(&self) -> Result<(), FaultError> {
        let _signals = SignalsBlocked::new();
        let mut capture = Capture { presence: Presence::new(), newest: VecDeque::with_capacity(GIVEN_BACK) };
        let mut books = self.natives.books();
        let mut outcome = Ok(());
        while let Some((first, count)) = books.runs.pop() {
            let pages = count.min(CHUNK_PAGES as u64);
            outcome = self.capture_chunk(first, pages as usize, &mut capture);
            let done = if outcome.is_ok() { pages } else { 0 };
            if count > done {
                books.runs.push((PageId(first.0 + done), count - done));
            }
            if outcome.is_err() {
                let given_back = capture.newest.into_iter().filter(|&page| self.give_back(page));
                books.runs.extend(given_back.map(|page| (page, 1)));
                break;
            }
        }
        let guarded = std::mem::take(&mut books.guarded);
        let (kept, done) = guarded.into_iter().partition(|&leaf| books.has(leaf));
        books.guarded = kept;
        self.natives.any.store(!books.runs.is_empty(), Ordering::SeqCst);
        done.into_iter().for_each(|leaf: LeafId| self.leave_range_in_fault(leaf));
        outcome
    }

    fn capture_chunk(&self, first: PageId, count: usize, capture: &mut Capture) -> Result<(), FaultError> {
        let mut present = vec![0; count];
        self.look(first, &mut present, &capture.presence)?;
        for (page, _) in (first.0..).zip(present).filter(|(_, has_bytes)| *has_bytes == 1) {
            let page = PageId(page);
            self.adopt(page, &capture.presence)?;
            if capture.newest.len() == GIVEN_BACK {
                capture.newest.pop_front();
            }
            capture.newest.push_back(page);
        }
        Ok(())
    }

    /// Which pages have bytes.
    fn look(&self, first: PageId, present: &mut [u8], presence: &Presence) -> Result<(), FaultError> {
        // SAFETY: pages of the region, of which absent ones are a userfaultfd's.
        let looked = unsafe { presence.look(self.address_of(first), present) };
        looked.map_err(|errno| FaultError::Map { page: first, errno })
    }

    /// Gives a native page an entry and a slot.
    fn adopt(&self, page: PageId, presence: &Presence) -> Result<(), FaultError> {
        self.unmap_due_in_fault();
        let mut patience = Patience::of_call();
        let mut fill = self.hold_in_fault(page, &mut patience)?;
        // A fault may have brought the page in and another may have evicted it since it was seen. While its entry is held
        // neither happens.
        let mut present = [0];
        if fill.before().is_none() {
            self.look(page, &mut present, presence)?;
        }
        if present[0] == 0 {
            return Ok(());
        }
        fill.place_in_fault(&mut patience)?;
        fill.publish_native()
    }

    /// Makes a page native that was adopted; one that has left its address since, because room was wanted, comes back to it.
    fn give_back(&self, page: PageId) -> bool {
        let is_whole = |entry: Entry| match entry.state() {
            State::Mapped => entry.is_writable() && !entry.is_pinned(),
            State::Cached => entry.is_dirty() && !entry.is_pinned(),
            State::Moving => false,
        };
        let Some(locked) = self.entries.try_lock_if(page, is_whole) else { return false };
        let slot = SlotId(locked.entry().slot().expect("a page in RAM has a slot"));
        if locked.before().is_some_and(|before| before.state() == State::Mapped) {
            // The range is guarded: it does not lose its last page.
            self.leave_range_in_fault(page.leaf());
        } else {
            // SAFETY: the page is the region's and absent, its range is guarded, and the slot is its own, whose entry is held.
            let copied = unsafe {
                self.uffd.copy(self.address_of(page), self.cache.pointer(slot), OS_PAGE_BYTES, false)
            };
            if copied.is_err() {
                locked.restore();
                return false;
            }
        }
        if locked.entry().is_dirty() {
            self.dirty.fetch_sub(1, Ordering::Relaxed);
        }
        self.cache.free(slot);
        locked.remove();
        true
    }

    /// Brings in a native page that the kernel has swapped, and makes it the region's own, if it is the zero page or shared with a
    /// child: pages that are held by pipes must not change their place when they are written. One that the program has protected
    /// stays as it is: who protects pages pins them, and makes them the region's own when they are accessible again ([`Engine::own`]).
    pub(crate) fn own_page(&self, page: PageId) -> Result<(), FaultError> {
        // SAFETY: the page is the region's and has bytes, which do not change.
        match unsafe { advise(self.address_of(page), OS_PAGE_BYTES, Advice::PopulateWrite) } {
            Ok(()) | Err(Errno::EINVAL) => Ok(()),
            Err(errno) => Err(FaultError::Map { page, errno }),
        }
    }

    /// Makes pages that are pinned the region's own, which were protected when they were captured. Afterwards they may be unpinned.
    ///
    /// # Errors
    /// The kernel's.
    pub fn own(&self, first: PageId, count: u64) -> Result<(), FaultError> {
        // SAFETY: pages of the region that are present or in the kernel's swap; no byte changes.
        unsafe { advise(self.address_of(first), count as usize * OS_PAGE_BYTES, Advice::PopulateWrite) }
            .map_err(|errno| FaultError::Map { page: first, errno })
    }

    /// Keeps pages that a system call uses at this moment where they are, as [`Engine::pin`] does, however many are pinned.
    ///
    /// # Errors
    /// [`PinError`]; no page of the call is pinned then.
    pub fn pin_native(&self, first: PageId, count: u64) -> Result<(), PinError> {
        self.pin_up_to(first, count, usize::MAX)
    }

    /// Empties those of the pages that are native.
    pub(crate) fn forget_natives(&self, first: PageId, count: u64) -> Result<(), FaultError> {
        if !self.natives.any() {
            return Ok(());
        }
        for (first, count) in self.natives.books().cut((first, count)) {
            for page in (first.0..first.0 + count).map(PageId) {
                let locked = self.lock_in_fault(page, &mut Patience::of_call())?;
                if locked.before().is_none() {
                    // SAFETY: the page is the region's, and its bytes are given up. While its entry is held nobody brings it in.
                    let emptied = unsafe { advise(self.address_of(page), OS_PAGE_BYTES, Advice::DontNeed) };
                    if let Err(errno) = emptied {
                        locked.restore();
                        return Err(FaultError::Map { page, errno });
                    }
                }
                locked.restore();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_cut_out_of_runs() {
        let run = |first, count| (PageId(first), count);
        let mut books = Books { runs: vec![run(10, 10), run(30, 5)], guarded: Vec::new() };
        assert_eq!(books.cut(run(0, 10)), []);
        assert_eq!(books.cut(run(12, 2)), [run(12, 2)]);
        assert_eq!(books.runs, [run(10, 2), run(14, 6), run(30, 5)]);
        assert_eq!(books.cut(run(18, 13)), [run(18, 2), run(30, 1)]);
        assert_eq!(books.runs, [run(10, 2), run(14, 4), run(31, 4)]);
        assert!(books.has(LeafId(0)) && !books.has(LeafId(1)));
    }
}
