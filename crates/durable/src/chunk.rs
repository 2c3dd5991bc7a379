//! A chunk: a piece of the file that one session fills from front to back. It is cleaned whole.
//!
//! ```text
//! 0 magic u32 | 4 crc u32 | 8 generation u32 | 12 end u32 | 16 opened u64 | 24 previous u32 | 28 its generation u32 | 32 blocks ...
//! ```
//!
//! All numbers are little-endian. The generation, which is larger in each life of the chunk, seeds the checksums of its blocks, with the place of each:
//! what an earlier life left behind them does not verify. The previous chunk of the same session is the one with that number less 1, if it
//! still has that generation; its blocks were durable up to `end`, so that damage there is told from a torn write at the end of a log.
//!
//! A header is taken away by zeros in its first eight bytes, and written with these last, so that a crash leaves a header or none.

use aquifer_base::checksum::crc32c_seeded;

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

/// The chunk that a session filled before.
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

    /// Takes the header of the chunk at `offset` away.
    pub(crate) fn remove(persist: &dyn Persist, offset: u64) -> Result<()> {
        persist.persist(offset, &[0; FIRST_BYTES])
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

    /// Reads one; `None` if there is none, as in a chunk that was never used or was given back.
    ///
    /// # Errors
    /// [`DamagedHeader`].
    pub fn decode(
        bytes: &[u8; HEADER_BYTES],
        id: u64,
        number: u32,
    ) -> std::result::Result<Option<Self>, DamagedHeader> {
        if bytes[..FIRST_BYTES] == [0; FIRST_BYTES] {
            return Ok(None);
        }
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let crc = crc32c_seeded(seed(id, number, 0), &bytes[8..]);
        let previous = word(24).checked_sub(1);
        let previous = previous.map(|number| Previous { number, generation: word(28), end: word(12) });
        let header =
            Self { generation: word(8), opened: u64::from(word(16)) | u64::from(word(20)) << 32, previous };
        let is_right = word(0) == MAGIC && word(4) == crc && header.opened <= VERSION_MAX;
        if is_right { Ok(Some(header)) } else { Err(DamagedHeader) }
    }
}

/// Persists the beginning of a chunk that has no header, its first bytes when all others are durable: a crash leaves it whole, or no header.
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
        assert_eq!(ChunkHeader::decode(&bytes, 7, 5), Ok(Some(header)));
        assert_eq!(ChunkHeader::decode(&bytes, 8, 5), Err(DamagedHeader));
        assert_eq!(ChunkHeader::decode(&bytes, 7, 6), Err(DamagedHeader));
        assert_eq!(ChunkHeader::decode(&[0; HEADER_BYTES], 7, 5), Ok(None));
    }
}
