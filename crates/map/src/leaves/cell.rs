//! What stands in an arena cell: 16 bytes of header, then the packed leaf.
//!
//! ```text
//! bytes 0..4   leaf that owns the cell (atomic: the sweep reads it without the leaf's lock)
//! bytes 4..8   bytes of the packed leaf
//! bytes 8..16  directory word of the copy in the log, 0 if there is none
//! ```
//! Everything but the owner is used only by who holds the lock of the leaf that names the cell.

use std::sync::atomic::{AtomicU32, Ordering};

use aquifer_base::LeafId;

use crate::arena::{Arena, Cell};

pub(super) const HEADER_BYTES: usize = 16;

/// # Safety
/// The caller holds the lock of the leaf that names `cell`, for as long as it uses the bytes.
pub(super) unsafe fn packed(arena: &Arena, cell: Cell) -> &[u8] {
    let start = arena.pointer(cell);
    // SAFETY: `fill` wrote the header and that many bytes, and the caller excludes changes.
    unsafe {
        let bytes = *start.add(4).cast::<u32>() as usize;
        std::slice::from_raw_parts(start.add(HEADER_BYTES), bytes)
    }
}

/// # Safety
/// `cell` was returned by the arena; its owner may have changed meanwhile.
pub(super) unsafe fn owner(arena: &Arena, cell: Cell) -> LeafId {
    // SAFETY: the first four bytes of a cell are only written through this atomic.
    let owner = unsafe { &*arena.pointer(cell).cast::<AtomicU32>() };
    LeafId(owner.load(Ordering::Acquire))
}

/// # Safety
/// As for [`packed`].
pub(super) unsafe fn logged(arena: &Arena, cell: Cell) -> u64 {
    // SAFETY: `fill` wrote the word; cells are aligned to 8.
    unsafe { *arena.pointer(cell).add(8).cast::<u64>() }
}

/// # Safety
/// As for [`packed`].
pub(super) unsafe fn set_logged(arena: &Arena, cell: Cell, word: u64) {
    // SAFETY: as for `logged`, and nobody else reads it without the lock.
    unsafe { *arena.pointer(cell).add(8).cast::<u64>() = word };
}

/// # Safety
/// The cell was allocated for `packed.len() + HEADER_BYTES`, and either no word names it yet or the
/// caller holds the lock of the one that does.
pub(super) unsafe fn fill(arena: &Arena, cell: Cell, leaf: LeafId, logged: u64, packed: &[u8]) {
    let start = arena.pointer(cell);
    // SAFETY: the cell has room for header and bytes and is ours.
    unsafe {
        *start.add(4).cast::<u32>() = packed.len() as u32;
        *start.add(8).cast::<u64>() = logged;
        std::ptr::copy_nonoverlapping(packed.as_ptr(), start.add(HEADER_BYTES), packed.len());
        (*start.cast::<AtomicU32>()).store(leaf.0, Ordering::Release);
    }
}
