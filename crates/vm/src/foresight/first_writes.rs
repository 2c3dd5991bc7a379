//! Whether a page that is read first will be written soon.
//!
//! A page that is mapped for reading costs a second fault when it is written, about as much as the first one. Where most
//! of the pages are written before they leave, they are mapped writable at once: whether they were written is seen when
//! they leave, by comparison with their slots or, of whole pages, with the digest that they were mapped with.

use std::sync::atomic::{AtomicI8, AtomicU32, Ordering};

use aquifer_base::LeafId;

/// Leaves share this many scores.
const SCORES: usize = 1024;
/// Mapped writable from this score on. A page that was read only counts one down, one that was written one up, so the score
/// of leaves where more than half are written rises to its bound.
const LIKELY: i8 = 4;
const BOUND: i8 = 12;
/// A written whole page weighs as much as this many pages that were only read. Finding a clean page costs an
/// eighth of the second fault, instead of a half.
const WHOLE_WEIGHT: i8 = 4;
/// One page in this many is mapped for reading although a write is likely, to see whether it still is.
const SAMPLED: u32 = 16;

/// What became of the pages that were mapped for reading, by leaf.
pub(super) struct FirstWrites {
    scores: Box<[AtomicI8; SCORES]>,
    samples: AtomicU32,
}

impl FirstWrites {
    pub(super) fn new() -> Self {
        Self { scores: Box::new([const { AtomicI8::new(0) }; SCORES]), samples: AtomicU32::new(0) }
    }

    fn score(&self, leaf: LeafId) -> &AtomicI8 {
        &self.scores[leaf.0 as usize % SCORES]
    }

    /// Adds to the score. Two threads at once may count one only.
    fn add(&self, leaf: LeafId, step: i8) {
        let score = self.score(leaf);
        let before = score.load(Ordering::Relaxed);
        let after = (before + step).clamp(-BOUND, BOUND);
        if after != before {
            score.store(after, Ordering::Relaxed);
        }
    }

    /// A page of `leaf` that was mapped for reading is written.
    pub(super) fn note_write_in_fault(&self, leaf: LeafId, is_whole: bool) {
        self.add(leaf, if is_whole { WHOLE_WEIGHT } else { 1 });
    }

    /// A page of `leaf` that was mapped for reading leaves, and was not written.
    pub(super) fn note_read_only_in_fault(&self, leaf: LeafId) {
        self.add(leaf, -1);
    }

    /// A whole page of `leaf` that was mapped writable for a read leaves, and `is_written` or not.
    pub(super) fn note_whole_in_fault(&self, leaf: LeafId, is_written: bool) {
        self.add(leaf, if is_written { WHOLE_WEIGHT } else { -1 });
    }

    /// Whether to map a page of `leaf`, which is being read, writable. Of whole pages all are told about when they leave.
    pub(super) fn is_likely_in_fault(&self, leaf: LeafId, is_whole: bool) -> bool {
        self.score(leaf).load(Ordering::Relaxed) >= LIKELY
            && (is_whole || !self.samples.fetch_add(1, Ordering::Relaxed).is_multiple_of(SAMPLED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAF: LeafId = LeafId(3);

    #[test]
    fn leaves_whose_pages_are_written_are_told_from_others() {
        let first_writes = FirstWrites::new();
        assert!(!first_writes.is_likely_in_fault(LEAF, false));
        (0..LIKELY).for_each(|_| first_writes.note_write_in_fault(LEAF, false));
        let likely = (0..160).filter(|_| first_writes.is_likely_in_fault(LEAF, false)).count();
        assert_eq!(likely, 150, "one in sixteen is a sample");
        assert!(!first_writes.is_likely_in_fault(LeafId(4), false));
    }

    #[test]
    fn a_leaf_that_is_only_read_again_is_forgotten_soon() {
        let first_writes = FirstWrites::new();
        (0..100).for_each(|_| first_writes.note_write_in_fault(LEAF, false));
        (0..BOUND).for_each(|_| first_writes.note_read_only_in_fault(LEAF));
        assert!((0..160).all(|_| !first_writes.is_likely_in_fault(LEAF, false)));
    }

    #[test]
    fn one_whole_page_in_five_is_enough() {
        let first_writes = FirstWrites::new();
        first_writes.note_write_in_fault(LEAF, true);
        for page in 0..500 {
            first_writes.note_whole_in_fault(LEAF, page % 5 == 0);
        }
        assert!((0..160).all(|_| first_writes.is_likely_in_fault(LEAF, true)));
        (0..BOUND).for_each(|_| first_writes.note_whole_in_fault(LEAF, false));
        assert!(!first_writes.is_likely_in_fault(LEAF, true));
    }
}
