//! The framed entry of the log.
//!
//! ```text
//! marker    bit 31: one | owner (31 bits)
//! record    word: bit 31: zero | kind (2 bits) | zero (7 bits) | index (9 bits) | payload length (13 bits)
//!           CRC32C (4 bytes), seeded by segment and generation, of owner, word and payload
//!           payload, padded with zeros to a multiple of 4
//! ```
//! All numbers are little-endian and take 4 bytes. The owner is a leaf: of the page at `index` in it, or of itself.
//! A page whose bytes fill an OS page has no frame and stands in a block of its own kind ([`crate::whole`]).
//! A marker names the owner of the records that follow it in the block. Pages of a leaf are written side by
//! side, so a marker serves many records. A word of zero is padding: no record follows in this block.

use aquifer_base::checksum::crc32c_seeded;
use aquifer_base::limits::{LEAF_PAGES, LOG_GRAIN_BYTES, OS_PAGE_BYTES, RECORD_PAYLOAD_BYTES_MAX};

/// Bytes before the payload.
pub const HEADER_BYTES: usize = 8;
/// Bytes of a marker.
pub const MARKER_BYTES: usize = 4;

const MARKER: u32 = 1 << 31;
const LENGTH_BITS: u32 = 13;
const INDEX_BITS: u32 = LEAF_PAGES.trailing_zeros();
const KIND_SHIFT: u32 = 29;
const WORD_MASK: u32 = 3 << KIND_SHIFT | ((1 << (INDEX_BITS + LENGTH_BITS)) - 1);

/// What a record holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The bytes of one page of the heap, fewer than an OS page has.
    Page,
    /// A packed leaf of the translation table.
    Leaf,
    /// The bytes of one page of the heap that fills an OS page.
    Whole,
}

impl Kind {
    const fn code(self) -> u32 {
        match self {
            Self::Page => 1,
            Self::Leaf => 2,
            Self::Whole => 3,
        }
    }

    const fn from_code(code: u32) -> Option<Self> {
        match code {
            1 => Some(Self::Page),
            2 => Some(Self::Leaf),
            3 => Some(Self::Whole),
            _ => None,
        }
    }

    /// The kind of a page of `page_bytes`.
    pub const fn of_page(page_bytes: usize) -> Self {
        if page_bytes == OS_PAGE_BYTES { Self::Whole } else { Self::Page }
    }
}

/// Which thing a record is a version of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordId {
    /// What it holds.
    pub kind: Kind,
    /// Page number, below 2^40, or leaf number, below 2^31.
    pub number: u64,
}

impl RecordId {
    /// The page `number`, of `page_bytes`.
    pub const fn of_page(number: u64, page_bytes: usize) -> Self {
        Self { kind: Kind::of_page(page_bytes), number }
    }

    /// The leaf that the record belongs to.
    pub const fn owner(self) -> u32 {
        match self.kind {
            Kind::Page | Kind::Whole => (self.number >> INDEX_BITS) as u32,
            Kind::Leaf => self.number as u32,
        }
    }

    const fn index(self) -> u32 {
        match self.kind {
            Kind::Page | Kind::Whole => self.number as u32 & (LEAF_PAGES as u32 - 1),
            Kind::Leaf => 0,
        }
    }

    /// Kind, index and length as they stand in a header.
    pub(crate) const fn word(self, payload_bytes: usize) -> u32 {
        self.kind.code() << KIND_SHIFT | self.index() << LENGTH_BITS | payload_bytes as u32
    }

    /// What the word in a header of `owner` names.
    pub(crate) fn of_word(word: u32, owner: u32) -> Option<Self> {
        let kind = Kind::from_code(word >> KIND_SHIFT)?;
        Some(Self::new(kind, owner, word >> LENGTH_BITS & ((1 << INDEX_BITS) - 1)))
    }

    const fn new(kind: Kind, owner: u32, index: u32) -> Self {
        let number = match kind {
            Kind::Page | Kind::Whole => (owner as u64) << INDEX_BITS | index as u64,
            Kind::Leaf => owner as u64,
        };
        Self { kind, number }
    }
}

/// A record header whose numbers are in range; its checksum may still be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Bytes of payload, at most [`RECORD_PAYLOAD_BYTES_MAX`].
    pub payload_bytes: usize,
    kind: Kind,
    index: u32,
    word: u32,
    crc: u32,
}

pub(crate) fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(crate) fn checksum(seed: u32, owner: u32, word: u32, payload: &[u8]) -> u32 {
    let identity = u64::from(owner) | u64::from(word) << 32;
    crc32c_seeded(crc32c_seeded(seed, &identity.to_le_bytes()), payload)
}

impl Header {
    /// Reads the header at the start of `bytes`; `None` for padding, for a marker and for nonsense.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (word, crc) = (read_u32(bytes, 0)?, read_u32(bytes, 4)?);
        let payload_bytes = (word & ((1 << LENGTH_BITS) - 1)) as usize;
        let index = word >> LENGTH_BITS & ((1 << INDEX_BITS) - 1);
        let kind = Kind::from_code(word >> KIND_SHIFT).filter(|&kind| kind != Kind::Whole)?;
        let in_range = payload_bytes <= RECORD_PAYLOAD_BYTES_MAX && (kind == Kind::Page || index == 0);
        (in_range && word & !WORD_MASK == 0).then_some(Self { payload_bytes, kind, index, word, crc })
    }

    /// Whose record it is, if it belongs to `owner`.
    pub const fn id(&self, owner: u32) -> RecordId {
        RecordId::new(self.kind, owner, self.index)
    }

    /// Bytes of the whole record, padding included.
    pub const fn record_bytes(&self) -> usize {
        record_bytes(self.payload_bytes)
    }

    /// Whether `record`, which begins with this header, is intact and was written for `owner` with this `seed`.
    pub fn verify(&self, seed: u32, owner: u32, record: &[u8]) -> bool {
        record
            .get(HEADER_BYTES..HEADER_BYTES + self.payload_bytes)
            .is_some_and(|payload| checksum(seed, owner, self.word, payload) == self.crc)
    }
}

/// The owner that the marker at the start of `bytes` names; `None` if there is no marker.
pub fn parse_marker(bytes: &[u8]) -> Option<u32> {
    read_u32(bytes, 0).filter(|word| word & MARKER != 0).map(|word| word & !MARKER)
}

/// Bytes that a payload of this size takes in the log, behind its marker.
pub const fn record_bytes(payload_bytes: usize) -> usize {
    if payload_bytes == OS_PAGE_BYTES {
        return OS_PAGE_BYTES;
    }
    (HEADER_BYTES + payload_bytes).next_multiple_of(LOG_GRAIN_BYTES)
}

/// Bytes that it takes with a marker of its own.
pub const fn lone_record_bytes(payload_bytes: usize) -> usize {
    marker_bytes(payload_bytes) + record_bytes(payload_bytes)
}

/// How many records of one owner with such payloads `room_bytes` of a block have room for.
pub const fn records_in(room_bytes: usize, payload_bytes: usize) -> usize {
    room_bytes.saturating_sub(marker_bytes(payload_bytes)) / record_bytes(payload_bytes)
}

/// Bytes of the marker before payloads of this size.
const fn marker_bytes(payload_bytes: usize) -> usize {
    if payload_bytes == OS_PAGE_BYTES { 0 } else { MARKER_BYTES }
}

/// Writes a marker for the records of `owner` to the start of `out`.
pub fn write_marker(out: &mut [u8], owner: u32) {
    debug_assert!(owner & MARKER == 0);
    out[..MARKER_BYTES].copy_from_slice(&(MARKER | owner).to_le_bytes());
}

/// Writes a record to the start of `out` and returns its size.
///
/// `out` must have [`record_bytes`] bytes of room.
pub fn write_record(out: &mut [u8], seed: u32, id: RecordId, payload: &[u8]) -> usize {
    let total = record_bytes(payload.len());
    debug_assert!(payload.len() <= RECORD_PAYLOAD_BYTES_MAX && id.owner() & MARKER == 0);
    let word = id.word(payload.len());
    let end = HEADER_BYTES + payload.len();
    out[0..4].copy_from_slice(&word.to_le_bytes());
    out[4..8].copy_from_slice(&checksum(seed, id.owner(), word, payload).to_le_bytes());
    out[HEADER_BYTES..end].copy_from_slice(payload);
    out[end..total].fill(0);
    total
}

/// Position of the intact record `id` among the records that follow one another from the start of
/// `bytes`, as (start, payload length); `None` if it is not there. A marker ends the search: records of one leaf
/// that are looked through together have none between them.
pub fn find_record(bytes: &[u8], seed: u32, id: RecordId) -> Option<(usize, usize)> {
    let mut at = 0;
    while let Some(header) = bytes.get(at..).and_then(Header::parse) {
        if header.id(id.owner()) == id {
            return header.verify(seed, id.owner(), &bytes[at..]).then_some((at, header.payload_bytes));
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
    fn a_header_costs_eight_bytes() {
        assert_eq!(record_bytes(128), 136);
        assert_eq!(record_bytes(1), 12);
        assert_eq!(lone_record_bytes(128), 140);
    }

    #[test]
    fn finds_the_second_of_two() {
        let mut block = [0u8; 256];
        let first = write_record(&mut block, 7, id(1), b"first");
        write_record(&mut block[first..], 7, id(2), b"second");
        assert_eq!(find_record(&block, 7, id(2)), Some((first, 6)));
        assert_eq!(find_record(&block, 7, id(3)), None);
        assert_eq!(find_record(&block, 8, id(2)), None);
        assert_eq!(find_record(&block, 7, id(2 + LEAF_PAGES as u64)), None, "the same index in another leaf");
    }

    #[test]
    fn a_leaf_and_its_first_page_differ() {
        let mut block = [0u8; 64];
        write_record(&mut block, 7, id(3 << INDEX_BITS), b"page");
        let leaf = RecordId { kind: Kind::Leaf, number: 3 };
        assert_eq!((leaf.owner(), id(3 << INDEX_BITS).owner()), (3, 3));
        assert_eq!(find_record(&block, 7, leaf), None);
    }

    #[test]
    fn a_marker_ends_the_records_before_it() {
        let mut block = [0u8; 64];
        let first = write_record(&mut block, 7, id(1), b"first");
        write_marker(&mut block[first..], 5);
        write_record(&mut block[first + MARKER_BYTES..], 7, id(2), b"second");
        assert_eq!(parse_marker(&block[first..]), Some(5));
        assert_eq!(parse_marker(&block), None);
        assert_eq!(find_record(&block, 7, id(2)), None);
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
