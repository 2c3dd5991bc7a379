//! A chunk: a piece of the file that one session fills from front to back. It is cleaned whole.
//!
//! ```text
//! 0 magic u32 | 4 crc u32 | 8 generation u32 | 12 end u32 | 16 opened u64 | 24 previous u32 | 28 its generation u32 | 32 blocks ...
//! ```
//!
//! All numbers are little-endian. The generation, which is larger in each life of the chunk, seeds the checksums of its blocks, with the place of each:
//! what an earlier life left behind them does not verify. The previous chunk of the same session is the one with that number less 1, if it
//! still has that generation; its blocks were durable up to `end`, so that damage there is told from a torn write at the end of a log.
//! The first chunk of a session names the last one of a session from before the heap was opened, if there is one that no other chunk names.
//!
//! A chunk that is given back keeps all but the first eight bytes of its header; these become a mark, which is seeded by the generation of the life that has ended:
//!
//! ```text
//! 0 magic u32 | 4 crc of the magic u32 | 8 generation u32, or the next one while a header is written | ...
//! ```
//!
//! The first eight bytes of a header are written last, so that a crash leaves the mark or a header. A chunk that is new in the file gets a mark of generation 0
//! before it is counted, so that zeros are neither: they are damage.

use aquifer_base::checksum::crc32c_seeded;

use crate::checkpoint;
use crate::error::Result;
use crate::persist::Persist;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 32;
/// Larger versions are invalid. No heap lives to commit this many transactions, and the map's words have room
/// for this number.
pub const VERSION_MAX: u64 = (1 << 46) - 1;
/// What is written last.
const FIRST_BYTES: usize = 8;
const MAGIC: u32 = u32::from_le_bytes(*b"CHNK");
const FREE: u32 = u32::from_le_bytes(*b"FREE");
/// What is read to know what a chunk is.
pub const HEAD_BYTES: usize = checkpoint::HEADER_BYTES;

/// The chunk that a session filled before; in its first chunk, the last one of an earlier session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Previous {
    /// Its number.
    pub number: u32,
    /// Its generation then.
    pub generation: u32,
    /// Bytes of it that were durable, header included.
    pub end: u32,
}

/// The header of a chunk does not verify.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DamagedHeader;

/// What a chunk's header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkHeader {
    /// Lives of the chunk so far.
    pub generation: u32,
    /// The newest version that there was when it was opened: all its transactions are newer.
    pub opened: u64,
    /// What was filled before.
    pub previous: Option<Previous>,
}

impl ChunkHeader {
    /// Writes it to a chunk that has none: `number` of the heap `id`, at `offset`.
    pub(crate) fn create(&self, persist: &dyn Persist, offset: u64, id: u64, number: u32) -> Result<()> {
        persist_first_last(persist, offset, &self.encode(id, number))
    }

    /// As it stands in the file, in chunk `number` of the heap `id`.
    fn encode(&self, id: u64, number: u32) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.generation.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.opened.to_le_bytes());
        if let Some(Previous { number, generation, end }) = self.previous {
            bytes[12..16].copy_from_slice(&end.to_le_bytes());
            bytes[24..28].copy_from_slice(&(number + 1).to_le_bytes());
            bytes[28..32].copy_from_slice(&generation.to_le_bytes());
        }
        let crc = crc32c_seeded(seed(id, number, 0), &bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads one; `None` if there is none that verifies.
    pub fn decode(bytes: &[u8; HEADER_BYTES], id: u64, number: u32) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let crc = crc32c_seeded(seed(id, number, 0), &bytes[8..]);
        let previous = word(24).checked_sub(1);
        let previous = previous.map(|number| Previous { number, generation: word(28), end: word(12) });
        let header =
            Self { generation: word(8), opened: u64::from(word(16)) | u64::from(word(20)) << 32, previous };
        let is_right = word(0) == MAGIC && word(4) == crc && header.opened <= VERSION_MAX;
        is_right.then_some(header)
    }
}

/// What a chunk is, by its first bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Head {
    /// It has nothing: the file was made longer, and no more.
    New,
    /// It is free.
    Free {
        /// Of its last life; 0 if it had none.
        generation: u32,
        /// Whether the header of its next life was being written.
        is_opening: bool,
    },
    /// It has blocks.
    Used(ChunkHeader),
    /// It has a part of a checkpoint.
    Part(checkpoint::Header),
}

impl Head {
    /// What chunk `number` of the heap `id` begins with.
    ///
    /// # Errors
    /// [`DamagedHeader`].
    pub fn decode(
        bytes: &[u8; HEAD_BYTES],
        id: u64,
        number: u32,
    ) -> std::result::Result<Self, DamagedHeader> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        match word(0) {
            0 if bytes == &[0; HEAD_BYTES] => Ok(Self::New),
            FREE => {
                let is_of = |generation: u32| bytes[..FIRST_BYTES] == mark(id, number, generation);
                let (generation, before) = (word(8), word(8).wrapping_sub(1));
                match (is_of(generation), is_of(before)) {
                    (true, _) => Ok(Self::Free { generation, is_opening: false }),
                    (_, true) => Ok(Self::Free { generation: before, is_opening: true }),
                    _ => Err(DamagedHeader),
                }
            }
            MAGIC => {
                let (header, _) = bytes.split_first_chunk().expect("longer");
                ChunkHeader::decode(header, id, number).map(Self::Used).ok_or(DamagedHeader)
            }
            _ => checkpoint::Header::decode(bytes, id, number).map(Self::Part).map_err(|_| DamagedHeader),
        }
    }

    /// In which life the chunk is, or was last.
    pub fn generation(&self) -> u32 {
        match self {
            Self::New => 0,
            Self::Free { generation, .. } => *generation,
            Self::Used(header) => header.generation,
            Self::Part(header) => header.generation,
        }
    }
}

/// What a chunk begins with whose life of `generation` has ended.
fn mark(id: u64, number: u32, generation: u32) -> [u8; FIRST_BYTES] {
    let mut bytes = [0; FIRST_BYTES];
    let (magic, crc) = bytes.split_at_mut(4);
    magic.copy_from_slice(&FREE.to_le_bytes());
    crc.copy_from_slice(&crc32c_seeded(seed(id, number, generation), magic).to_le_bytes());
    bytes
}

/// Ends the life of chunk `number` of the heap `id`, whose header is at `offset` and is that of `generation`.
pub(crate) fn free(persist: &dyn Persist, offset: u64, id: u64, number: u32, generation: u32) -> Result<()> {
    persist.persist(offset, &mark(id, number, generation))
}

/// What a chunk begins with that had no life yet.
pub(crate) fn unused(id: u64, number: u32) -> [u8; 2 * FIRST_BYTES] {
    let mut bytes = [0; 2 * FIRST_BYTES];
    bytes[..FIRST_BYTES].copy_from_slice(&mark(id, number, 0));
    bytes
}

/// Persists the beginning of a chunk that is free, its first bytes when all others are durable: a crash leaves it whole, or free.
pub(crate) fn persist_first_last(persist: &dyn Persist, offset: u64, bytes: &[u8]) -> Result<()> {
    persist.persist(offset + FIRST_BYTES as u64, &bytes[FIRST_BYTES..])?;
    persist.persist(offset, &bytes[..FIRST_BYTES])
}

/// What the checksums of the block at `offset` of a chunk begin with, of which all begin with `seed`: a block that stands in another place does
/// not verify there.
#[inline]
pub(crate) fn seed_at(seed: u32, offset: usize) -> u32 {
    (offset as u32).wrapping_mul(0x9E37_79B1) ^ seed
}

/// What the checksums in a chunk begin with.
pub fn seed(id: u64, number: u32, generation: u32) -> u32 {
    let mixed = (id ^ u64::from(number)).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(generation);
    (mixed.wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn belongs_to_its_place() {
        let previous = Some(Previous { number: 0, generation: 8, end: 999 });
        let header = ChunkHeader { generation: 3, opened: 1 << 40, previous };
        let bytes = header.encode(7, 5);
        assert_eq!(ChunkHeader::decode(&bytes, 7, 5), Some(header));
        assert_eq!(ChunkHeader::decode(&bytes, 8, 5), None);
        assert_eq!(ChunkHeader::decode(&bytes, 7, 6), None);
    }

    fn head(bytes: &[u8]) -> std::result::Result<Head, DamagedHeader> {
        let mut head = [0; HEAD_BYTES];
        head[..bytes.len()].copy_from_slice(bytes);
        Head::decode(&head, 7, 5)
    }

    #[test]
    fn a_mark_is_that_of_the_life_that_ended() {
        let header = ChunkHeader { generation: 3, opened: 1 << 40, previous: None };
        let mut bytes = header.encode(7, 5);
        assert_eq!(head(&bytes), Ok(Head::Used(header)));
        let of = |generation| mark(7, 5, generation);
        bytes[..FIRST_BYTES].copy_from_slice(&of(3));
        assert_eq!(head(&bytes), Ok(Head::Free { generation: 3, is_opening: false }));
        bytes[..FIRST_BYTES].copy_from_slice(&of(2));
        assert_eq!(head(&bytes), Ok(Head::Free { generation: 2, is_opening: true }));
        for generation in [1, 4] {
            bytes[..FIRST_BYTES].copy_from_slice(&of(generation));
            assert_eq!(head(&bytes), Err(DamagedHeader), "generation {generation}");
        }
        bytes[..FIRST_BYTES].fill(0);
        assert_eq!(head(&bytes), Err(DamagedHeader));
        assert_eq!(head(&unused(7, 5)), Ok(Head::Free { generation: 0, is_opening: false }));
        assert_eq!(head(&unused(7, 6)), Err(DamagedHeader));
        assert_eq!(head(&[]), Ok(Head::New));
    }
}
