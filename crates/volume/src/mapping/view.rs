//! A range of some process's addresses through which it sees a file.

use std::sync::Arc;

use aquifer_sys::memory::Protection;
use aquifer_sys::{Errno, Userfaultfd};

use super::pages::failed;
use crate::error::Result;
use crate::word::{PAGE_BYTES, PageBytes};

/// Addresses, what they show, and the descriptor by which their faults are resolved.
pub struct View {
    faults: Arc<Userfaultfd>,
    base: usize,
    first_page: u32,
    pages: u32,
    access: Protection,
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
        View { faults, base, first_page, pages, access }
    }

    /// The page of the file at an address, if the view has it.
    pub fn page_at(&self, address: usize) -> Option<u32> {
        let page = address.checked_sub(self.base)? / PAGE_BYTES;
        (page < self.pages as usize).then(|| self.first_page + page as u32)
    }

    /// What may be done through it.
    pub fn access(&self) -> Protection {
        self.access
    }

    /// First address.
    pub fn base(&self) -> usize {
        self.base
    }

    fn address_of(&self, index: u32) -> Option<*mut u8> {
        let page = index.checked_sub(self.first_page).filter(|page| *page < self.pages)?;
        Some(std::ptr::with_exposed_provenance_mut(self.base + page as usize * PAGE_BYTES))
    }

    /// Makes an absent page present with these bytes, and shows it here; stores fault.
    ///
    /// # Errors
    /// The system's.
    pub fn fill(&self, index: u32, bytes: &PageBytes) -> Result<()> {
        let Some(address) = self.address_of(index) else { return Ok(()) };
        // SAFETY: the range is the view's and registered (see `new`).
        unsafe { self.faults.copy(address, bytes.as_ptr(), PAGE_BYTES, true) }
            .map_err(failed("mapping a page"))
    }

    /// Shows a present page here. Stores fault unless `is_writable`.
    ///
    /// # Errors
    /// The system's.
    pub fn show(&self, index: u32, is_writable: bool) -> Result<()> {
        let Some(address) = self.address_of(index) else { return Ok(()) };
        // SAFETY: as in `fill`.
        match unsafe { self.faults.map_present(address, PAGE_BYTES, !is_writable) } {
            Err(Errno::EEXIST) if is_writable => {
                // SAFETY: as in `fill`.
                unsafe { self.faults.write_protect(address, PAGE_BYTES, false) }
                    .map_err(failed("unprotecting a page"))
            }
            Err(Errno::EEXIST) => self.wake(index),
            outcome => outcome.map_err(failed("mapping a page")),
        }
    }

    /// Makes stores to a page fault, where they might not.
    ///
    /// # Errors
    /// The system's.
    pub fn protect(&self, index: u32) -> Result<()> {
        match self.address_of(index).filter(|_| self.access == Protection::Write) {
            // SAFETY: as in `fill`.
            Some(address) => match unsafe { self.faults.write_protect(address, PAGE_BYTES, true) } {
                // The process is gone, and its stores with it.
                Err(Errno(libc::ESRCH)) => Ok(()),
                outcome => outcome.map_err(failed("protecting a page")),
            },
            None => Ok(()),
        }
    }

    /// Makes accesses to a page that cannot be had raise SIGBUS.
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
        let Some(address) = self.address_of(index) else { return Ok(()) };
        self.faults.wake(address, PAGE_BYTES).map_err(failed("waking who waits for a page"))
    }
}
