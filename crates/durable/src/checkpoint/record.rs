//! What a checkpoint consists of.
//!
//! ```text
//! clock      1 u32 | version u64
//! chunk      2 u32 | number u32 | generation u32 | end u32
//! partition  3 u32 | number u32 | version u48, extents u16 | word u32 x extents | start u16 x extents | zeros to a multiple of 4
//!            4 u32 | the same | bits 32 to 39 of the word u8 x extents, before the zeros
//! ```
//!
//! Extents are those of the map (see `aquifer_map::partitions`): in order, each from its start, a grain of the partition, to the next
//! one's; the word is 0 for a hole, 1 for zeros, else the grain of the file where its bytes are.

use std::ops::Range;

use aquifer_base::limits::{HOME_BITS, PARTITION_BYTES};
use aquifer_map::partitions::{GRAINS, Source};

use super::DamagedPart;
use crate::chunk::VERSION_MAX;

const CLOCK: u32 = 1;
const CHUNK: u32 = 2;
const PARTITION: u32 = 3;
/// One of which bytes are behind the first 16 GiB of the file.
const FAR_PARTITION: u32 = 4;
/// Partitions of home space.
const PARTITIONS: u32 = ((1u64 << HOME_BITS) / PARTITION_BYTES as u64) as u32;
/// Bits of a version.
const VERSION_BITS: u32 = 48;

/// One of its records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record<'a> {
    /// No transaction in the chunks that follow is newer. The first record.
    Clock(u64),
    /// A chunk whose blocks are in the checkpoint.
    Chunk {
        /// Which one.
        number: u32,
        /// Its life then.
        generation: u32,
        /// How far it is filled.
        end: u32,
    },
    /// A partition that something was ever written to.
    Partition {
        /// Which one.
        number: u32,
        /// The newest transaction that wrote to it.
        version: u64,
        /// Its extents.
        extents: Extents<'a>,
    },
}

/// The extents of a partition's record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extents<'a> {
    words: &'a [[u8; 4]],
    starts: &'a [[u8; 2]],
    /// Bits 32 to 39 of each word; none if they are all 0.
    highs: &'a [u8],
}

impl Extents<'_> {
    /// Each with its start.
    pub fn iter(&self) -> impl Iterator<Item = (u16, Source)> + '_ {
        let highs = self.highs.iter().copied().chain(std::iter::repeat(0));
        let words = self.words.iter().map(|&word| u64::from(u32::from_le_bytes(word)));
        let words = words.zip(highs).map(|(word, high)| Source::from_word(word | u64::from(high) << 32));
        self.starts.iter().map(|&start| u16::from_le_bytes(start)).zip(words)
    }

    /// Whether they are in order, within the partition and `grains` of the file.
    fn are_right(&self, grains: &Range<u64>) -> bool {
        let starts = || self.starts.iter().map(|&start| u16::from_le_bytes(start));
        let is_inside = |(start, end, source): (u16, u16, Source)| match source {
            Source::Log(grain) => {
                grain >= grains.start && grains.end.checked_sub(grain) >= Some(u64::from(end - start))
            }
            Source::Hole | Source::Zeros => true,
        };
        let ends = starts().skip(1).chain([GRAINS as u16]);
        starts().zip(ends.clone()).all(|(start, end)| start < end)
            && self.iter().zip(ends).map(|((start, source), end)| (start, end, source)).all(is_inside)
    }
}

fn push_words<const N: usize>(bytes: &mut Vec<u8>, words: [u32; N]) {
    words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
}

/// Adds a [`Record::Clock`].
pub(super) fn push_clock(bytes: &mut Vec<u8>, version: u64) {
    push_words(bytes, [CLOCK, version as u32, (version >> 32) as u32]);
}

/// Adds a [`Record::Chunk`].
pub(super) fn push_chunk(bytes: &mut Vec<u8>, number: u32, generation: u32, end: u32) {
    push_words(bytes, [CHUNK, number, generation, end]);
}

/// Adds a [`Record::Partition`].
pub(super) fn push_partition(bytes: &mut Vec<u8>, number: u32, version: u64, extents: &[(u16, Source)]) {
    debug_assert!(version <= VERSION_MAX && extents.len() <= GRAINS);
    let counted = version | (extents.len() as u64) << VERSION_BITS;
    let high = |source: Source| (source.word() >> 32) as u8;
    let is_far = extents.iter().any(|&(_, source)| high(source) > 0);
    let kind = if is_far { FAR_PARTITION } else { PARTITION };
    push_words(bytes, [kind, number, counted as u32, (counted >> 32) as u32]);
    extents.iter().for_each(|(_, source)| push_words(bytes, [source.word() as u32]));
    extents.iter().for_each(|(start, _)| bytes.extend_from_slice(&start.to_le_bytes()));
    if is_far {
        bytes.extend(extents.iter().map(|&(_, source)| high(source)));
    }
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// The records of a part of a checkpoint, which may be any bytes. It ends with an error where they make no sense.
#[derive(Clone)]
pub struct Records<'a> {
    bytes: &'a [u8],
    grains: Range<u64>,
}

impl<'a> Records<'a> {
    /// Those in `bytes`, of a file that has chunks from the first of these `grains` of 4 bytes to the last.
    pub fn new(bytes: &'a [u8], grains: Range<u64>) -> Self {
        Self { bytes, grains }
    }

    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(u32::from_le_bytes(*word))
    }

    fn long(&mut self) -> Option<u64> {
        Some(u64::from(self.word()?) | u64::from(self.word()?) << 32)
    }

    fn arrays<const N: usize>(&mut self, count: usize) -> Option<&'a [[u8; N]]> {
        let (arrays, rest) = self.bytes.split_at_checked(count * N)?;
        self.bytes = rest;
        Some(arrays.as_chunks().0)
    }

    fn record(&mut self) -> Option<Record<'a>> {
        match self.word()? {
            CLOCK => self.long().filter(|&version| version <= VERSION_MAX).map(Record::Clock),
            CHUNK => {
                Some(Record::Chunk { number: self.word()?, generation: self.word()?, end: self.word()? })
            }
            PARTITION => self.partition(false),
            FAR_PARTITION => self.partition(true),
            _ => None,
        }
    }

    fn partition(&mut self, is_far: bool) -> Option<Record<'a>> {
        let number = self.word()?;
        let counted = self.long()?;
        let (version, count) = (counted & ((1 << VERSION_BITS) - 1), (counted >> VERSION_BITS) as usize);
        let (words, starts) = (self.arrays(count)?, self.arrays(count)?);
        let highs = self.arrays::<1>(if is_far { count } else { 0 })?.as_flattened();
        let extents = Extents { words, starts, highs };
        // To a multiple of 4.
        self.arrays::<1>((2 * count + highs.len()).wrapping_neg() % 4)?;
        // Version 0: nothing was ever written to the partition, which has no record then.
        let is_right =
            (1..=VERSION_MAX).contains(&version) && extents.are_right(&self.grains) && number < PARTITIONS;
        is_right.then_some(Record::Partition { number, version, extents })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, DamagedPart>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let record = self.record();
        if record.is_none() {
            self.bytes = &[];
        }
        Some(record.ok_or(DamagedPart))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_read_as_written() {
        let extents = [(0, Source::Log(900)), (7, Source::Zeros), (1023, Source::Hole)];
        let far = [(0, Source::Log(1 << 39)), (7, Source::Zeros), (8, Source::Log(900))];
        let mut bytes = Vec::new();
        push_clock(&mut bytes, 1 << 45);
        push_chunk(&mut bytes, 5, u32::MAX, 4096);
        push_partition(&mut bytes, 77, (1 << 46) - 1, &extents);
        push_partition(&mut bytes, 78, 4, &extents[..2]);
        push_partition(&mut bytes, 79, 5, &[]);
        let near = bytes.len();
        push_partition(&mut bytes, 80, 6, &far);
        push_partition(&mut bytes, 81, 7, &far[..1]);
        let found: Vec<_> =
            Records::new(&bytes[..near], 900..907).map(|record| record.expect("right")).collect();
        assert_eq!(found.len(), 5);
        assert_eq!(found[0], Record::Clock(1 << 45));
        assert_eq!(found[1], Record::Chunk { number: 5, generation: u32::MAX, end: 4096 });
        for (record, (expected, count)) in found[2..].iter().zip([(77, 3), (78, 2), (79, 0)]) {
            let Record::Partition { number, extents: found, .. } = record else { panic!("{record:?}") };
            assert_eq!(*number, expected);
            assert!(found.iter().eq(extents[..count].iter().copied()));
        }
        let found: Vec<_> =
            Records::new(&bytes[near..], 900..1 << 40).map(|record| record.expect("right")).collect();
        for (record, count) in found.iter().zip([3, 1]) {
            let Record::Partition { extents, .. } = record else { panic!("{record:?}") };
            assert!(extents.iter().eq(far[..count].iter().copied()));
        }
        assert_eq!(found.len(), 2);
        // The seven grains from 900 on are not all in a shorter file, nor in one whose chunks begin later.
        assert!(Records::new(&bytes, 900..906).nth(2).expect("one more").is_err());
        assert!(Records::new(&bytes, 901..999).nth(2).expect("one more").is_err());
    }

    /// Two of them for one partition would give the map extents twice.
    #[test]
    fn a_partition_that_was_never_written_is_refused() {
        let mut bytes = Vec::new();
        for _ in 0..2 {
            bytes.extend([PARTITION, 5, 0, 1 << 16, 1, 0].iter().flat_map(|word: &u32| word.to_le_bytes()));
        }
        assert!(Records::new(&bytes, 0..1).next().expect("one").is_err());
    }

    #[test]
    fn what_is_out_of_order_is_refused() {
        for starts in [[3, 3], [4, 3], [3, 1024]] {
            let mut bytes = Vec::new();
            push_partition(&mut bytes, 1, 1, &starts.map(|start| (start, Source::Zeros)));
            let mut records = Records::new(&bytes, 0..u64::MAX);
            assert!(records.next().expect("one").is_err() && records.next().is_none());
        }
    }
}
