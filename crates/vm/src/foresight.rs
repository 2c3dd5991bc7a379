//! What will be wanted: pages that come next, and whether a page that is read will be written.
//!
//! | file | noun |
//! |---|---|
//! | `walks` | faults in order: how many pages to map along, which whole pages to read ahead; what the program has said of its accesses |
//! | `vicinity` | misses in no order: which whole pages to read beside the one that is missed |
//! | `first_writes` | whether a page that is read first will be written soon |
//! | `requests` | whole pages that are to be read, for the thread that reads them |

mod first_writes;
mod requests;
mod vicinity;
mod walks;

use std::sync::Arc;

use aquifer_base::{LeafId, PageId};
use aquifer_map::LeafTable;

use first_writes::FirstWrites;
use requests::Requests;
use vicinity::Vicinity;
use walks::Walks;

pub(crate) use requests::Request;
pub(crate) use walks::Order;
pub use walks::WINDOW_MAX_DEFAULT;

/// What is known of the accesses to one heap.
pub(crate) struct Foresight {
    table: Arc<LeafTable>,
    walks: Walks,
    requests: Requests,
    vicinity: Vicinity,
    first_writes: FirstWrites,
}

impl Foresight {
    /// Nothing is known yet; up to `read_ahead_pages` are read ahead of a walk.
    pub(crate) fn new(table: Arc<LeafTable>, read_ahead_pages: u32) -> Self {
        Self {
            table,
            walks: Walks::new(read_ahead_pages),
            requests: Requests::new(),
            vicinity: Vicinity::new(),
            first_writes: FirstWrites::new(),
        }
    }

    /// Notes a fault; how many of the pages behind it to map along.
    pub(crate) fn note_in_fault(&self, page: PageId, is_whole: bool) -> usize {
        let order = is_whole.then(|| Order::of(&self.table, page.leaf()));
        let (along, request) = self.walks.note_in_fault(page, order);
        if let Some(request) = request {
            self.requests.ask_in_fault(request);
        }
        along
    }

    /// Notes that `along` pages behind `page`, whose fault was noted, have been mapped.
    pub(crate) fn note_along_in_fault(&self, page: PageId, along: usize) {
        self.walks.note_along_in_fault(page, along);
    }

    /// A whole page is read from flash for a fault; has some of its neighbours read too, if that has paid of late.
    pub(crate) fn note_miss_in_fault(&self, page: PageId) {
        if Order::of(&self.table, page.leaf()) == Order::Random {
            return;
        }
        if let Some(request) = self.vicinity.note_miss_in_fault(page) {
            self.requests.ask_in_fault(request);
        }
    }

    /// A whole page was used that had been read ahead.
    pub(crate) fn note_ahead_used_in_fault(&self, page: PageId) {
        self.vicinity.note_hit_in_fault(page);
    }

    /// Notes how a leaf's pages will be used.
    pub(crate) fn set_order(&self, leaf: LeafId, order: Order) {
        order.set(&self.table, leaf);
    }

    /// Waits for a walk that needs pages; `None` when `is_over`.
    pub(crate) fn next_walk(&self, is_over: impl Fn() -> bool) -> Option<Request> {
        self.requests.next(is_over)
    }

    /// Wakes the thread that reads ahead, to let it end.
    pub(crate) fn close(&self) {
        self.requests.wake();
    }

    /// Whether to map a page of `leaf`, which is being read, writable.
    pub(crate) fn is_write_likely_in_fault(&self, leaf: LeafId, is_whole: bool) -> bool {
        self.first_writes.is_likely_in_fault(leaf, is_whole)
    }

    /// A page of `leaf` that was mapped for reading is written.
    pub(crate) fn note_write_in_fault(&self, leaf: LeafId, is_whole: bool) {
        self.first_writes.note_write_in_fault(leaf, is_whole);
    }

    /// A page of `leaf` that was mapped for reading leaves, and was not written.
    pub(crate) fn note_read_only_in_fault(&self, leaf: LeafId) {
        self.first_writes.note_read_only_in_fault(leaf);
    }

    /// A whole page of `leaf` that was mapped writable for a read leaves, and `is_written` or not.
    pub(crate) fn note_whole_in_fault(&self, leaf: LeafId, is_written: bool) {
        self.first_writes.note_whole_in_fault(leaf, is_written);
    }
}
