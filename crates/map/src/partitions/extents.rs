//! The extents of one partition: a sorted array, six bytes each, or seven if the log is long.
//!
//! ```text
//! block of the arena:  address u32 x capacity | start u16 x capacity | high bits of the address u8 x capacity, in a long log
//! ```
//!
//! An extent begins at its start, a grain within the partition, and ends where the next one begins or the partition ends. Its
//! bytes lie in the log from its address on, side by side. No two neighbours could be one, if the map joins them.
//! What a reader sees while a writer changes them is anything, within the partition and the log's addresses.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

use aquifer_sys::prefetch::prefetch;

use super::source::{GRAINS, HOLE, Source, plus};

/// How many extents began up to a place when it was looked at last (the hot-node cache of Hu et al., ATC 2017, section on the
/// address map). A guess: it is tried before it is searched.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Hint(u16);

impl Hint {
    /// A hint that guesses nothing, and learns nothing.
    pub const NONE: Self = Self(u16::MAX);
}

/// The extents as they lie in their block.
pub(super) struct Extents<'a> {
    pub(super) starts: &'a [AtomicU16],
    pub(super) addresses: &'a [AtomicU32],
    /// Bits 32 to 39 of each address; none in a short log.
    pub(super) highs: &'a [AtomicU8],
}

#[inline]
fn begins_up_to(start: &AtomicU16, grain: usize) -> bool {
    usize::from(start.load(Ordering::Relaxed)) <= grain
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

    /// The word of its source.
    #[inline]
    pub(super) fn word(&self, index: usize) -> u64 {
        let low = u64::from(self.addresses[index].load(Ordering::Relaxed));
        self.highs.get(index).map_or(low, |high| low | u64::from(high.load(Ordering::Relaxed)) << 32)
    }

    #[inline]
    pub(super) fn set_word(&self, index: usize, word: u64) {
        self.addresses[index].store(word as u32, Ordering::Relaxed);
        if let Some(high) = self.highs.get(index) {
            high.store((word >> 32) as u8, Ordering::Relaxed);
        }
    }

    /// Sets the start and the word of one.
    #[inline]
    pub(super) fn set(&self, index: usize, (start, word): (u16, u64)) {
        self.starts[index].store(start, Ordering::Relaxed);
        self.set_word(index, word);
    }

    /// How many begin at `grain` or before.
    #[inline]
    pub(super) fn count_up_to(&self, grain: usize, hint: &mut Hint) -> usize {
        let guess = usize::from(hint.0);
        let is_before =
            guess == 0 || self.starts.get(guess - 1).is_some_and(|start| begins_up_to(start, grain));
        if is_before && self.starts.get(guess).is_none_or(|start| !begins_up_to(start, grain)) {
            return guess;
        }
        let count = self.search(grain);
        if *hint != Hint::NONE {
            hint.0 = count as u16;
        }
        count
    }

    /// How many begin at `grain` or before, without a hint: objects of a partition are of one size and most of them were written alike, so extents are
    /// spread evenly, and the right one is near where it would be then.
    #[inline]
    fn search(&self, grain: usize) -> usize {
        let (len, begins) = (self.len(), |start: &AtomicU16| begins_up_to(start, grain));
        let guess = grain * len / GRAINS;
        let Some(start) = self.starts.get(guess) else { return self.starts.partition_point(begins) };
        // It is needed next, and lies elsewhere.
        prefetch(std::ptr::from_ref(&self.addresses[guess]).cast(), size_of::<u32>(), 1);
        let mut step = 1;
        if begins(start) {
            let mut low = guess + 1;
            while self.starts.get(low + step - 1).is_some_and(begins) {
                low += step;
                step *= 2;
            }
            let high = len.min(low + step - 1);
            return low + self.starts[low..high].partition_point(begins);
        }
        let mut high = guess;
        while high >= step && !begins(&self.starts[high - step]) {
            high -= step;
            step *= 2;
        }
        let low = (high + 1).saturating_sub(step);
        low + self.starts[low..high].partition_point(begins)
    }

    /// The word of a grain's source, if the first `count` extents begin before it and the next one does not. Else it is anything among the log's
    /// addresses: a reader whose extents are being changed looks there before it knows.
    #[inline]
    pub(super) fn continued(&self, count: usize, grain: usize) -> u64 {
        match count.checked_sub(1) {
            Some(index) => plus(self.word(index), grain.saturating_sub(self.start(index))),
            None => HOLE,
        }
    }

    /// Gives the extent before `next` another source, if it is just this range and stays an extent of its own, as it does if the map does
    /// not join; returns the old source.
    /// The usual case: an object is written again as it was written before.
    #[inline]
    pub(super) fn replace_one(
        &self,
        next: usize,
        (start, end): (usize, usize),
        word: u64,
        joins: bool,
    ) -> Option<u64> {
        let index = next.checked_sub(1)?;
        let until = if next < self.len() { self.start(next) } else { GRAINS };
        if self.start(index) != start || until != end || (self.continued(index, start) == word && joins) {
            return None;
        }
        if next < self.len() && self.word(next) == plus(word, end - start) && joins {
            return None;
        }
        let before = self.word(index);
        self.set_word(index, word);
        Some(before)
    }

    /// Tells what was in a range in which the extent before `next` has the first grain. Returns how many extents begin before its end, and
    /// the word that the last of them gives the grain at its end.
    #[inline]
    pub(super) fn release(
        &self,
        mut next: usize,
        (start, end): (usize, usize),
        released: &mut impl FnMut(u64, usize),
    ) -> (usize, u64) {
        let mut at = start;
        loop {
            let until = if next < self.len() { self.start(next).min(end) } else { end };
            if let Source::Log(grain) = Source::from_word(self.continued(next, at)) {
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
        self.set(index, (from.start(at) as u16, from.word(at)));
    }

    /// Stores the new extents of a change.
    #[inline]
    pub(super) fn put(&self, change: &Change) {
        for (n, &new) in change.new[..change.count].iter().enumerate() {
            self.set(change.kept + n, new);
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
    pub(super) new: [(u16, u64); 2],
    pub(super) count: usize,
}

impl Change {
    /// Adds a new one.
    #[inline]
    pub(super) fn push(&mut self, start: usize, word: u64) {
        self.new[self.count] = (start as u16, word);
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn search(starts: &[u16], grain: usize) -> usize {
        let words = starts.iter().map(|_| AtomicU32::new(0)).collect::<Vec<_>>();
        let starts = starts.iter().map(|&start| AtomicU16::new(start)).collect::<Vec<_>>();
        Extents { starts: &starts, addresses: &words, highs: &[] }.search(grain)
    }

    /// A writer has changed the start after a reader counted the extents before its grain.
    #[test]
    fn what_a_racing_reader_finds_is_among_the_addresses() {
        let (starts, addresses) = ([AtomicU16::new(300)], [AtomicU32::new(3)]);
        let extents = Extents { starts: &starts, addresses: &addresses, highs: &[] };
        assert_eq!(extents.continued(1, 2), 3);
    }

    proptest! {
        #[test]
        fn finds_the_place_among_sorted_starts(
            starts in prop::collection::btree_set(0..GRAINS as u16, 0..GRAINS),
            clustered in prop::bool::ANY,
            grain in 0..GRAINS,
        ) {
            // Evenly spread, and all in the first half.
            let halve = |start: u16| if clustered { start / 2 } else { start };
            let mut starts: Vec<_> = starts.into_iter().map(halve).collect();
            starts.dedup();
            let expected = starts.partition_point(|&start| usize::from(start) <= grain);
            prop_assert_eq!(search(&starts, grain), expected);
        }

        /// As a reader may see them while somebody changes them.
        #[test]
        fn stays_inside_whatever_the_starts(starts in prop::collection::vec(any::<u16>(), 0..GRAINS), grain in 0..GRAINS) {
            prop_assert!(search(&starts, grain) <= starts.len());
        }
    }
}
