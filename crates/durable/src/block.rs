//! A block: one transaction as it stands in a chunk, or a part of one that is larger than a chunk. It is written once and
//! never changed.
//!
//! ```text
//! 0 crc u32 | 4 bytes u32 | 8 version u64 | 16 role << 30 | entries u32 | 20 index_bytes u32 | 24 index | payloads    (little-endian)
//!
//! roles:               0 whole transaction, 1 part, 2 last part
//! entry of the index:  gap << 2 | kind, grains       two LEB128 numbers; the gap counts grains from the end of the last entry
//! kinds:               0 bytes (they follow in the payloads, in order), 1 zeros (allocated), 2 hole (freed)
//!                      version << 2 | 3              a transaction in parts that has committed; behind the others
//! ```
//!
//! Parts count if the last part is found, which is written when the others are durable, or an entry that says so, which the cleaner
//! leaves in its place.
//!
//! The checksum covers all that follows it and is seeded by the chunk's generation. Index and payloads are padded to grains, the
//! block to 8 bytes. Neighbours in home space share one entry, however many writes they come from, but
//! need not ([`Tuning`](crate::Tuning)).

use std::ops::Deref;

use aquifer_base::HomeAddress;
use aquifer_base::limits::{HOME_BITS, LOG_GRAIN_BYTES};

use crate::checksum::{Sums, crc32c};
use crate::chunk::VERSION_MAX;
use crate::write_set::{Content, Piece, WriteSet};

/// Bytes before the index.
pub const HEADER_BYTES: usize = 24;
/// Blocks begin at multiples of this and have as many bytes.
pub const ALIGN_BYTES: usize = 8;
const GRAIN: u64 = LOG_GRAIN_BYTES as u64;
/// Two LEB128 numbers below 2^38.
const ENTRY_BYTES_MAX: u64 = 12;
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

const ROLE_SHIFT: u32 = 30;

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

/// Writes a number at `at`; returns where the next one goes.
#[inline]
fn put_number(out: &mut [u8], mut at: usize, mut number: u64) -> usize {
    while number >= 0x80 {
        out[at] = number as u8 | 0x80;
        number >>= 7;
        at += 1;
    }
    out[at] = number as u8;
    at + 1
}

fn pull_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Bytes that a block of `pieces` has at most.
pub(crate) fn bytes_max(pieces: usize, grains: u64) -> u64 {
    HEADER_BYTES as u64 + pieces as u64 * ENTRY_BYTES_MAX + grains * GRAIN + 2 * ALIGN_BYTES as u64
}

/// A block that is being made, in memory that is used again.
#[derive(Default)]
pub(crate) struct Encoded {
    memory: Vec<u8>,
    len: usize,
}

impl Deref for Encoded {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.memory[..self.len]
    }
}

impl Encoded {
    /// Makes a block of `pieces` of a write set and of `commits`; [`Encoded::seal`] finishes it.
    pub(crate) fn encode(&mut self, writes: &WriteSet, pieces: &[Piece], commits: &[u64], role: Role) {
        let most = bytes_max(pieces.len() + commits.len(), writes.grains_max()) as usize;
        if self.memory.len() < most {
            self.memory.resize(most, 0);
        }
        let (mut at, mut entries) = self.put_entries(pieces, writes.keeps_apart());
        entries += commits.len() as u32;
        for version in commits {
            at = put_number(&mut self.memory, at, version << 2 | Kind::Commit as u64);
        }
        let payload = self.pad(at, LOG_GRAIN_BYTES);
        at = payload;
        for piece in pieces {
            let bytes = writes.bytes(piece);
            self.memory[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        }
        self.len = self.pad(at, ALIGN_BYTES);
        let (header, len) = (&mut self.memory[..HEADER_BYTES], self.len as u32);
        header[4..8].copy_from_slice(&len.to_le_bytes());
        header[16..20].copy_from_slice(&(entries | (role as u32) << ROLE_SHIFT).to_le_bytes());
        header[20..24].copy_from_slice(&((payload - HEADER_BYTES) as u32).to_le_bytes());
    }

    /// Writes the index; returns its end and how many entries it has. Neighbours of one kind share one if they are not kept apart.
    fn put_entries(&mut self, pieces: &[Piece], keeps_apart: bool) -> (usize, u32) {
        let (mut at, mut entries, mut behind, mut next) = (HEADER_BYTES, 0, 0, 0);
        while let Some(piece) = pieces.get(next) {
            let (kind, mut end) = (kind_of(piece.content), piece.end());
            next += 1;
            while let Some(more) = pieces.get(next)
                && more.start == end
                && kind_of(more.content) == kind
                && more.end() - piece.start <= GRAINS_MAX
                && !keeps_apart
            {
                end = more.end();
                next += 1;
            }
            at = put_number(&mut self.memory, at, (piece.start - behind) << 2 | kind as u64);
            at = put_number(&mut self.memory, at, end - piece.start);
            (behind, entries) = (end, entries + 1);
        }
        (at, entries)
    }

    /// Where the bytes of its entries begin, in order.
    pub(crate) fn payloads(&self) -> impl Iterator<Item = usize> {
        let entries = Block { bytes: self, commits: 0, homes: (0, 0) }.entries();
        entries.filter(|entry| entry.kind == Kind::Bytes).map(|entry| entry.payload)
    }

    /// Adds zeros up to a multiple of `align`; returns where they end.
    #[inline]
    fn pad(&mut self, at: usize, align: usize) -> usize {
        let end = at.next_multiple_of(align);
        (at..end).for_each(|at| self.memory[at] = 0);
        end
    }

    /// Adds the version, and the checksum for a place whose checksums begin with `seed`.
    #[inline]
    pub(crate) fn seal(&mut self, version: u64, seed: u32) {
        let len = self.len;
        seal(&mut self.memory[..len], version, seed);
    }
}

#[inline]
fn seal(block: &mut [u8], version: u64, seed: u32) {
    block[8..16].copy_from_slice(&version.to_le_bytes());
    let crc = crc32c(seed, &block[4..]);
    block[..4].copy_from_slice(&crc.to_le_bytes());
}

/// Where the payloads of an encoded block begin.
pub(crate) fn payload_start(block: &[u8]) -> usize {
    HEADER_BYTES + word(block, 20) as usize
}

fn kind_of(content: Content) -> Kind {
    match content {
        Content::Bytes(_) => Kind::Bytes,
        Content::Zeros => Kind::Zeros,
        Content::Hole => Kind::Hole,
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// A block that was read and verified.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    bytes: &'a [u8],
    /// How many of its entries are transactions that have committed.
    commits: u32,
    /// The first grain of home space that it changes, and the one behind all of them.
    homes: (u64, u64),
}

impl<'a> Block<'a> {
    /// The block at the beginning of `bytes`; `None` if there is none, or not a whole one.
    pub fn decode(bytes: &'a [u8], seed: u32) -> Option<Self> {
        Self::decode_if(bytes, |block| crc32c(seed, &block[4..]))
    }

    /// As [`Block::decode`], at a place of the bytes of which there are `sums`: as quick for whatever length is said there.
    pub(crate) fn decode_at(bytes: &'a [u8], at: usize, seed: u32, sums: &Sums<'_>) -> Option<Self> {
        Self::decode_if(&bytes[at..], |block| sums.crc32c(seed, at + 4, at + block.len()))
    }

    fn decode_if(bytes: &'a [u8], crc: impl FnOnce(&[u8]) -> u32) -> Option<Self> {
        if bytes.len() < HEADER_BYTES {
            return None;
        }
        let len = word(bytes, 4) as usize;
        if len < HEADER_BYTES || len > bytes.len() || !len.is_multiple_of(ALIGN_BYTES) {
            return None;
        }
        let bytes = &bytes[..len];
        if word(bytes, 0) != crc(bytes) || HEADER_BYTES + word(bytes, 20) as usize > len {
            return None;
        }
        let block = Self { bytes, commits: 0, homes: (0, 0) };
        if word(bytes, 16) >> ROLE_SHIFT > Role::Last as u32 || block.version() > VERSION_MAX {
            return None;
        }
        // A checksum can be right by chance, or by intent: what follows relies on this.
        let (mut entries, mut commits, mut first) = (block.entries(), 0, u64::MAX);
        entries.by_ref().for_each(|entry| match entry.kind {
            Kind::Commit => commits += 1,
            _ => first = first.min(entry.home.0 / GRAIN),
        });
        entries.is_whole().then_some(Self { bytes, commits, homes: (first, entries.behind) })
    }

    /// Its size.
    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The transaction's version.
    pub fn version(&self) -> u64 {
        version(self.bytes)
    }

    /// What it is of its transaction.
    pub fn role(&self) -> Role {
        role(self.bytes)
    }

    /// The first grain of home space that it changes, and the one behind all of them.
    pub(crate) fn homes(&self) -> (u64, u64) {
        self.homes
    }

    /// How many of its entries change something, and how many are transactions that have committed.
    pub(crate) fn counts(&self) -> (u32, u32) {
        (entry_count(self.bytes) - self.commits, self.commits)
    }

    /// What it changes, in the order of home addresses, then transactions that have committed.
    pub fn entries(&self) -> Entries<'a> {
        let payload = payload_start(self.bytes);
        Entries {
            index: &self.bytes[HEADER_BYTES..payload],
            left: entry_count(self.bytes),
            behind: 0,
            payload,
            end: self.bytes.len(),
        }
    }
}

/// What stands before the index of a block that was verified.
#[derive(Clone, Copy)]
pub(crate) struct Heading([u8; HEADER_BYTES]);

impl Heading {
    /// That at the beginning of `bytes`; `None` if it is of no block.
    #[inline]
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        let heading = Self(*bytes.first_chunk()?);
        let is_right = heading.len_bytes() >= HEADER_BYTES
            && heading.len_bytes().is_multiple_of(ALIGN_BYTES)
            && heading.len_bytes() - HEADER_BYTES >= heading.index_bytes();
        is_right.then_some(heading)
    }

    /// The size of its block.
    #[inline]
    pub(crate) fn len_bytes(&self) -> usize {
        word(&self.0, 4) as usize
    }

    /// The size of its index.
    #[inline]
    pub(crate) fn index_bytes(&self) -> usize {
        word(&self.0, 20) as usize
    }

    /// As [`Block::version`].
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        version(&self.0)
    }

    /// As [`Block::role`].
    #[inline]
    pub(crate) fn role(&self) -> Role {
        role(&self.0)
    }

    /// As [`Block::entries`].
    #[inline]
    pub(crate) fn entries<'a>(&self, index: &'a [u8]) -> Entries<'a> {
        let payload = HEADER_BYTES + self.index_bytes();
        Entries { index, left: entry_count(&self.0), behind: 0, payload, end: self.len_bytes() }
    }
}

fn version(header: &[u8]) -> u64 {
    u64::from(word(header, 8)) | u64::from(word(header, 12)) << 32
}

fn role(header: &[u8]) -> Role {
    match word(header, 16) >> ROLE_SHIFT {
        0 => Role::Whole,
        1 => Role::Part,
        _ => Role::Last,
    }
}

fn entry_count(header: &[u8]) -> u32 {
    word(header, 16) & ((1 << ROLE_SHIFT) - 1)
}

/// Iterator over the entries of a block.
pub struct Entries<'a> {
    index: &'a [u8],
    left: u32,
    behind: u64,
    payload: usize,
    end: usize,
}

impl Entries<'_> {
    /// Whether all entries were there, and their payloads.
    fn is_whole(&self) -> bool {
        self.left == 0 && self.index.len() < LOG_GRAIN_BYTES && self.end - self.payload < ALIGN_BYTES
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

    fn next(&mut self) -> Option<Entry> {
        let left = self.left.checked_sub(1)?;
        let entry = self.pull()?;
        self.left = left;
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        assert!(Block::decode(&bytes, 6).is_none(), "another life of the chunk");
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Block::decode(&flipped, 5).is_none(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(Block::decode(&bytes[..len], 5).is_none(), "{len} bytes");
        }
    }

    proptest! {
        /// Whatever the bytes, with a checksum that is right: entries lie in home space, payloads in the block.
        #[test]
        fn any_bytes_are_read_safely(mut bytes in prop::collection::vec(any::<u8>(), 24..200), entries in 0u32..9, index in 0u32..60) {
            bytes.truncate(bytes.len() / 8 * 8);
            let len = bytes.len() as u32;
            bytes[4..8].copy_from_slice(&len.to_le_bytes());
            bytes[16..20].copy_from_slice(&entries.to_le_bytes());
            bytes[20..24].copy_from_slice(&index.to_le_bytes());
            seal(&mut bytes, 3, 1);
            if let Some(block) = Block::decode(&bytes, 1) {
                for entry in block.entries().filter(|entry| entry.kind != Kind::Commit) {
                    prop_assert!(entry.home.0 + u64::from(entry.grains) * 4 <= 1 << HOME_BITS);
                    let payload = if entry.kind == Kind::Bytes { entry.grains as usize * 4 } else { 0 };
                    prop_assert!(entry.payload + payload <= bytes.len());
                }
            }
        }
    }
}
