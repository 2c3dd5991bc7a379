//! The extents of one partition: a sorted array, six bytes each.
//!
//! ```text
//! block of the arena:  address u32 x capacity | start u16 x capacity
//! ```
//!
//! An extent begins at its start, a grain within the partition, and ends where the next one begins or the partition ends. Its
//! bytes lie in the log from its address on, side by side. No two neighbours could be one. What a reader sees while a writer changes
//! them is anything, within the partition and the log's addresses.

use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use super::source::Source;

/// The extents as they lie in their block.
pub(super) struct Extents<'a> {
    pub(super) starts: &'a [AtomicU16],
    pub(super) addresses: &'a [AtomicU32],
}

impl Extents<'_> {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    #[inline]
    pub(super) fn start(&self, index: usize) -> usize {
        usize::from(self.starts[index].load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn source(&self, index: usize) -> Source {
        Source::from_word(self.addresses[index].load(Ordering::Relaxed))
    }

    /// How many begin at `grain` or before.
    #[inline]
    pub(super) fn count_up_to(&self, grain: usize) -> usize {
        self.starts.partition_point(|start| usize::from(start.load(Ordering::Relaxed)) <= grain)
    }

    /// The source that a grain has, if the first `count` extents begin before it and the next one does not.
    #[inline]
    pub(super) fn continued(&self, count: usize, grain: usize) -> Source {
        match count.checked_sub(1) {
            Some(index) => self.source(index).plus(grain.saturating_sub(self.start(index))),
            None => Source::Hole,
        }
    }

    /// Tells what was in a range in which the extent before `next` has the first grain. Returns how many extents begin before its end, and
    /// the source that the last of them gives the grain at its end.
    #[inline]
    pub(super) fn release(
        &self,
        mut next: usize,
        (start, end): (usize, usize),
        released: &mut impl FnMut(u32, usize),
    ) -> (usize, Source) {
        let mut at = start;
        loop {
            let until = if next < self.len() { self.start(next).min(end) } else { end };
            if let Source::Log(grain) = self.continued(next, at) {
                released(grain, until - at);
            }
            if until == end {
                return (next, self.continued(next, end));
            }
            (at, next) = (until, next + 1);
        }
    }

    /// Copies an extent of another array, or of the same one.
    #[inline]
    pub(super) fn copy(&self, index: usize, from: &Self, at: usize) {
        self.starts[index].store(from.starts[at].load(Ordering::Relaxed), Ordering::Relaxed);
        self.addresses[index].store(from.addresses[at].load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Stores the new extents of a change.
    #[inline]
    pub(super) fn put(&self, change: &Change) {
        for (n, &(start, word)) in change.new[..change.count].iter().enumerate() {
            self.starts[change.kept + n].store(start, Ordering::Relaxed);
            self.addresses[change.kept + n].store(word, Ordering::Relaxed);
        }
    }
}

/// What becomes of the extents of a partition: those from `kept` to `dropped` give way to new ones.
pub(super) struct Change {
    /// Extents before them.
    pub(super) kept: usize,
    /// Extents before those behind them.
    pub(super) dropped: usize,
    /// Starts and addresses of the new ones, of which there are `count`.
    pub(super) new: [(u16, u32); 2],
    pub(super) count: usize,
}

impl Change {
    /// Adds a new one.
    #[inline]
    pub(super) fn push(&mut self, start: usize, source: Source) {
        self.new[self.count] = (start as u16, source.word());
        self.count += 1;
    }
}
