//! What the program says about its accesses to come.

use aquifer_base::{LeafId, PageId};

use crate::foresight::Order;
use crate::leave::leave_one_in_fault;
use crate::pages::Pages;
use crate::residence::may_leave;

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

/// The leaves of `count` pages from `first` are used in this order.
pub(crate) fn set_order(pages: &Pages, first: PageId, count: u64, order: Order) {
    let last = PageId((first.0 + count).max(first.0 + 1) - 1).leaf();
    (first.leaf().0..=last.0).for_each(|leaf| pages.foresight.set_order(LeafId(leaf), order));
}

/// Has `count` pages from `first` leave RAM before others.
pub(crate) fn cool(pages: &Pages, first: PageId, count: u64) {
    for page in (first.0..first.0 + count).map(PageId) {
        let Some(entry) = pages.residence.find(page) else { continue };
        if may_leave(entry) {
            leave_one_in_fault(pages, page);
        }
        // A dirty page stays until it has been written.
        pages.residence.evict(page);
    }
    pages.backing.want_writer();
}
