//! A range of some process's addresses through which it sees a file.

use std::sync::Arc;

use aquifer_sys::memory::{Discarder, Protection};
use aquifer_sys::{Errno, Userfaultfd};

use super::failed;
use crate::error::Result;
use crate::walks::Walks;
use crate::word::PAGE_BYTES;

/// Addresses, what they show, and the descriptor by which their faults are resolved.
pub struct View {
    faults: Arc<Userfaultfd>,
    base: usize,
    first_page: u32,
    pages: u32,
    access: Protection,
    /// Hides pages, where that can be done.
    hider: Option<Arc<Discarder>>,
    /// Whether another process says that the addresses are so. What it says may be wrong: nothing that others need is put there, and a call that fails is
    /// that process' trouble alone.
    is_foreign: bool,
    /// Notices programs that go through the file in order.
    walks: Walks,
}

impl View {
    /// A view of `pages` pages from `first_page` at `base`, registered with `faults`.
    ///
    /// # Safety
    /// The addresses stay mapped and registered for as long as the view is used by [`super::MappedPages`] or a fault.
    pub unsafe fn new(
        faults: Arc<Userfaultfd>,
        base: usize,
        first_page: u32,
        pages: u32,
        access: Protection,
    ) -> Self {
        View {
            faults,
            base,
            first_page,
            pages,
            access,
            hider: None,
            is_foreign: false,
            walks: Walks::default(),
        }
    }

    /// The same, in this process: its pages can be hidden, unless it is private, so that what is stored there is nowhere else.
    pub fn with_hider(self, hider: &Arc<Discarder>) -> Self {
        View { hider: (!self.is_private()).then(|| Arc::clone(hider)), ..self }
    }

    /// The same, of another process.
    pub fn of_other(self) -> Self {
        View { is_foreign: true, ..self }
    }

    /// Whether it is another process' view.
    pub fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// The page of the file at an address, if the view has it.
    pub fn page_at(&self, address: usize) -> Option<u32> {
        let page = address.checked_sub(self.base)? / PAGE_BYTES;
        (page < self.pages as usize).then(|| self.first_page + page as u32)
    }

    /// Whether what is stored in it is nowhere else.
    pub fn is_private(&self) -> bool {
        matches!(self.access, Protection::CopyOnWrite | Protection::ReadPrivately)
    }

    /// What may be done through it.
    pub fn access(&self) -> Protection {
        self.access
    }

    /// The first page of the file that it has.
    pub fn first_page(&self) -> u32 {
        self.first_page
    }

    /// Whether the view has one of `pages` pages from `first` on.
    pub fn overlaps(&self, first: u32, pages: u32) -> bool {
        first < self.first_page + self.pages && self.first_page < first.saturating_add(pages)
    }

    /// First address.
    pub fn base(&self) -> usize {
        self.base
    }

    /// Where it shows a page of the file.
    pub fn address_of(&self, index: u32) -> Option<*mut u8> {
        let page = index.checked_sub(self.first_page).filter(|page| *page < self.pages)?;
        Some(std::ptr::with_exposed_provenance_mut(self.base + page as usize * PAGE_BYTES))
    }

    /// Makes absent pages present with these bytes, and shows them here; stores fault.
    ///
    /// # Errors
    /// The system's.
    pub fn fill(&self, index: u32, bytes: &[u8]) -> Result<()> {
        let Some(address) = self.address_of(index) else { return Ok(()) };
        debug_assert!(self.pages_from(index) as usize * PAGE_BYTES >= bytes.len());
        // SAFETY: the range is the view's and registered (see `new`).
        unsafe { self.faults.copy(address, bytes.as_ptr(), bytes.len(), true) }
            .map_err(failed("mapping pages"))
    }

    /// Pages of the view from page `index` of the file on.
    pub fn pages_from(&self, index: u32) -> u32 {
        (self.first_page + self.pages).saturating_sub(index)
    }

    /// The walks of programs through the file.
    pub fn walks(&self) -> &Walks {
        &self.walks
    }

    /// Shows a present page here. Stores fault unless `is_writable`.
    ///
    /// # Errors
    /// The system's.
    pub fn show(&self, index: u32, is_writable: bool) -> Result<()> {
        let Some(address) = self.address_of(index) else { return Ok(()) };
        // SAFETY: as in `fill`.
        match unsafe { self.faults.map_present(address, PAGE_BYTES, !is_writable) } {
            Err(Errno::EEXIST) if is_writable => self.unprotect(index),
            Err(Errno::EEXIST) => self.wake(index),
            outcome => outcome.map_err(failed("mapping a page")),
        }
    }

    /// Shows present pages here, as far as the view has them; stores fault.
    ///
    /// # Errors
    /// The system's.
    pub fn show_run(&self, first: u32, len_bytes: usize) -> Result<()> {
        let Some(range) = self.range(first, len_bytes / PAGE_BYTES) else { return Ok(()) };
        // SAFETY: as in `fill`.
        match unsafe { self.faults.map_present(range.iov_base.cast(), range.iov_len, true) } {
            // Some are shown already: those that are not fault, and are shown then.
            Err(Errno::EEXIST) => self.wake_run(range.iov_base.cast(), range.iov_len),
            outcome => outcome.map_err(failed("mapping pages")),
        }
    }

    fn wake_run(&self, address: *mut u8, len_bytes: usize) -> Result<()> {
        self.faults.wake(address, len_bytes).map_err(failed("waking who waits for a page"))
    }

    /// Lets stores to a page pass that is shown.
    ///
    /// # Errors
    /// The system's.
    pub fn unprotect(&self, index: u32) -> Result<()> {
        let Some(address) = self.address_of(index) else { return Ok(()) };
        // SAFETY: as in `fill`.
        unsafe { self.faults.write_protect(address, PAGE_BYTES, false) }
            .map_err(failed("unprotecting a page"))
    }

    /// Whether a page is shown. If not, accesses to it raise SIGBUS from now on.
    ///
    /// # Errors
    /// The system's.
    pub fn is_shown(&self, index: u32) -> Result<bool> {
        let Some(address) = self.address_of(index) else { return Ok(false) };
        // SAFETY: as in `fill`.
        match unsafe { self.faults.poison(address, PAGE_BYTES) } {
            Err(Errno::EEXIST) => Ok(true),
            outcome => outcome.map(|()| false).map_err(failed("looking for a mapped page")),
        }
    }

    /// Makes the next access to each of these pages fault, if the view can; ascending. Shared memory keeps the bytes, anonymous memory loses them.
    ///
    /// # Errors
    /// The system's.
    pub fn hide(&self, pages: &[u32]) -> Result<()> {
        self.hide_ranges(&self.ranges_of(pages).collect::<Vec<_>>())
    }

    /// The addresses of pages of the view, neighbours together; ascending.
    fn ranges_of<'a>(&'a self, pages: &'a [u32]) -> impl Iterator<Item = libc::iovec> + use<'a> {
        self.ranges_across(pages, 0)
    }

    /// As [`View::ranges_of`], with those together that have at most `gap` pages between them, and with these.
    fn ranges_across<'a>(
        &'a self,
        pages: &'a [u32],
        gap: u32,
    ) -> impl Iterator<Item = libc::iovec> + use<'a> {
        debug_assert!(pages.is_sorted(), "pages of a view that are not ascending");
        let seen = &pages[pages.partition_point(|&page| page < self.first_page)..];
        let runs = seen.chunk_by(move |a, b| b - a <= gap + 1);
        runs.filter_map(|run| self.range(run[0], (run[run.len() - 1] - run[0]) as usize + 1))
    }

    /// As [`View::hide`], for `len_bytes` from page `first` on.
    ///
    /// # Errors
    /// The system's.
    pub fn hide_run(&self, first: u32, len_bytes: usize) -> Result<()> {
        self.range(first, len_bytes / PAGE_BYTES).map_or(Ok(()), |range| self.hide_ranges(&[range]))
    }

    /// The addresses of the pages of the view among `pages` pages from `first` on.
    fn range(&self, first: u32, pages: usize) -> Option<libc::iovec> {
        let base = self.address_of(first)?;
        let count = pages.min(self.pages_from(first) as usize);
        Some(libc::iovec { iov_base: base.cast(), iov_len: count * PAGE_BYTES })
    }

    fn hide_ranges(&self, ranges: &[libc::iovec]) -> Result<()> {
        let Some(hider) = &self.hider else { return Ok(()) };
        // SAFETY: the ranges are the view's (see `new`), and the callers' words say who needs what they show.
        unsafe { hider.discard(ranges) }.map_err(failed("hiding mapped pages"))
    }

    /// Makes stores to pages fault, where they might not; ascending. Up to `gap` pages between them may become so too: where they are shown or absent that
    /// changes nothing, but in shared memory the kernel notes it for absent ones.
    ///
    /// # Errors
    /// The system's.
    pub fn protect(&self, pages: &[u32], gap: u32) -> Result<()> {
        if self.access != Protection::Write {
            return Ok(());
        }
        self.ranges_across(pages, gap).try_for_each(|range| {
            // SAFETY: as in `fill`.
            match unsafe { self.faults.write_protect(range.iov_base.cast(), range.iov_len, true) } {
                // The process is gone, or has unmapped the range, and its stores ended with it.
                Err(Errno(libc::ESRCH | libc::ENOENT)) => Ok(()),
                outcome => outcome.map_err(failed("protecting pages")),
            }
        })
    }

    /// Makes accesses to a page that cannot be read raise SIGBUS.
    ///
    /// # Errors
    /// The system's.
    pub fn poison(&self, index: u32) -> Result<()> {
        let Some(address) = self.address_of(index) else { return Ok(()) };
        // SAFETY: as in `fill`.
        unsafe { self.faults.poison(address, PAGE_BYTES) }.map_err(failed("poisoning a page"))
    }

    /// Lets who waits for a page try again.
    ///
    /// # Errors
    /// The system's.
    pub fn wake(&self, index: u32) -> Result<()> {
        self.address_of(index).map_or(Ok(()), |address| self.wake_run(address, PAGE_BYTES))
    }
}
