//! Ranges of the device that lie beside each other are one read.

use std::ops::Range;

/// Bytes of one read, at most: several of them are under way at once, where one of all bytes would be alone.
const READ_BYTES_MAX: u64 = 128 << 10;

/// Where a range is found in what was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Found {
    /// The read's number.
    pub(super) read: usize,
    /// First byte in it.
    pub(super) offset: usize,
    /// How many.
    pub(super) bytes: usize,
}

impl Found {
    /// The bytes in the read.
    pub(super) fn range(self) -> Range<usize> {
        self.offset..self.offset + self.bytes
    }
}

/// Reads that have all of `ranges` in them, and for each of these where. Gaps are read too that are no longer than what follows, so that the reads have twice the bytes
/// of the ranges at most.
pub(super) fn join(ranges: &[Range<u64>]) -> (Vec<Range<u64>>, Vec<Found>) {
    let mut order: Vec<usize> = (0..ranges.len()).collect();
    order.sort_unstable_by_key(|&n| ranges[n].start);
    let mut reads: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    let mut found = vec![Found { read: 0, offset: 0, bytes: 0 }; ranges.len()];
    for n in order {
        let range = &ranges[n];
        let bytes = range.end - range.start;
        match reads.last_mut() {
            Some(last) if range.start <= last.end + bytes && range.end <= last.start + READ_BYTES_MAX => {
                last.end = last.end.max(range.end);
            }
            _ => reads.push(range.clone()),
        }
        let read = reads.len() - 1;
        let offset = (range.start - reads[read].start) as usize;
        found[n] = Found { read, offset, bytes: bytes as usize };
    }
    (reads, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn neighbours_are_one_read() {
        let (reads, found) = join(&[4096..8192, 0..4096, 20480..24576, 8192..8704]);
        assert_eq!(reads, [0..8704, 20480..24576]);
        assert_eq!(found[0], Found { read: 0, offset: 4096, bytes: 4096 });
        assert_eq!(found[2], Found { read: 1, offset: 0, bytes: 4096 });
        let pages: Vec<_> = (0..64).map(|n| n * 4096..(n + 1) * 4096).collect();
        assert_eq!(join(&pages).0, [0..128 << 10, 128 << 10..256 << 10]);
    }

    proptest! {
        #[test]
        fn all_ranges_are_read_and_little_else(starts in proptest::collection::vec((0u64..400, 1u64..9), 1..60)) {
            let ranges: Vec<_> = starts.iter().map(|&(start, units)| start * 512..(start + units) * 512).collect();
            let (reads, found) = join(&ranges);
            for (range, found) in ranges.iter().zip(&found) {
                let read = &reads[found.read];
                prop_assert_eq!(read.start + found.offset as u64, range.start);
                prop_assert!(range.end <= read.end && read.end - read.start <= READ_BYTES_MAX);
            }
            let total = |ranges: &[Range<u64>]| ranges.iter().map(|range| range.end - range.start).sum::<u64>();
            prop_assert!(total(&reads) <= 2 * total(&ranges));
        }
    }
}
