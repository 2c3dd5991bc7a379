//! Blocks that share pages, in either kind of heap.

use aquifer::{Error, Heap};

use crate::heap::{move_to, multiply};

/// As `malloc` aligns.
const ALIGN: usize = 16;

pub(crate) fn allocate(heap: &Heap, size: usize) -> Result<*mut u8, Error> {
    heap.allocate_block(size, ALIGN)
}

pub(crate) fn allocate_zeroed(heap: &Heap, count: usize, size: usize) -> Result<*mut u8, Error> {
    let bytes = multiply(count, size)?;
    let block = allocate(heap, bytes)?;
    if heap.block_is_recycled(bytes) {
        // SAFETY: the block is ours and has that many bytes.
        unsafe { block.write_bytes(0, bytes) };
    }
    Ok(block)
}

pub(crate) fn resize(heap: &Heap, block: *mut u8, size: usize) -> Result<*mut u8, Error> {
    if block.is_null() {
        return allocate(heap, size);
    }
    let usable = heap.usable_bytes(block)?;
    if (size <= usable && size > usable / 2) || heap.resize_block(block, size)? {
        return Ok(block);
    }
    move_to(heap, block, allocate(heap, size)?, usable.min(size))
}
