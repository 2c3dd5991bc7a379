//! What changed in a page, as ranges of bytes.

use crate::word::{PAGE_BYTES, PageBytes};

/// Bytes `start..end` of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// First byte.
    pub start: u16,
    /// Byte after the last, at most 4096.
    pub end: u16,
}

impl Range {
    fn len(self) -> usize {
        usize::from(self.end - self.start)
    }

    fn bytes(self) -> std::ops::Range<usize> {
        usize::from(self.start)..usize::from(self.end)
    }
}

/// What a range costs in a patch besides its bytes.
const RANGE_BYTES: usize = 4;
/// Ranges this close are one: the bytes between cost no more than another range.
const GAP_BYTES: usize = RANGE_BYTES;
/// A patch that is longer is not worth it: the page is written whole.
pub const PATCH_BYTES_MAX: usize = 1024;

/// Ranges in order, none touching another.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ranges(Vec<Range>);

impl Ranges {
    /// Where `new` differs from `old`.
    #[must_use]
    pub fn between(old: &PageBytes, new: &PageBytes) -> Self {
        let mut ranges = Ranges::default();
        for (word, (a, b)) in old.chunks_exact(8).zip(new.chunks_exact(8)).enumerate() {
            if a == b {
                continue;
            }
            for byte in 0..8 {
                if a[byte] != b[byte] {
                    ranges.push((word * 8 + byte) as u16);
                }
            }
        }
        ranges
    }

    /// Adds a byte that is not before any other.
    fn push(&mut self, byte: u16) {
        match self.0.last_mut() {
            Some(last) if usize::from(byte) <= usize::from(last.end) + GAP_BYTES => last.end = byte + 1,
            _ => self.0.push(Range { start: byte, end: byte + 1 }),
        }
    }

    /// Words of eight bytes, in order.
    #[must_use]
    pub fn of_words(slots: impl Iterator<Item = usize>) -> Self {
        let mut ranges = Vec::<Range>::new();
        for slot in slots {
            let (start, end) = (slot as u16 * 8, slot as u16 * 8 + 8);
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(Range { start, end }),
            }
        }
        Ranges(ranges)
    }

    /// Numbers of the words of eight bytes that these touch.
    pub fn words(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().flat_map(|range| usize::from(range.start) / 8..usize::from(range.end).div_ceil(8))
    }

    /// All bytes of both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut all: Vec<Range> = self.0.iter().chain(&other.0).copied().collect();
        all.sort_unstable_by_key(|range| range.start);
        let mut merged = Vec::<Range>::with_capacity(all.len());
        for range in all {
            match merged.last_mut() {
                Some(last) if usize::from(range.start) <= usize::from(last.end) + GAP_BYTES => {
                    last.end = last.end.max(range.end);
                }
                _ => merged.push(range),
            }
        }
        Ranges(merged)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes that [`Ranges::encode`] makes.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        self.0.iter().map(|range| RANGE_BYTES + range.len()).sum()
    }

    /// Appends start, end and bytes of each range.
    pub fn encode(&self, page: &PageBytes, out: &mut Vec<u8>) {
        for range in &self.0 {
            out.extend_from_slice(&range.start.to_le_bytes());
            out.extend_from_slice(&range.end.to_le_bytes());
            out.extend_from_slice(&page[range.bytes()]);
        }
    }

    /// Puts encoded bytes into a page, and says which they were; `None` if they are no patch, and the page may be half changed then.
    #[must_use]
    pub fn apply(mut encoded: &[u8], page: &mut PageBytes) -> Option<Self> {
        let mut ranges = Vec::new();
        while !encoded.is_empty() {
            let (head, rest) = encoded.split_at_checked(RANGE_BYTES)?;
            let start = u16::from_le_bytes([head[0], head[1]]);
            let end = u16::from_le_bytes([head[2], head[3]]);
            let follows = ranges.last().is_none_or(|last: &Range| last.end < start);
            if start >= end || usize::from(end) > PAGE_BYTES || !follows {
                return None;
            }
            let range = Range { start, end };
            let (bytes, rest) = rest.split_at_checked(range.len())?;
            page[range.bytes()].copy_from_slice(bytes);
            ranges.push(range);
            encoded = rest;
        }
        Some(Ranges(ranges))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page_with(changes: &[(u16, u8)]) -> PageBytes {
        let mut page = [7; PAGE_BYTES];
        for &(at, value) in changes {
            page[usize::from(at) % PAGE_BYTES] = value;
        }
        page
    }

    #[test]
    fn neighbours_are_one_range() {
        let ranges = Ranges::between(&[7; PAGE_BYTES], &page_with(&[(0, 1), (5, 1), (10, 1), (4095, 1)]));
        assert_eq!(ranges.0, [Range { start: 0, end: 11 }, Range { start: 4095, end: 4096 }]);
    }

    #[test]
    fn what_is_no_patch_is_refused() {
        let mut page = [0; PAGE_BYTES];
        for bad in
            [&[1u8][..], &[5, 0, 5, 0], &[0, 0, 1, 0], &[0, 0, 1, 0x10, 1], &[0, 0, 1, 0, 9, 1, 0, 2, 0, 9]]
        {
            assert_eq!(Ranges::apply(bad, &mut page), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn patches_make_the_new_page(
            first in proptest::collection::vec((0..4096u16, any::<u8>()), 0..40),
            second in proptest::collection::vec((0..4096u16, any::<u8>()), 0..40),
        ) {
            let base = [7; PAGE_BYTES];
            let middle = page_with(&first);
            let mut last = middle;
            for &(at, value) in &second {
                last[usize::from(at)] = value;
            }
            let ranges = Ranges::between(&base, &middle).union(&Ranges::between(&middle, &last));
            let mut encoded = Vec::new();
            ranges.encode(&last, &mut encoded);
            prop_assert_eq!(encoded.len(), ranges.encoded_bytes());
            let mut page = base;
            prop_assert_eq!(Ranges::apply(&encoded, &mut page), Some(ranges));
            prop_assert_eq!(&page[..], &last[..]);
        }
    }
}
