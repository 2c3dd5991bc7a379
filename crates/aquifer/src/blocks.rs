//! A heap as the allocator of Rust's collections.

use std::alloc::Layout;
use std::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use crate::shared::SharedHeap;

/// The blocks of a heap as an allocator, for collections that take one: `allocator_api2::vec::Vec`, `hashbrown::HashMap` and others.
/// Blocks share pages of 4096 bytes, which page faults bring in (SSDAlloc's memory pages, NSDI 2011).
///
/// ```
/// use allocator_api2::vec::Vec;
/// use aquifer::{Blocks, Options, SharedHeap};
///
/// # fn main() -> Result<(), aquifer::Error> {
/// let heap = SharedHeap::open(Options::new().ram_bytes(16 << 20).flash_bytes(256 << 20))?;
/// let mut numbers = Vec::new_in(Blocks::new(&heap));
/// numbers.extend(0..4_000_000u64);                          // 31 MiB in 16 MiB
/// assert_eq!(numbers[3_999_999], 3_999_999);
/// # Ok(())
/// # }
/// ```
///
/// # Context
/// Memory of it must not be touched in a child of the process that opened the heap: it dies of SIGSEGV.
#[derive(Clone)]
pub struct Blocks(SharedHeap);

impl Blocks {
    /// The blocks of `heap`.
    pub fn new(heap: &SharedHeap) -> Self {
        Self(heap.clone())
    }

    fn resize(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Option<NonNull<[u8]>> {
        let fits = (block.as_ptr() as usize).is_multiple_of(new.align());
        let is_resized = old.size() > 0
            && new.size() > 0
            && fits
            && self.0.heap().resize_block(block.as_ptr(), new.size()).ok()?;
        is_resized.then(|| NonNull::slice_from_raw_parts(block, new.size()))
    }

    /// # Safety
    /// As of [`Allocator::grow`] or [`Allocator::shrink`].
    unsafe fn move_to(
        &self,
        block: NonNull<u8>,
        old: Layout,
        moved: NonNull<[u8]>,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let bytes = old.size().min(moved.len());
        // SAFETY: both blocks have these bytes, and the old one is not used any more.
        unsafe {
            moved.cast::<u8>().copy_from_nonoverlapping(block, bytes);
            self.deallocate(block, old);
        }
        Ok(moved)
    }
}

// SAFETY: blocks stay where they are until they are freed, which only this does, or the heap is dropped, which all copies of this share.
unsafe impl Allocator for Blocks {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(NonNull::slice_from_raw_parts(dangling(layout), 0));
        }
        let block = self.0.heap().allocate_block(layout.size(), layout.align()).map_err(|_| AllocError)?;
        let block = NonNull::new(block).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = self.allocate(layout)?;
        if layout.size() > 0 && self.0.heap().block_is_recycled(layout.size()) {
            // SAFETY: a new block of that length.
            unsafe { block.cast::<u8>().write_bytes(0, layout.size()) };
        }
        Ok(block)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() > 0 {
            // It fails in a child of the process that opened the heap, which has nothing to give back.
            let _child = self.0.heap().free(block.as_ptr());
        }
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        match self.resize(block, old, new) {
            Some(resized) => Ok(resized),
            // SAFETY: passed on to the caller.
            None => unsafe { self.move_to(block, old, self.allocate(new)?) },
        }
    }

    unsafe fn grow_zeroed(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: passed on to the caller; the bytes behind the old ones are in the block.
        unsafe {
            let grown = self.grow(block, old, new)?;
            grown.cast::<u8>().add(old.size()).write_bytes(0, new.size() - old.size());
            Ok(grown)
        }
    }

    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: passed on to the caller.
        unsafe { self.grow(block, old, new) }
    }
}

/// What stands for a block without bytes.
fn dangling(layout: Layout) -> NonNull<u8> {
    NonNull::new(std::ptr::without_provenance_mut(layout.align())).expect("an alignment is not 0")
}
