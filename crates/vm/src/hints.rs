//! What the program says about its accesses to come.

use std::sync::atomic::{AtomicU8, Ordering};

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_base::{LeafId, PageId};
use aquifer_map::State;
use aquifer_sys::{Errno, Reservation, SignalsBlocked};

use crate::engine::Engine;
use crate::error::FaultError;

/// How a range will be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hint {
    /// Soon: it is brought into RAM, as far as there is room.
    WillNeed,
    /// From one end to the other: read ahead from the first faults on. Holds for whole ranges of 2 MiB.
    Sequential,
    /// In no order: nothing is read ahead. Holds for whole ranges of 2 MiB.
    Random,
    /// Not soon: it leaves its addresses, and RAM before other pages.
    Cold,
}

/// How walks through a leaf are expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Order {
    /// To be found out.
    Unknown = 0,
    Sequential = 1,
    Random = 2,
}

/// The order of each leaf.
pub(crate) struct Orders {
    bytes: Reservation,
    leaves: u32,
}

impl Orders {
    pub(crate) fn new(leaves: u32) -> Result<Self, Errno> {
        let len = (leaves as usize).next_multiple_of(OS_PAGE_BYTES);
        Ok(Self { bytes: Reservation::new(len, OS_PAGE_BYTES)?, leaves })
    }

    fn byte(&self, leaf: LeafId) -> &AtomicU8 {
        assert!(leaf.0 < self.leaves);
        // SAFETY: the reservation holds `leaves` zeroed bytes that are only used as these atomics.
        unsafe { &*self.bytes.base().cast::<AtomicU8>().add(leaf.0 as usize) }
    }

    pub(crate) fn get(&self, leaf: LeafId) -> Order {
        match self.byte(leaf).load(Ordering::Relaxed) {
            1 => Order::Sequential,
            2 => Order::Random,
            _ => Order::Unknown,
        }
    }

    pub(crate) fn set(&self, leaf: LeafId, order: Order) {
        self.byte(leaf).store(order as u8, Ordering::Relaxed);
    }
}

impl Engine {
    /// Takes a hint about `count` pages from `first`.
    ///
    /// # Errors
    /// With [`Hint::WillNeed`] the first page that cannot be read.
    pub fn advise(&self, first: PageId, count: u64, hint: Hint) -> Result<(), FaultError> {
        let end = first.0 + count;
        match hint {
            Hint::WillNeed => self.prefetch(&mut (first.0..end).map(PageId)),
            Hint::Sequential | Hint::Random => {
                let order = if hint == Hint::Random { Order::Random } else { Order::Sequential };
                let last = PageId(end.max(first.0 + 1) - 1).leaf();
                (first.leaf().0..=last.0).for_each(|leaf| self.orders.set(LeafId(leaf), order));
                Ok(())
            }
            Hint::Cold => {
                let _signals = SignalsBlocked::new();
                (first.0..end).map(PageId).for_each(|page| self.cool(page));
                self.want_writer();
                Ok(())
            }
        }
    }

    fn cool(&self, page: PageId) {
        let Some(entry) = self.entries.find(page) else { return };
        if entry.state() == State::Mapped && !entry.is_pinned() {
            self.evict_page_in_fault(page);
        }
        // A dirty page stays until it has been written.
        self.cache.evict_page(page, &self.entries);
    }
}
