//! The pages of a file, or of a part of it, that one view of this process alone shows.
//!
//! They are anonymous memory, which costs less than shared memory: to bring a page, and above all to let many go at once. Only what the program has
//! asked for is there; what it has not, and what is on trial, is in memory of the page's own.

use std::sync::Arc;

use aquifer_sys::memory::{read_all_if_present, read_if_present};

use super::view::View;
use crate::error::{Result, VolumeError};
use crate::frame::{Content, FrameState, PageMemory};
use crate::word::PageBytes;

/// What the view shows.
pub struct AlonePages {
    view: Arc<View>,
}

/// Pages that are protected with changed ones on both sides of them, where they are so already: that costs less than another call of the system.
const GAP_PAGES: u32 = 32;

/// Bytes that only the program had, and gave to the system.
const DISCARDED: VolumeError = VolumeError::Invalid(
    "the program has unmapped or discarded this page of a mapped file (munmap, madvise); use the file's own calls for that",
);

impl AlonePages {
    /// None yet, in a view of anonymous memory.
    pub fn new(view: Arc<View>) -> Self {
        AlonePages { view }
    }

    /// Shows absent pages with these bytes; stores fault.
    ///
    /// # Errors
    /// The system's; none of them is shown then.
    pub fn fill_run(&self, first: u32, bytes: &[u8]) -> Result<()> {
        let shown = self.view.fill(first, bytes);
        if shown.is_err() {
            self.view.hide_run(first, bytes.len())?;
        }
        shown
    }

    /// Shows a page that is in RAM. Stores fault unless `is_writable`.
    ///
    /// # Errors
    /// The system's; the program has discarded what only it had.
    pub fn show(self: &Arc<Self>, index: u32, state: &mut FrameState, is_writable: bool) -> Result<()> {
        match &state.content {
            Content::Own(bytes) => {
                self.fill_run(index, &bytes[..])?;
                state.content = Content::Mapped(Arc::clone(self) as _);
            }
            // Another thread was faster, or it is not there any more.
            _ if !is_writable || state.is_writable => {
                return if self.view.is_shown(index)? { Ok(()) } else { Err(DISCARDED) };
            }
            _ => {}
        }
        if is_writable { self.view.unprotect(index) } else { Ok(()) }
    }
}

impl PageMemory for AlonePages {
    fn fill(&self, _: u32, _: &PageBytes) -> Result<bool> {
        Ok(false)
    }

    fn read(&self, index: u32, offset: usize, bytes: &mut [u8]) -> Result<()> {
        let page = self.view.address_of(index).ok_or(DISCARDED)?;
        read_if_present(page.wrapping_add(offset), bytes).map_err(|_| DISCARDED)
    }

    fn read_pages(&self, pages: &mut [(u32, &mut PageBytes)]) -> Result<()> {
        let mut parts = Vec::with_capacity(pages.len());
        for (index, bytes) in pages {
            let start = self.view.address_of(*index).ok_or(DISCARDED)?;
            parts.push((start.cast_const(), &mut bytes[..]));
        }
        read_all_if_present(&mut parts).map_err(|_| DISCARDED)
    }

    fn write(&self, _: u32, _: usize, _: &[u8]) -> Result<bool> {
        Ok(false)
    }

    fn protect(&self, pages: &[u32]) -> Result<()> {
        self.view.protect(pages, GAP_PAGES)
    }

    fn hide(&self, _: &[u32]) -> Result<bool> {
        Ok(false)
    }

    fn drop_pages(&self, pages: &[u32]) -> Result<()> {
        self.view.hide(pages)
    }
}
