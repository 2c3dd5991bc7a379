//! Faults that walk through memory in order.

use std::sync::atomic::{AtomicU64, Ordering};

use aquifer_base::PageId;
use aquifer_base::limits::LEAF_PAGES;

/// Walks that are told apart.
const STREAMS: usize = 64;
/// Consecutive faults before pages are mapped ahead.
const STEADY: u64 = 2;
/// Most pages that are mapped ahead at once.
const AHEAD_MAX: u64 = 16;

/// The last fault of each walk and how many pages it has covered.
///
/// A walk is found by its leaf; two walks that share a place only lose their count.
pub(super) struct Streams {
    /// Page expected next, times 256, plus pages covered so far, at most 255.
    next: [AtomicU64; STREAMS],
}

impl Streams {
    pub(super) fn new() -> Self {
        Self { next: [const { AtomicU64::new(0) }; STREAMS] }
    }

    /// Notes a fault at `page` and says how many of the pages behind it to map along.
    pub(super) fn note_in_fault(&self, page: PageId) -> usize {
        let word = &self.next[page.leaf().0 as usize % STREAMS];
        let before = word.load(Ordering::Relaxed);
        let covered = if before >> 8 == page.0 { before & 0xFF } else { 0 };
        let left_in_leaf = (LEAF_PAGES - 1 - page.index()) as u64;
        word.store((page.0 + 1) << 8 | (covered + 1).min(255), Ordering::Relaxed);
        if covered < STEADY { 0 } else { covered.min(AHEAD_MAX).min(left_in_leaf) as usize }
    }

    /// Notes that `along` pages behind `page`, which was noted last, have been mapped: the next fault is behind those.
    pub(super) fn note_along_in_fault(&self, page: PageId, along: usize) {
        let word = &self.next[page.leaf().0 as usize % STREAMS];
        let before = word.load(Ordering::Relaxed);
        if before >> 8 == page.0 + 1 {
            let covered = (before & 0xFF) + along as u64;
            word.store((page.0 + 1 + along as u64) << 8 | covered.min(255), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fault with which all pages were mapped that were asked for.
    fn fault(streams: &Streams, page: u64) -> usize {
        let along = streams.note_in_fault(PageId(page));
        streams.note_along_in_fault(PageId(page), along);
        along
    }

    #[test]
    fn looks_ahead_only_in_order() {
        let streams = Streams::new();
        let along = [512, 513, 514, 517, 517, 600].map(|page| fault(&streams, page));
        assert_eq!(along, [0, 0, 2, 5, 0, 0]);
    }

    #[test]
    fn a_walk_goes_on_where_nothing_was_mapped_along() {
        let streams = Streams::new();
        let along: Vec<_> = (512..520).map(|page| streams.note_in_fault(PageId(page))).collect();
        assert_eq!(along, [0, 0, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn stays_in_its_leaf() {
        let streams = Streams::new();
        for page in 0..1024 {
            let ahead = streams.note_in_fault(PageId(page)) as u64;
            assert_eq!((page + ahead) / 512, page / 512);
        }
    }
}
