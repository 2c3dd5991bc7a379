//! The framed entry of the log.
//!
//! ```text
//! bytes 0..4    CRC32C of bytes 4.. to the end of the payload, seeded by segment and generation
//! bytes 4..12   word: identity (40 bits) | payload length (13 bits) | kind (3 bits) | zero (8 bits)
//! bytes 12..    payload, padded with zeros to a multiple of 4
//! ```
//! All numbers are little-endian. A word of zero is padding: no record follows in this block.

use aquifer_base::checksum::crc32c_seeded;
use aquifer_base::limits::{LOG_GRAIN_BYTES, RECORD_PAYLOAD_BYTES_MAX};

/// Bytes before the payload.
pub const HEADER_BYTES: usize = 12;

const IDENTITY_BITS: u32 = 40;
const LENGTH_BITS: u32 = 13;

/// What a record holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The bytes of one page of the heap.
    Page,
    /// A packed leaf of the translation table.
    Leaf,
}

impl Kind {
    const fn code(self) -> u64 {
        match self {
            Self::Page => 1,
            Self::Leaf => 2,
        }
    }

    const fn from_code(code: u64) -> Option<Self> {
        match code {
            1 => Some(Self::Page),
            2 => Some(Self::Leaf),
            _ => None,
        }
    }
}

/// Which thing a record is a version of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordId {
    /// What it holds.
    pub kind: Kind,
    /// Page or leaf number, below 2^40.
    pub number: u64,
}

/// A record header whose numbers are in range; its checksum may still be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Identity.
    pub id: RecordId,
    /// Bytes of payload, at most [`RECORD_PAYLOAD_BYTES_MAX`].
    pub payload_bytes: usize,
    crc: u32,
}

impl Header {
    /// Reads the header at the start of `bytes`; `None` for padding and for nonsense.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let crc = u32::from_le_bytes(bytes.get(0..4)?.try_into().ok()?);
        let word = u64::from_le_bytes(bytes.get(4..HEADER_BYTES)?.try_into().ok()?);
        let payload_bytes = (word >> IDENTITY_BITS & ((1 << LENGTH_BITS) - 1)) as usize;
        let kind = Kind::from_code(word >> (IDENTITY_BITS + LENGTH_BITS))?;
        if payload_bytes > RECORD_PAYLOAD_BYTES_MAX {
            return None;
        }
        let number = word & ((1 << IDENTITY_BITS) - 1);
        Some(Self { id: RecordId { kind, number }, payload_bytes, crc })
    }

    /// Bytes of the whole record, padding included.
    pub const fn record_bytes(&self) -> usize {
        record_bytes(self.payload_bytes)
    }

    /// Whether `record`, which begins with this header, is intact and was written with this `seed`.
    pub fn verify(&self, seed: u32, record: &[u8]) -> bool {
        record.len() >= HEADER_BYTES + self.payload_bytes
            && crc32c_seeded(seed, &record[4..HEADER_BYTES + self.payload_bytes]) == self.crc
    }
}

/// Bytes that a payload of this size takes in the log.
pub const fn record_bytes(payload_bytes: usize) -> usize {
    (HEADER_BYTES + payload_bytes).next_multiple_of(LOG_GRAIN_BYTES)
}

/// Writes a record to the start of `out` and returns its size.
///
/// `out` must have [`record_bytes`] bytes of room.
pub fn write_record(out: &mut [u8], seed: u32, id: RecordId, payload: &[u8]) -> usize {
    let total = record_bytes(payload.len());
    debug_assert!(payload.len() <= RECORD_PAYLOAD_BYTES_MAX && id.number >> IDENTITY_BITS == 0);
    let word =
        id.number | (payload.len() as u64) << IDENTITY_BITS | id.kind.code() << (IDENTITY_BITS + LENGTH_BITS);
    let end = HEADER_BYTES + payload.len();
    out[4..HEADER_BYTES].copy_from_slice(&word.to_le_bytes());
    out[HEADER_BYTES..end].copy_from_slice(payload);
    out[end..total].fill(0);
    let crc = crc32c_seeded(seed, &out[4..end]);
    out[0..4].copy_from_slice(&crc.to_le_bytes());
    total
}

/// Position of the intact record `id` among the records that follow one another from the start of
/// `bytes`, as (start, payload length); `None` if it is not there.
pub fn find_record(bytes: &[u8], seed: u32, id: RecordId) -> Option<(usize, usize)> {
    let mut at = 0;
    while let Some(header) = bytes.get(at..).and_then(Header::parse) {
        if header.id == id {
            return header.verify(seed, &bytes[at..]).then_some((at, header.payload_bytes));
        }
        at += header.record_bytes();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(number: u64) -> RecordId {
        RecordId { kind: Kind::Page, number }
    }

    #[test]
    fn a_header_costs_twelve_bytes() {
        assert_eq!(record_bytes(128), 140);
        assert_eq!(record_bytes(1), 16);
    }

    #[test]
    fn finds_the_second_of_two() {
        let mut block = [0u8; 256];
        let first = write_record(&mut block, 7, id(1), b"first");
        write_record(&mut block[first..], 7, id(2), b"second");
        assert_eq!(find_record(&block, 7, id(2)), Some((first, 6)));
        assert_eq!(find_record(&block, 7, id(3)), None);
        assert_eq!(find_record(&block, 8, id(2)), None);
    }

    proptest! {
        #[test]
        fn never_accepts_a_flipped_bit(payload in proptest::collection::vec(any::<u8>(), 0..300), flip in 0usize..2400) {
            let mut block = vec![0u8; record_bytes(payload.len())];
            write_record(&mut block, 1, id(42), &payload);
            let covered = (HEADER_BYTES + payload.len()) * 8;
            let flip = flip % covered;
            block[flip / 8] ^= 1 << (flip % 8);
            prop_assert_eq!(find_record(&block, 1, id(42)), None);
        }

        #[test]
        fn parsing_arbitrary_bytes_terminates(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let _ = find_record(&bytes, 0, id(0));
        }
    }
}
