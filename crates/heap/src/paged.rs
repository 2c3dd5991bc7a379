//! Blocks on whole pages (SSDAlloc's memory pages, MP): for objects that share pages, and for programs that cannot be changed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use aquifer_base::PageId;
use aquifer_base::limits::OS_PAGE_BYTES;

use crate::error::HeapError;
use crate::small_blocks::{self, Freed, GROUP_PAGES, Size, Small};
use crate::space::{Resized, Space};

/// A run of pages of a region: first page and count.
pub type Pages = (PageId, u64);

/// Blocks in consecutive pages of a region.
///
/// It keeps the books only: the caller empties pages that are free again, then calls [`Paged::recycle`].
pub struct Paged {
    first: PageId,
    base: usize,
    pages: u64,
    space: Mutex<Space>,
    small: Small,
}

/// What became of a block whose size was to change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It has these pages more.
    Gained(Pages),
    /// It has these pages less, which are to be emptied and recycled.
    Lost(Pages),
    /// It must move.
    Impossible,
}

/// Nobody else is in the books.
pub struct Rest<'a> {
    _small: small_blocks::Rest<'a>,
    _space: MutexGuard<'a, Space>,
}

impl Paged {
    /// A space of `pages` from `first`, which is at address `base`.
    pub fn new(first: PageId, base: usize, pages: u64) -> Self {
        Self { first, base, pages, space: Mutex::new(Space::new(pages)), small: Small::new(pages) }
    }

    fn space(&self) -> MutexGuard<'_, Space> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the space has this address.
    pub fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.base) < self.pages as usize * OS_PAGE_BYTES
    }

    /// Keeps other threads out of the books until the guard is dropped.
    pub fn rest(&self) -> Rest<'_> {
        Rest { _small: self.small.rest(), _space: self.space() }
    }

    fn offset(&self, address: usize) -> Result<u64, HeapError> {
        if self.contains(address) {
            Ok((address - self.base) as u64)
        } else {
            Err(HeapError::Foreign(address))
        }
    }

    fn pages_at(&self, first: u64, count: u64) -> Pages {
        (PageId(self.first.0 + first), count)
    }

    /// Blocks and their bytes, rounded up.
    pub fn usage(&self) -> (u64, u64) {
        let (blocks, bytes) = self.small.usage();
        let space = self.space();
        (space.blocks() + blocks, space.block_bytes() + bytes)
    }

    /// RAM of the bookkeeping, about.
    pub fn ram_bytes(&self) -> usize {
        self.small.ram_bytes() + self.space().ram_bytes()
    }

    /// The address of a block of at least `bytes` at a multiple of `align`, a power of two. `promise` is asked first,
    /// with the number of pages that it newly takes.
    ///
    /// # Errors
    /// What `promise` says; [`HeapError::NoAddressSpace`]; [`HeapError::Invalid`] for more alignment than the region has.
    pub fn allocate(
        &self,
        bytes: usize,
        align: usize,
        promise: &mut dyn FnMut(u64) -> Result<(), HeapError>,
        take_back: &mut dyn FnMut(u64),
    ) -> Result<usize, HeapError> {
        self.check_align(align)?;
        if let Some(size) = Size::of(bytes, align) {
            let pool = Small::own_pool(size);
            if let Some(offset) = self.small.take(pool) {
                return Ok(self.base + offset as usize);
            }
            promise(GROUP_PAGES)?;
            let first = self.space().allocate_group(GROUP_PAGES);
            let unit = self.placed(first, GROUP_PAGES, take_back)? / GROUP_PAGES;
            return Ok(self.base + self.small.add(pool, unit as u32) as usize);
        }
        let pages = (bytes.max(1) as u64).div_ceil(OS_PAGE_BYTES as u64);
        promise(pages)?;
        let offset = self.space().allocate(bytes, align);
        Ok(self.base + self.placed(offset, pages, take_back)? as usize)
    }

    fn check_align(&self, align: usize) -> Result<(), HeapError> {
        let is_had = self.base.is_multiple_of(align);
        is_had.then_some(()).ok_or(HeapError::Invalid("more alignment than the heap's memory has"))
    }

    /// What was found for `pages` that were promised.
    fn placed(
        &self,
        found: Option<u64>,
        pages: u64,
        take_back: &mut dyn FnMut(u64),
    ) -> Result<u64, HeapError> {
        found.ok_or_else(|| {
            take_back(pages);
            HeapError::NoAddressSpace { leaves: pages / 512 + 1 }
        })
    }

    /// A small block, if there is one in pages that are taken already.
    pub fn try_allocate_small(&self, bytes: usize, align: usize) -> Option<usize> {
        let offset = self.small.take(Small::own_pool(Size::of(bytes, align)?))?;
        Some(self.base + offset as usize)
    }

    /// Whether `address` is in pages of small blocks. Lock-free.
    pub fn is_small(&self, address: usize) -> bool {
        self.offset(address).is_ok_and(|offset| self.small.size_at(offset).is_some())
    }

    /// As [`Paged::allocate`], for `pages` at a multiple of `align` bytes that are given back by [`Paged::cut`] and hold no block.
    ///
    /// # Errors
    /// As [`Paged::allocate`].
    pub fn allocate_mapping(
        &self,
        pages: u64,
        align: usize,
        promise: &mut dyn FnMut(u64) -> Result<(), HeapError>,
        take_back: &mut dyn FnMut(u64),
    ) -> Result<usize, HeapError> {
        self.check_align(align)?;
        promise(pages)?;
        let offset = self.space().allocate_mapping(pages, (align / OS_PAGE_BYTES).max(1) as u64);
        Ok(self.base + self.placed(offset, pages, take_back)? as usize)
    }

    /// Bytes of the mapping that begins at `address`.
    pub fn mapping_bytes(&self, address: usize) -> Option<usize> {
        self.space().mapping_bytes(self.offset(address).ok()?)
    }

    /// Whether `address` is in a mapping.
    pub fn is_mapping(&self, address: usize) -> bool {
        self.offset(address).is_ok_and(|offset| self.space().is_mapping(offset))
    }

    /// Bytes that may be used at the block at `address`.
    ///
    /// # Errors
    /// [`HeapError::Foreign`], [`HeapError::DoubleFree`].
    pub fn usable_bytes(&self, address: usize) -> Result<usize, HeapError> {
        let offset = self.offset(address)?;
        let usable = match self.small.size_at(offset) {
            Some(size) => self.small.is_block(offset).then_some(size.bytes()),
            None => self.space().usable_bytes(offset),
        };
        usable.ok_or(HeapError::DoubleFree(address))
    }

    /// Frees the block at `address`; returns the pages that it leaves.
    ///
    /// # Errors
    /// [`HeapError::Foreign`], [`HeapError::DoubleFree`].
    pub fn free(&self, address: usize) -> Result<Pages, HeapError> {
        let offset = self.offset(address)?;
        if self.small.size_at(offset).is_some() {
            return match self.small.free(offset).ok_or(HeapError::DoubleFree(address))? {
                Freed::Kept => Ok((self.first, 0)),
                Freed::Group(unit) => {
                    let first = u64::from(unit) * GROUP_PAGES;
                    self.space().free_group(first);
                    Ok(self.pages_at(first, GROUP_PAGES))
                }
            };
        }
        let (first, count) = self.space().free(offset).ok_or(HeapError::DoubleFree(address))?;
        Ok(self.pages_at(first, count))
    }

    /// Makes the block at `address` longer or shorter where it is, if it is not small. `promise` is asked for the pages that it gains.
    ///
    /// # Errors
    /// What `promise` says; [`HeapError::Foreign`]. The block is as before.
    pub fn resize(
        &self,
        address: usize,
        bytes: usize,
        promise: &mut dyn FnMut(u64) -> Result<(), HeapError>,
    ) -> Result<Change, HeapError> {
        let offset = self.offset(address)?;
        let mut space = self.space();
        match space.resize(offset, bytes) {
            None => Ok(Change::Impossible),
            Some(Resized::Lost(first, count)) => Ok(Change::Lost(self.pages_at(first, count))),
            Some(Resized::Gained(first, count)) => {
                if let Err(error) = promise(count) {
                    let kept = (first * OS_PAGE_BYTES as u64 - offset) as usize;
                    space.resize(offset, kept);
                    space.recycle(first, count);
                    return Err(error);
                }
                Ok(Change::Gained(self.pages_at(first, count)))
            }
        }
    }

    /// Takes the pages of `bytes` from `address` out of the blocks that they lie in, and calls `visit` with each run of them.
    pub fn cut(&self, address: usize, bytes: usize, visit: &mut dyn FnMut(Pages)) {
        let Ok(offset) = self.offset(address) else { return };
        let mut page = offset / OS_PAGE_BYTES as u64;
        let end = (offset + bytes as u64).div_ceil(OS_PAGE_BYTES as u64).min(self.pages);
        while page < end {
            let cut = self.space().cut(page, end - page);
            if let Some(count) = cut {
                visit(self.pages_at(page, count));
            }
            page += cut.unwrap_or(1);
        }
    }

    /// Takes the free ones among the pages of a range as mappings, and calls `visit` with each run of them.
    pub fn claim(&self, address: usize, bytes: usize, visit: &mut dyn FnMut(Pages)) {
        let Ok(offset) = self.offset(address) else { return };
        let mut page = offset / OS_PAGE_BYTES as u64;
        let end = (offset + bytes as u64).div_ceil(OS_PAGE_BYTES as u64).min(self.pages);
        loop {
            let claimed = self.space().claim(page, end);
            let Some((first, count)) = claimed else { return };
            visit(self.pages_at(first, count));
            page = first + count;
        }
    }

    /// Lets pages be taken again that are empty now.
    pub fn recycle(&self, pages: Pages) {
        self.space().recycle(pages.0.0 - self.first.0, pages.1);
    }

    /// Calls `visit` for all pages in use.
    pub fn for_each_taken(&self, visit: &mut dyn FnMut(Pages)) {
        self.space().for_each_taken(&mut |first, count| visit(self.pages_at(first, count)));
    }
}
