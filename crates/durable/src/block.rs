//! A block: one transaction as it stands in a chunk, or a part of one that is larger than a chunk. It is written once and
//! never changed.
//!
//! ```text
//! 0 crc u32 | 4 crc of payloads u32 | 8 version << 2 | role u48 | 14 head, payload grains | index | payloads      (little-endian)
//!
//! head:                grains before the payloads, as LEB128, like their own
//! roles:               0 whole transaction, 1 part, 2 last part, 3 whole transaction that was not made durable at once
//! entry of the index:  gap << 2 | kind, grains       two LEB128 numbers; the gap counts grains from the end of the last entry
//! kinds:               0 bytes (they follow in the payloads, in order), 1 zeros (allocated), 2 hole (freed)
//!                      version << 2 | 3              a transaction in parts that has committed; behind the others
//! ```
//!
//! Parts count if the last part is found, which is written when the others are durable, or an entry that says so, which the cleaner
//! leaves in its place.
//!
//! The first checksum covers what is before the payloads, the other one these. Both are seeded by the chunk's generation. So a block whose
//! payloads are damaged still tells what it changed: nothing is lost if all of that was changed again. Index and payloads are padded to grains,
//! the block to 8 bytes. Neighbours in home space share one entry, however many writes they come from, but need not
//! ([`Tuning`](crate::Tuning)).
//!
//! A block without entries changes nothing. It is behind the last one of each chunk that was ended: what does not verify before it is damage, and not
//! a write that was under way.

mod encoded;

use aquifer_base::HomeAddress;
use aquifer_base::limits::{HOME_BITS, LOG_GRAIN_BYTES};

use crate::checksum::{Sums, crc32c};
use crate::chunk::VERSION_MAX;
pub(crate) use encoded::Encoded;

/// Bytes before the lengths.
const FIXED_BYTES: usize = 14;
/// Bytes of the two lengths, if both are short, or one is long.
const SHORT_BYTES: usize = 2;
const LONG_BYTES: usize = 8;
/// Largest short length.
const SHORT_MAX: u64 = 0x7F;
/// Bytes before the index, at most.
pub(crate) const HEADER_BYTES_MAX: usize = FIXED_BYTES + LONG_BYTES;
/// The same, at least.
pub(crate) const HEADER_BYTES_MIN: usize = FIXED_BYTES + SHORT_BYTES;
/// Bytes of a block without entries.
pub(crate) const EMPTY_BYTES: usize = HEADER_BYTES_MIN;
/// Blocks begin at multiples of this and have as many bytes.
pub const ALIGN_BYTES: usize = 8;
const GRAIN: u64 = LOG_GRAIN_BYTES as u64;
/// Two LEB128 numbers, below 2^42 and 2^32, or one below 2^48.
const ENTRY_BYTES_MAX: u64 = 11;
const HOME_GRAINS: u64 = (1 << HOME_BITS) / GRAIN;
/// Grains of an entry.
const GRAINS_MAX: u64 = u32::MAX as u64;

/// What an entry does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Bytes are written.
    Bytes,
    /// Zeros are allocated.
    Zeros,
    /// It is freed.
    Hole,
    /// The transaction whose version stands in the place of the home address has committed.
    Commit,
}

/// What a block is of its transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// All.
    Whole,
    /// A part, which counts if the last one is there.
    Part,
    /// The last part.
    Last,
}

/// Bits of the role.
const ROLE_BITS: u32 = 2;
const ROLE_MASK: u64 = (1 << ROLE_BITS) - 1;
/// The role of a whole transaction of a session whose commits do not wait.
const LATER: u64 = 3;

/// One run of home space that a block changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// First byte; of [`Kind::Commit`] a version.
    pub home: HomeAddress,
    /// How long; 0 of [`Kind::Commit`].
    pub grains: u32,
    /// What is done.
    pub kind: Kind,
    /// Where its bytes are in the block.
    pub payload: usize,
}

#[inline]
fn pull_number(bytes: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(number);
        }
        shift += 7;
        if shift == 63 {
            return None;
        }
    }
}

/// Bytes that a block of `pieces` has at most.
pub(crate) fn bytes_max(pieces: usize, grains: u64) -> u64 {
    HEADER_BYTES_MAX as u64 + pieces as u64 * ENTRY_BYTES_MAX + grains * GRAIN + 2 * ALIGN_BYTES as u64
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// A block that was read, and whose index was verified.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    bytes: &'a [u8],
    heading: Heading,
    is_intact: bool,
    /// How many of its entries change something, and how many are transactions that have committed.
    counts: (u32, u32),
    /// The first grain of home space that it changes, and the one behind all of them.
    homes: (u64, u64),
}

impl<'a> Block<'a> {
    /// The block at the beginning of `bytes`; `None` if there is none, or its index does not verify.
    pub fn decode(bytes: &'a [u8], seed: u32) -> Option<Self> {
        Self::decode_if(bytes, |start, end| crc32c(seed, &bytes[start..end]))
    }

    /// As [`Block::decode`], at a place of the bytes of which there are `sums`: as quick for whatever length is said there.
    pub(crate) fn decode_at(bytes: &'a [u8], at: usize, seed: u32, sums: &Sums<'_>) -> Option<Self> {
        Self::decode_if(&bytes[at..], |start, end| sums.crc32c(seed, at + start, at + end))
    }

    fn decode_if(bytes: &'a [u8], crc: impl Fn(usize, usize) -> u32) -> Option<Self> {
        let heading = Heading::of(bytes)?;
        let bytes = bytes.get(..heading.len_bytes())?;
        if word(bytes, 0) != crc(4, heading.payload) || heading.version() > VERSION_MAX {
            return None;
        }
        // A checksum can be right by chance, or by intent: what follows relies on this.
        let (mut entries, mut counts, mut first) = (heading.entries(bytes), (0, 0), u64::MAX);
        for entry in entries.by_ref() {
            match entry.kind {
                Kind::Commit => counts.1 += 1,
                _ => (counts.0, first) = (counts.0 + 1, first.min(entry.home.0 / GRAIN)),
            }
        }
        let is_intact = word(bytes, 4) == crc(heading.payload, bytes.len());
        let homes = (first, entries.behind);
        entries.is_whole().then_some(Self { bytes, heading, is_intact, counts, homes })
    }

    /// Its size.
    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether its payloads verify too.
    pub fn is_intact(&self) -> bool {
        self.is_intact
    }

    /// The transaction's version.
    pub fn version(&self) -> u64 {
        self.heading.version()
    }

    /// What it is of its transaction.
    pub fn role(&self) -> Role {
        self.heading.role()
    }

    /// Whether it was acknowledged before it was durable, as it is if it is not behind the floor.
    pub(crate) fn is_later(&self) -> bool {
        self.heading.marked & ROLE_MASK == LATER
    }

    /// The first grain of home space that it changes, and the one behind all of them.
    pub(crate) fn homes(&self) -> (u64, u64) {
        self.homes
    }

    /// How many of its entries change something, and how many are transactions that have committed.
    pub(crate) fn counts(&self) -> (u32, u32) {
        self.counts
    }

    /// What it changes, in the order of home addresses, then transactions that have committed.
    pub fn entries(&self) -> Entries<'a> {
        self.heading.entries(self.bytes)
    }
}

/// What stands before the index of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heading {
    /// The version, and the role below it.
    marked: u64,
    /// Where the index begins, the payloads, and where these end.
    index: usize,
    payload: usize,
    end: usize,
}

impl Heading {
    /// That at the beginning of `bytes`, which are [`HEADER_BYTES_MAX`] or as many as there are; `None` if it is of no block.
    #[inline]
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        let (fixed, mut rest) = bytes.split_at_checked(FIXED_BYTES)?;
        let mut marked = [0; 8];
        marked[..6].copy_from_slice(&fixed[8..]);
        let before = rest.len();
        let (head, grains) = (pull_number(&mut rest)?, pull_number(&mut rest)?);
        if head.max(grains) > GRAINS_MAX {
            return None;
        }
        let (index, payload) = (FIXED_BYTES + before - rest.len(), (head * GRAIN) as usize);
        let heading = Self {
            marked: u64::from_le_bytes(marked),
            index,
            payload,
            end: payload + (grains * GRAIN) as usize,
        };
        (index <= payload).then_some(heading)
    }

    /// The size of its block.
    #[inline]
    pub(crate) fn len_bytes(&self) -> usize {
        self.end.next_multiple_of(ALIGN_BYTES)
    }

    /// Bytes before the payloads.
    #[inline]
    pub(crate) fn payload_start(&self) -> usize {
        self.payload
    }

    /// As [`Block::version`].
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.marked >> ROLE_BITS
    }

    /// As [`Block::role`].
    #[inline]
    pub(crate) fn role(&self) -> Role {
        match self.marked & ROLE_MASK {
            1 => Role::Part,
            2 => Role::Last,
            _ => Role::Whole,
        }
    }

    /// As [`Block::entries`], of a block with this beginning, which has all before the payloads at least.
    #[inline]
    pub(crate) fn entries<'a>(&self, block: &'a [u8]) -> Entries<'a> {
        let index = &block[self.index..self.payload];
        Entries { index, behind: 0, payload: self.payload, end: self.end }
    }
}

/// Iterator over the entries of a block.
pub struct Entries<'a> {
    index: &'a [u8],
    behind: u64,
    payload: usize,
    end: usize,
}

impl Entries<'_> {
    /// Whether there are no more. An entry does not begin with so few zeros: it has grains.
    #[inline]
    fn has_ended(&self) -> bool {
        self.index.len() < LOG_GRAIN_BYTES && self.index.iter().all(|&byte| byte == 0)
    }

    /// Whether all entries were there, and no other payloads than theirs.
    fn is_whole(&self) -> bool {
        self.has_ended() && self.end == self.payload
    }

    fn pull(&mut self) -> Option<Entry> {
        let first = pull_number(&mut self.index)?;
        if first & 3 == Kind::Commit as u64 {
            let home = HomeAddress(first >> 2);
            return Some(Entry { home, grains: 0, kind: Kind::Commit, payload: self.payload });
        }
        let grains = pull_number(&mut self.index)?;
        let kind = match first & 3 {
            0 => Kind::Bytes,
            1 => Kind::Zeros,
            _ => Kind::Hole,
        };
        let start = self.behind.checked_add(first >> 2)?;
        let end = start.checked_add(grains).filter(|&end| end <= HOME_GRAINS && grains > 0)?;
        let payload = self.payload;
        if kind == Kind::Bytes {
            let behind = payload as u64 + grains * GRAIN;
            self.payload = usize::try_from(behind).ok().filter(|&behind| behind <= self.end)?;
        }
        self.behind = end;
        Some(Entry { home: HomeAddress(start * GRAIN), grains: u32::try_from(grains).ok()?, kind, payload })
    }
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    #[inline]
    fn next(&mut self) -> Option<Entry> {
        if self.has_ended() {
            return None;
        }
        let entry = self.pull();
        if entry.is_none() {
            // What makes no sense is not whole.
            (self.index, self.end) = (&[], usize::MAX);
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::encoded::seal;
    use super::*;
    use crate::write_set::WriteSet;
    use proptest::prelude::*;

    fn example() -> Vec<u8> {
        let mut writes = WriteSet::default();
        assert!(writes.write(HomeAddress(40_000), &[1, 2, 3, 4, 5, 6, 7, 8]));
        assert!(writes.write(HomeAddress(40_008), &[9; 4]));
        writes.allocate(HomeAddress(1 << 30), 25);
        writes.free(HomeAddress(4096), 3);
        let mut block = Encoded::default();
        block.encode(&writes, writes.pieces(), &[1 << 40, 3], Role::Last);
        block.seal(77, 5);
        block.to_vec()
    }

    #[test]
    fn is_read_as_written() {
        let bytes = example();
        let block = Block::decode(&bytes, 5).expect("whole");
        assert_eq!((block.version(), block.len_bytes(), block.role()), (77, bytes.len(), Role::Last));
        let entries: Vec<_> = block.entries().map(|e| (e.home.0, e.grains, e.kind)).collect();
        let expected = [
            (4096, 3, Kind::Hole),
            (40_000, 3, Kind::Bytes),
            (1 << 30, 25, Kind::Zeros),
            (1 << 40, 0, Kind::Commit),
            (3, 0, Kind::Commit),
        ];
        assert_eq!(entries, expected);
        let payload = block.entries().nth(1).expect("three").payload;
        assert_eq!(bytes[payload..payload + 12], [1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9]);
    }

    /// 17 GiB of zeros in a row, which take no room.
    #[test]
    fn an_entry_is_no_longer_than_it_can_say() {
        let (mut writes, area) = (WriteSet::default(), 1 << 22);
        (0..17 << 6).for_each(|n| writes.allocate(HomeAddress(n * area * GRAIN), area as u32));
        writes.merge();
        let mut block = Encoded::default();
        block.encode(&writes, writes.pieces(), &[], Role::Whole);
        block.seal(1, 5);
        let entries: Vec<_> = Block::decode(&block, 5).expect("whole").entries().collect();
        assert_eq!(entries.iter().map(|entry| u64::from(entry.grains)).sum::<u64>(), (17 << 6) * area);
        assert_eq!(entries.len(), 2);
    }

    #[test]
    fn flipped_bits_and_missing_bytes_are_seen() {
        let bytes = example();
        let whole = Block::decode(&bytes, 5).expect("whole");
        let (entries, payload) = (whole.entries().collect::<Vec<_>>(), whole.heading.payload_start());
        assert!(whole.is_intact() && Block::decode(&bytes, 6).is_none(), "another life of the chunk");
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let found = Block::decode(&flipped, 5);
            if bit / 8 < payload {
                assert!(found.is_none(), "bit {bit}");
            } else {
                // What it changed is still known.
                let found = found.unwrap_or_else(|| panic!("bit {bit}"));
                assert!(!found.is_intact() && found.entries().eq(entries.iter().copied()), "bit {bit}");
            }
        }
        for len in 0..bytes.len() {
            assert!(Block::decode(&bytes[..len], 5).is_none(), "{len} bytes");
        }
    }

    /// Lengths of one byte and of four.
    #[test]
    fn small_and_large_blocks_are_read_as_written() {
        for pieces in [1, 2, 40, 45, 46, 50, 3000] {
            let mut writes = WriteSet::default();
            (0..pieces).for_each(|n| assert!(writes.write(HomeAddress(n << 20), &[n as u8; 12])));
            let mut block = Encoded::default();
            block.encode(&writes, writes.pieces(), &[], Role::Part);
            block.seal(VERSION_MAX, 5);
            let found = Block::decode(&block, 5).expect("whole");
            assert_eq!((found.len_bytes(), found.is_intact()), (block.len(), true));
            assert_eq!((found.version(), found.role()), (VERSION_MAX, Role::Part));
            assert_eq!((found.counts(), found.homes()), ((pieces as u32, 0), (0, ((pieces - 1) << 18) + 3)));
            for (n, entry) in found.entries().enumerate() {
                assert_eq!(block[entry.payload..entry.payload + 12], [n as u8; 12]);
            }
        }
        // Two words, far from each other.
        let mut writes = WriteSet::default();
        assert!(writes.write(HomeAddress(1 << 37), &[1; 8]) && writes.write(HomeAddress(1 << 38), &[1; 8]));
        let mut block = Encoded::default();
        block.encode(&writes, writes.pieces(), &[], Role::Whole);
        assert_eq!(block.len(), 48);
    }

    proptest! {
        /// Whatever the bytes, with checksums that are right: entries lie in home space, payloads in the block.
        #[test]
        fn any_bytes_are_read_safely(mut bytes in prop::collection::vec(any::<u8>(), 24..200), head in 4u8..60, grains in 0u8..40) {
            (bytes[FIXED_BYTES], bytes[FIXED_BYTES + 1]) = (head, grains);
            let payload = usize::from(head) * 4;
            if let Some(heading) = Heading::of(&bytes).filter(|heading| heading.len_bytes() <= bytes.len()) {
                bytes.truncate(heading.len_bytes());
                seal(&mut bytes, payload, 3, 1);
            }
            if let Some(block) = Block::decode(&bytes, 1) {
                prop_assert!(block.is_intact());
                for entry in block.entries().filter(|entry| entry.kind != Kind::Commit) {
                    prop_assert!(entry.home.0 + u64::from(entry.grains) * 4 <= 1 << HOME_BITS);
                    let payload = if entry.kind == Kind::Bytes { entry.grains as usize * 4 } else { 0 };
                    prop_assert!(entry.payload + payload <= bytes.len());
                }
            }
        }
    }
}
