//! Which page holds which logical page, both ways.

use crate::nand::PageId;

/// In either table: nothing.
const NOTHING: u32 = u32::MAX;

/// The table of logical pages - those of the host, and after them the parts of the bitmap of trimmed ones - and its inverse.
#[derive(Debug)]
pub(super) struct Mapping {
    places: Vec<u32>,
    owners: Vec<u32>,
}

impl Mapping {
    pub(super) fn new(logical_pages: u32, pages: u32) -> Self {
        Mapping { places: vec![NOTHING; logical_pages as usize], owners: vec![NOTHING; pages as usize] }
    }

    /// Where a logical page is.
    pub(super) fn place(&self, logical: u32) -> Option<PageId> {
        Some(self.places[logical as usize]).filter(|&place| place != NOTHING).map(PageId)
    }

    /// Whose page it is; `None` for garbage and for what was never programmed.
    pub(super) fn owner(&self, page: PageId) -> Option<u32> {
        Some(self.owners[page.0 as usize]).filter(|&owner| owner != NOTHING)
    }

    /// Says where a logical page is now; returns where it was.
    pub(super) fn set(&mut self, logical: u32, page: PageId) -> Option<PageId> {
        let old = self.clear(logical);
        self.places[logical as usize] = page.0;
        self.owners[page.0 as usize] = logical;
        old
    }

    /// Says that a logical page is nowhere; returns where it was.
    pub(super) fn clear(&mut self, logical: u32) -> Option<PageId> {
        let old = self.place(logical)?;
        self.places[logical as usize] = NOTHING;
        self.owners[old.0 as usize] = NOTHING;
        Some(old)
    }

    /// Where all logical pages are, in order.
    pub(super) fn places(&self) -> impl Iterator<Item = Option<PageId>> {
        (0..self.places.len() as u32).map(|logical| self.place(logical))
    }
}
