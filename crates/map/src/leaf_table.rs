//! What is known of each leaf: one row of 16 bytes, whichever part of the heap it is for.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

use aquifer_base::LeafId;
use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_sys::{Errno, Reservation};

/// A leaf's row. All zeros before the leaf is first used.
#[repr(C, align(16))]
pub struct Row {
    /// Where the leaf is: that of [`Leaves`](crate::Leaves).
    pub(crate) place: AtomicU64,
    /// Its pages that are mapped: the user's of the table.
    pub mapped: AtomicU32,
    /// Bytes of every page; 0 if the leaf is not given out: that of [`Leaves`](crate::Leaves).
    pub(crate) page_bytes: AtomicU16,
    /// Which class of objects it holds: the user's.
    pub class: AtomicU8,
    /// In which order its pages are used: the user's.
    pub order: AtomicU8,
}

/// Bytes of a row.
pub const ROW_BYTES: usize = 16;
const _: () = assert!(size_of::<Row>() == ROW_BYTES);

/// The rows of all leaves. Rows that were never used take no RAM.
pub struct LeafTable {
    rows: Reservation,
    count: u32,
}

impl LeafTable {
    /// A table of `count` leaves.
    ///
    /// # Errors
    /// The kernel refused the address space.
    pub fn new(count: u32) -> Result<Self, Errno> {
        let bytes = (count as usize * ROW_BYTES).next_multiple_of(OS_PAGE_BYTES);
        Ok(Self { rows: Reservation::new(bytes, OS_PAGE_BYTES)?, count })
    }

    /// How many leaves there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// A leaf's row.
    ///
    /// # Panics
    /// If there is no such leaf.
    #[inline]
    pub fn row(&self, leaf: LeafId) -> &Row {
        assert!(leaf.0 < self.count, "leaf {leaf:?} is beyond the {} of this heap", self.count);
        // SAFETY: the reservation holds `count` rows, is zeroed, aligned, and lives as long as self; it is only ever used as rows, all
        // of whose fields are atomics.
        unsafe { &*self.rows.base().cast::<Row>().add(leaf.0 as usize) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn each_leaf_has_a_row_of_zeros() {
        let table = LeafTable::new(300).unwrap();
        table.row(LeafId(7)).mapped.store(9, Ordering::Relaxed);
        let mapped: Vec<_> = (0..300).map(|n| table.row(LeafId(n)).mapped.load(Ordering::Relaxed)).collect();
        assert_eq!((mapped[7], mapped.iter().sum::<u32>()), (9, 9));
    }

    #[test]
    #[should_panic(expected = "beyond the 4 of this heap")]
    fn a_leaf_beyond_the_heap_is_refused() {
        LeafTable::new(4).unwrap().row(LeafId(4));
    }
}
