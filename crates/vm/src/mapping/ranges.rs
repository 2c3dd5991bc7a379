//! How many pages are mapped in each 2 MiB range.
//!
//! The kernel frees a page table only when its whole range is dropped. A thousand scattered pages would
//! keep a thousand page tables of 4 KiB each, so a range is dropped as a whole when its last page leaves,
//! and nothing may be mapped in it meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use aquifer_base::LeafId;
use aquifer_map::LeafTable;
use aquifer_sys::Backoff;

const DROPPING: u32 = 1 << 31;

/// Mapped pages per range: a view of the leaf table.
pub(super) struct Ranges {
    table: Arc<LeafTable>,
    live: AtomicUsize,
    /// Ranges that are kept for pages that are not the heap's yet.
    guarded: AtomicUsize,
}

impl Ranges {
    pub(super) fn new(table: Arc<LeafTable>) -> Self {
        Self { table, live: AtomicUsize::new(0), guarded: AtomicUsize::new(0) }
    }

    fn count(&self, leaf: LeafId) -> &AtomicU32 {
        &self.table.row(leaf).mapped
    }

    /// Ranges that have a page table now, but for guarded ones: to empty them frees none.
    pub(super) fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed).saturating_sub(self.guarded.load(Ordering::Relaxed))
    }

    /// Keeps a range, whatever leaves, until [`Ranges::unguard`].
    pub(super) fn guard(&self, leaf: LeafId) {
        self.guarded.fetch_add(1, Ordering::Relaxed);
        self.enter_in_fault(leaf);
    }

    /// Ends [`Ranges::guard`]; to be followed by [`Ranges::leave_in_fault`].
    pub(super) fn unguard(&self) {
        self.guarded.fetch_sub(1, Ordering::Relaxed);
    }

    /// Mapped pages of a range.
    pub(super) fn mapped(&self, leaf: LeafId) -> u32 {
        self.count(leaf).load(Ordering::Relaxed)
    }

    /// Announces that a page of the range is about to be mapped; waits while the range is being dropped.
    pub(super) fn enter_in_fault(&self, leaf: LeafId) {
        let mut backoff = Backoff::new();
        loop {
            let count = self.count(leaf).load(Ordering::Relaxed);
            if count & DROPPING != 0 {
                backoff.wait();
            } else if self
                .count(leaf)
                .compare_exchange_weak(count, count + 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                if count == 0 {
                    self.live.fetch_add(1, Ordering::Relaxed);
                }
                return;
            }
        }
    }

    /// A page of the range is about to leave. True if it is the last: then the caller drops the whole
    /// range and calls [`Ranges::dropped_in_fault`].
    pub(super) fn leave_in_fault(&self, leaf: LeafId) -> bool {
        loop {
            let count = self.count(leaf).load(Ordering::Relaxed);
            debug_assert!(count & DROPPING == 0 && count > 0, "range {leaf:?} has count {count:#x}");
            let last = count == 1;
            let next = if last { DROPPING } else { count - 1 };
            if self
                .count(leaf)
                .compare_exchange_weak(count, next, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                return last;
            }
        }
    }

    /// The range was dropped; pages may be mapped in it again.
    pub(super) fn dropped_in_fault(&self, leaf: LeafId) {
        self.live.fetch_sub(1, Ordering::Relaxed);
        self.count(leaf).store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    const LEAF: LeafId = LeafId(2);

    #[test]
    fn the_last_page_takes_the_range_along() {
        let ranges = Ranges::new(Arc::new(LeafTable::new(4).unwrap()));
        ranges.enter_in_fault(LEAF);
        ranges.enter_in_fault(LEAF);
        ranges.enter_in_fault(LeafId(3));
        assert_eq!((ranges.mapped(LEAF), ranges.mapped(LeafId(0)), ranges.live()), (2, 0, 2));
        assert!(!ranges.leave_in_fault(LEAF));
        assert!(ranges.leave_in_fault(LEAF));
        assert_eq!(ranges.live(), 2, "its page table is there until it is dropped");
        ranges.dropped_in_fault(LEAF);
        assert_eq!((ranges.mapped(LEAF), ranges.live()), (0, 1));
        ranges.enter_in_fault(LEAF);
        assert_eq!((ranges.mapped(LEAF), ranges.live()), (1, 2));
        ranges.guard(LeafId(1));
        assert_eq!((ranges.mapped(LeafId(1)), ranges.live()), (1, 2), "no page of it is the heap's");
        ranges.unguard();
        assert!(ranges.leave_in_fault(LeafId(1)));
    }

    /// While a range is dropped nobody enters it, and each page that entered is counted until it leaves.
    #[test]
    fn nothing_is_mapped_in_a_range_that_is_dropped() {
        let (ranges, dropping) = (Ranges::new(Arc::new(LeafTable::new(4).unwrap())), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5000 {
                        ranges.enter_in_fault(LEAF);
                        assert!(!dropping.load(Ordering::SeqCst), "entered while the range was dropped");
                        assert!(ranges.mapped(LEAF) > 0);
                        if ranges.leave_in_fault(LEAF) {
                            assert!(!dropping.swap(true, Ordering::SeqCst), "two threads drop the range");
                            std::thread::yield_now();
                            dropping.store(false, Ordering::SeqCst);
                            ranges.dropped_in_fault(LEAF);
                        }
                    }
                });
            }
        });
        assert_eq!((ranges.mapped(LEAF), ranges.live()), (0, 0));
    }
}
