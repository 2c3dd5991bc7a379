//! Which class of objects each leaf holds.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_base::{AllocationClass, LeafId};
use aquifer_sys::{Errno, Reservation};

/// One byte for each leaf, in memory that is taken when a leaf first has another class than the default.
pub(crate) struct Classes {
    bytes: Reservation,
    leaves: u32,
    in_use: AtomicBool,
}

impl Classes {
    pub(crate) fn new(leaves: u32) -> Result<Self, Errno> {
        let len = (leaves as usize).next_multiple_of(OS_PAGE_BYTES);
        Ok(Self { bytes: Reservation::new(len, OS_PAGE_BYTES)?, leaves, in_use: AtomicBool::new(false) })
    }

    fn byte(&self, leaf: LeafId) -> &AtomicU8 {
        assert!(leaf.0 < self.leaves);
        // SAFETY: the reservation holds `leaves` zeroed bytes that are only used as these atomics.
        unsafe { &*self.bytes.base().cast::<AtomicU8>().add(leaf.0 as usize) }
    }

    /// Whether a leaf ever had another class than the default.
    pub(crate) fn are_in_use(&self) -> bool {
        self.in_use.load(Ordering::Relaxed)
    }

    pub(crate) fn get(&self, leaf: LeafId) -> AllocationClass {
        if !self.are_in_use() {
            return AllocationClass::DEFAULT;
        }
        AllocationClass(self.byte(leaf).load(Ordering::Relaxed))
    }

    pub(crate) fn set(&self, leaf: LeafId, class: AllocationClass) {
        if self.get(leaf) != class {
            self.in_use.store(true, Ordering::Relaxed);
            self.byte(leaf).store(class.0, Ordering::Relaxed);
        }
    }
}
