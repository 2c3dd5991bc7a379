//! Memory that is the kernel's, until it no longer fits in RAM.
//!
//! A program whose memory fits in its budget needs no heap. So a region can begin as ordinary memory, of which the kernel
//! alone takes care; an engine that is made over it later captures what is there (`takeover`).
//!
//! A page that has bytes and no entry is *native*: its bytes are at its address, in RAM or in the kernel's swap. It becomes the heap's
//! when it is captured, or by the first fault or pin that finds it so. A capture that ends with an error leaves the rest
//! native: all of it can be used, only the kernel cannot be asked to take it away.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aquifer_base::limits::{LEAF_PAGES, LEAF_RANGE_BYTES, OS_PAGE_BYTES};
use aquifer_base::{LeafId, PageId};
use aquifer_sys::memory::{Advice, access, advise, look_in_ram};
use aquifer_sys::{Errno, Reservation};

use crate::page_set::{PageSet, Run};

/// What a region begins at a multiple of, in bytes: the most alignment that its blocks can have.
pub const REGION_ALIGN: usize = 64 << 20;

/// A region that is ordinary memory. Clones are the same region, which ends with the last of them and the engine over it.
#[derive(Clone, Debug)]
pub struct NativeRegion {
    reservation: Arc<Reservation>,
    closed: Arc<PageSet>,
}

impl NativeRegion {
    /// Reserves address space for `leaves`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(leaves: u32) -> Result<Self, Errno> {
        let reservation = Reservation::new(leaves as usize * LEAF_RANGE_BYTES, REGION_ALIGN)?;
        let pages = u64::from(leaves) * LEAF_PAGES as u64;
        Ok(Self { reservation: Arc::new(reservation), closed: Arc::new(PageSet::new(pages)?) })
    }

    pub(crate) fn reservation(&self) -> Arc<Reservation> {
        self.reservation.clone()
    }

    /// Pages that the program may not touch.
    pub fn closed(&self) -> &Arc<PageSet> {
        &self.closed
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

    /// Empties pages and closes them, or opens closed ones.
    ///
    /// # Errors
    /// The kernel's; they are as before, or emptied.
    pub fn set_closed(&self, (first, count): Run, closed: bool) -> Result<(), Errno> {
        let (offset, len) = (first.offset_bytes() as usize, count as usize * OS_PAGE_BYTES);
        if closed {
            self.release(first, count)?;
        }
        let protection = if closed { libc::PROT_NONE } else { libc::PROT_READ | libc::PROT_WRITE };
        // SAFETY: pages of the region, which have been released; who opens or closes them uses them.
        unsafe { access(self.reservation.base().wrapping_add(offset), len, protection)? };
        if closed {
            self.closed.insert((first, count))
        } else {
            self.closed.remove((first, count))
        };
        Ok(())
    }

    /// Gives `count` pages from `first` memory, so that they are present when the region is taken over.
    ///
    /// # Errors
    /// The kernel's.
    pub fn populate(&self, first: PageId, count: u64) -> Result<(), Errno> {
        self.advise((first, count), Advice::PopulateWrite)
    }

    /// How many of `count` pages from `first` are in RAM; none where the kernel does not tell.
    pub fn pages_in_ram(&self, first: PageId, count: u64) -> u64 {
        let mut pages = [0; 1024];
        let in_ram = |done: u64| {
            let part = &mut pages[..(count - done).min(1024) as usize];
            let start = self.base().wrapping_add(PageId(first.0 + done).offset_bytes() as usize);
            // SAFETY: pages of the region, which are mapped.
            let looked = unsafe { look_in_ram(start, part) };
            looked.map_or(0, |()| part.iter().map(|page| u64::from(*page)).sum())
        };
        (0..count).step_by(1024).map(in_ram).sum()
    }
}

/// The native pages of an engine's region.
pub(crate) struct Natives {
    /// There may be some: nothing is brought in that was not touched.
    any: AtomicBool,
    books: Mutex<Books>,
}

/// Which pages may be native.
pub(crate) struct Books {
    /// Every native page is in one of these; not every page in these is native, as faults make some the heap's.
    runs: Vec<Run>,
    /// Leaves whose ranges were entered for them: who drops a range with its last page would drop native ones too.
    guarded: Vec<LeafId>,
    /// Leaves whose ranges are kept for good: the program has mapped something else in them, which would go with a range that is dropped.
    kept: Vec<LeafId>,
}

impl Books {
    /// Takes up to `most` pages side by side.
    pub(crate) fn next(&mut self, most: u64) -> Option<Run> {
        let (first, count) = self.runs.pop()?;
        let taken = count.min(most);
        if taken < count {
            self.runs.push((PageId(first.0 + taken), count - taken));
        }
        Some((first, taken))
    }

    /// These pages may be native too.
    pub(crate) fn add(&mut self, runs: impl IntoIterator<Item = Run>) {
        self.runs.extend(runs);
    }

    /// Takes those of the pages that are in the runs.
    pub(crate) fn cut(&mut self, (first, count): Run) -> Vec<Run> {
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
        let books = Books { runs: Vec::new(), guarded: Vec::new(), kept: Vec::new() };
        Self { any: AtomicBool::new(false), books: Mutex::new(books) }
    }

    /// Whether pages may be native.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::SeqCst)
    }

    /// How often the range of the leaf was entered for native pages, and for what the program has mapped there.
    pub(crate) fn guards(&self, leaf: LeafId) -> u32 {
        let books = self.books();
        u32::from(self.any() && books.guarded.contains(&leaf)) + u32::from(books.kept.contains(&leaf))
    }

    /// The range of the leaf is to be kept for good; whether it was not yet.
    pub(crate) fn keep(&self, leaf: LeafId) -> bool {
        let mut books = self.books();
        let is_new = !books.kept.contains(&leaf);
        if is_new {
            books.kept.push(leaf);
        }
        is_new
    }

    /// Pages of these leaves may be native from now on.
    pub(crate) fn begin(&self, leaves: impl Iterator<Item = LeafId>) {
        self.any.store(true, Ordering::SeqCst);
        self.books().guarded.extend(leaves);
    }

    /// Locks the books, for a capture or to give pages up.
    pub(crate) fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// After a capture: the leaves whose ranges need not be kept any more.
    pub(crate) fn settle(&self, books: &mut Books) -> Vec<LeafId> {
        let guarded = std::mem::take(&mut books.guarded);
        let (kept, done) = guarded.into_iter().partition(|&leaf| books.has(leaf));
        books.guarded = kept;
        self.any.store(!books.runs.is_empty(), Ordering::SeqCst);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_cut_out_of_runs() {
        let run = |first, count| (PageId(first), count);
        let mut books = Books { runs: vec![run(10, 10), run(30, 5)], guarded: Vec::new(), kept: Vec::new() };
        assert_eq!(books.cut(run(0, 10)), []);
        assert_eq!(books.cut(run(12, 2)), [run(12, 2)]);
        assert_eq!(books.runs, [run(10, 2), run(14, 6), run(30, 5)]);
        assert_eq!(books.cut(run(18, 13)), [run(18, 2), run(30, 1)]);
        assert_eq!(books.runs, [run(10, 2), run(14, 4), run(31, 4)]);
        assert!(books.has(LeafId(0)) && !books.has(LeafId(1)));
    }
}
