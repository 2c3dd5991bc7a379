//! Blocks on their way to a chunk.

use std::ops::Deref;

use aquifer_base::limits::LOG_GRAIN_BYTES;

use super::{
    ALIGN_BYTES, EMPTY_BYTES, ENTRY_BYTES_MAX, FIXED_BYTES, GRAIN, GRAINS_MAX, HEADER_BYTES_MIN, Heading,
    Kind, LATER, LONG_BYTES, ROLE_BITS, ROLE_MASK, Role, SHORT_BYTES, SHORT_MAX, bytes_max,
};
use crate::checksum::crc32c;
use crate::write_set::{Content, Piece, WriteSet};

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

/// Writes one of the two lengths, in `bytes`.
fn put_length(out: &mut [u8], length: u64) {
    let last = out.len() - 1;
    for (n, byte) in out.iter_mut().enumerate() {
        *byte = (length >> (7 * n)) as u8 & 0x7F | if n < last { 0x80 } else { 0 };
    }
}

/// A block that is being made, in memory that is used again.
#[derive(Default)]
pub(crate) struct Encoded {
    memory: Vec<u8>,
    /// Where the payloads begin.
    payload: usize,
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
    /// A block without entries.
    pub(crate) fn empty() -> Self {
        let mut block = Self::default();
        block.encode(&WriteSet::default(), &[], &[], Role::Whole);
        debug_assert_eq!(block.len(), EMPTY_BYTES);
        block
    }

    /// Gives back its memory, with the block in it.
    #[cold]
    pub(crate) fn shrink(&mut self) {
        *self = Self::default();
    }

    /// RAM that it has.
    #[inline]
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.memory.capacity()
    }

    /// Makes a block of `pieces` of a write set and of `commits`; [`Encoded::seal`] finishes it.
    pub(crate) fn encode(&mut self, writes: &WriteSet, pieces: &[Piece], commits: &[u64], role: Role) {
        let (entries, grains) = (pieces.len() + commits.len(), writes.grains_max());
        let most = bytes_max(entries, grains) as usize;
        if self.memory.len() < most {
            self.memory.resize(most, 0);
        }
        let head_max = (HEADER_BYTES_MIN as u64 + entries as u64 * ENTRY_BYTES_MAX).div_ceil(GRAIN);
        let length_bytes = if head_max.max(grains) <= SHORT_MAX { SHORT_BYTES } else { LONG_BYTES } / 2;
        let index = FIXED_BYTES + 2 * length_bytes;
        let mut at = self.put_entries(index, pieces, writes.keeps_apart());
        for version in commits {
            at = put_number(&mut self.memory, at, version << 2 | Kind::Commit as u64);
        }
        self.payload = self.pad(at, LOG_GRAIN_BYTES);
        at = self.payload;
        for piece in pieces {
            let bytes = writes.bytes(piece);
            self.memory[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        }
        self.len = self.pad(at, ALIGN_BYTES);
        let lengths = [self.payload as u64 / GRAIN, (at - self.payload) as u64 / GRAIN];
        let places = &mut self.memory[FIXED_BYTES..index];
        match places {
            [first, second] => [*first, *second] = lengths.map(|length| length as u8),
            _ => places
                .chunks_exact_mut(length_bytes)
                .zip(lengths)
                .for_each(|(place, length)| put_length(place, length)),
        }
        self.memory[8] = role as u8;
    }

    /// Writes the index, which begins at `at`; returns its end. Neighbours of one kind share an entry if they are not kept apart.
    fn put_entries(&mut self, mut at: usize, pieces: &[Piece], keeps_apart: bool) -> usize {
        let (mut behind, mut next) = (0, 0);
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
            behind = end;
        }
        at
    }

    /// Where the payloads begin.
    #[inline]
    pub(crate) fn payload_start(&self) -> usize {
        self.payload
    }

    /// Where the bytes of its entries begin, in order.
    pub(crate) fn payloads(&self) -> impl Iterator<Item = usize> {
        let heading = Heading::of(self).expect("it is one");
        let entries = heading.entries(&self[..self.payload]);
        entries.filter(|entry| entry.kind == Kind::Bytes).map(|entry| entry.payload)
    }

    /// Adds zeros up to a multiple of `align`; returns where they end.
    #[inline]
    fn pad(&mut self, at: usize, align: usize) -> usize {
        let end = at.next_multiple_of(align);
        (at..end).for_each(|at| self.memory[at] = 0);
        end
    }

    /// Its transaction is acknowledged before it is durable.
    #[inline]
    pub(crate) fn set_later(&mut self) {
        if self.memory[8] & ROLE_MASK as u8 == Role::Whole as u8 {
            self.memory[8] = LATER as u8;
        }
    }

    /// Adds the version, and the checksums for a place whose checksums begin with `seed`.
    #[inline]
    pub(crate) fn seal(&mut self, version: u64, seed: u32) {
        let (payload, len) = (self.payload, self.len);
        seal(&mut self.memory[..len], payload, version, seed);
    }
}

#[inline]
pub(super) fn seal(block: &mut [u8], payload: usize, version: u64, seed: u32) {
    let marked = version << ROLE_BITS | u64::from(block[8]) & ROLE_MASK;
    block[8..FIXED_BYTES].copy_from_slice(&marked.to_le_bytes()[..6]);
    let crc = crc32c(seed, &block[payload..]);
    block[4..8].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32c(seed, &block[4..payload]);
    block[..4].copy_from_slice(&crc.to_le_bytes());
}

fn kind_of(content: Content) -> Kind {
    match content {
        Content::Bytes(_) => Kind::Bytes,
        Content::Zeros => Kind::Zeros,
        Content::Hole => Kind::Hole,
    }
}
