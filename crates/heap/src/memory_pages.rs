//! Blocks on whole pages beside the objects of one heap.

use aquifer_base::limits::{LEAF_PAGES, OS_PAGE_BYTES};
use aquifer_base::{AllocationClass, PageId};

use crate::allocator::{Allocator, Use};
use crate::error::HeapError;
use crate::paged::{Change, Paged, Pages};
use crate::shape::flash_bytes;

impl Allocator {
    /// The space of blocks, made when it is first used.
    fn paged(&self) -> Result<&Paged, HeapError> {
        if let Some(paged) = self.paged.get() {
            return Ok(paged);
        }
        let mut state = self.state();
        if let Some(paged) = self.paged.get() {
            return Ok(paged);
        }
        let most = self.engine.log().usable_bytes(OS_PAGE_BYTES) / flash_bytes(OS_PAGE_BYTES, 1);
        // Twice as much, so that what is used leaves runs to choose from.
        let leaves = 2 * most / LEAF_PAGES as u64 + 1;
        let first = self
            .take_leaves(&mut state, leaves, Use::Paged, OS_PAGE_BYTES, AllocationClass::DEFAULT)?
            .page(0);
        let base = self.engine.address_of(first).expose_provenance();
        Ok(self.paged.get_or_init(|| Paged::new(first, base, leaves * LEAF_PAGES as u64)))
    }

    /// The space of blocks, if `address` is in it.
    pub(crate) fn paged_at(&self, address: usize) -> Option<&Paged> {
        self.paged.get().filter(|paged| paged.contains(address))
    }

    fn promise(&self, pages: u64) -> Result<(), HeapError> {
        let bytes = flash_bytes(OS_PAGE_BYTES, pages);
        self.with_backlog(|| self.state().promises.make(self.engine.log(), OS_PAGE_BYTES, bytes))
    }

    fn take_back(&self, pages: u64) {
        if pages > 0 {
            self.state().promises.take_back(OS_PAGE_BYTES, flash_bytes(OS_PAGE_BYTES, pages));
        }
    }

    /// The address of a block of at least `bytes`, which may share its pages with others, at a multiple of `align` bytes, a
    /// power of two. Its contents are undefined.
    ///
    /// # Errors
    /// [`HeapError::Full`], [`HeapError::NoAddressSpace`].
    pub fn allocate_block(&self, bytes: usize, align: usize) -> Result<*mut u8, HeapError> {
        if !align.is_power_of_two() {
            return Err(HeapError::Invalid("an alignment is a power of two"));
        }
        let address =
            self.paged()?.allocate(bytes, align, &mut |pages| self.promise(pages), &mut |pages| {
                self.take_back(pages);
            })?;
        Ok(std::ptr::with_exposed_provenance_mut(address))
    }

    /// Makes a block longer or shorter where it is; false if it must move.
    ///
    /// # Errors
    /// [`HeapError::Foreign`] if no block is there, [`HeapError::Full`], [`HeapError::Fault`].
    pub fn resize_block(&self, address: usize, bytes: usize) -> Result<bool, HeapError> {
        let paged = self.paged_at(address).ok_or(HeapError::Foreign(address))?;
        match paged.resize(address, bytes, &mut |pages| self.promise(pages))? {
            Change::Gained(_) => Ok(true),
            Change::Lost(pages) => self.empty(paged, pages).map(|()| true),
            Change::Impossible => Ok(false),
        }
    }

    pub(crate) fn free_block(&self, paged: &Paged, address: usize) -> Result<(), HeapError> {
        let usable = paged.usable_bytes(address)?;
        let page = PageId::from_offset((address - self.engine.base() as usize) as u64);
        if usable >= OS_PAGE_BYTES && self.engine.is_pinned(page, (usable / OS_PAGE_BYTES) as u64) {
            return Err(HeapError::Pinned(address));
        }
        let pages = paged.free(address)?;
        self.empty(paged, pages)
    }

    fn empty(&self, paged: &Paged, pages: Pages) -> Result<(), HeapError> {
        if pages.1 > 0 {
            // Pages that cannot be emptied, because their leaf cannot be read, are never used again.
            self.engine.release(pages.0, pages.1)?;
            self.take_back(pages.1);
            paged.recycle(pages);
        }
        Ok(())
    }
}
