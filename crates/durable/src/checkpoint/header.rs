//! The first bytes of a chunk that has a part of a checkpoint.

use aquifer_base::checksum::crc32c_seeded;

use crate::chunk::{self, VERSION_MAX};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 40;
const MAGIC: u32 = u32::from_le_bytes(*b"CKPT");
/// In the index of the last part.
const LAST: u32 = 1 << 31;

/// What they say.
///
/// ```text
/// 0 magic u32 | 4 crc u32 | 8 generation u32 | 12 end u32 | 16 opened u64 | 24 number u64 | 32 index u32, bit 31 of the last |
/// 36 crc of the records u32 | 40 records ...
/// ```
///
/// The header verifies by itself, so that damage to the records costs no more than the checkpoint. A header that does not verify may
/// have been that of a chunk of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Lives of the chunk so far.
    pub generation: u32,
    /// Which part it is.
    pub index: u32,
    /// Whether there are no others behind it.
    pub is_last: bool,
    /// Bytes of the part, header included.
    pub end: u32,
    /// All transactions up to this version are in the checkpoint.
    pub opened: u64,
    /// Of which checkpoint.
    pub number: u64,
}

/// A part that does not verify.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DamagedPart;

fn seed(id: u64, number: u32) -> u32 {
    chunk::seed(id, number, MAGIC)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

impl Header {
    /// Whether a chunk begins as one with a part of a checkpoint, whole or not.
    pub(crate) fn is_in(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC.to_le_bytes())
    }

    /// Writes it to the beginning of a part that is otherwise complete, for chunk `number` of the heap `id`.
    pub(crate) fn encode(&self, bytes: &mut [u8], id: u64, number: u32) {
        let index = self.index | if self.is_last { LAST } else { 0 };
        let crc = crc32c_seeded(seed(id, number), &bytes[HEADER_BYTES..]);
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.generation.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.end.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.opened.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.number.to_le_bytes());
        bytes[32..36].copy_from_slice(&index.to_le_bytes());
        bytes[36..40].copy_from_slice(&crc.to_le_bytes());
        let crc = crc32c_seeded(seed(id, number), &bytes[8..HEADER_BYTES]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    }

    /// The header alone, at the beginning of chunk `number` of the heap `id`.
    ///
    /// # Errors
    /// [`DamagedPart`].
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES], id: u64, number: u32) -> Result<Self, DamagedPart> {
        let long = |at: usize| u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32;
        let (index, is_last) = (word(bytes, 32) & !LAST, word(bytes, 32) & LAST != 0);
        let (generation, end) = (word(bytes, 8), word(bytes, 12));
        let header = Self { generation, index, is_last, end, opened: long(16), number: long(24) };
        let is_right = Self::is_in(bytes)
            && word(bytes, 4) == crc32c_seeded(seed(id, number), &bytes[8..])
            && header.opened <= VERSION_MAX;
        if is_right { Ok(header) } else { Err(DamagedPart) }
    }

    /// The header of a chunk, and its records.
    ///
    /// # Errors
    /// [`DamagedPart`].
    pub(crate) fn decode_part(bytes: &[u8], id: u64, number: u32) -> Result<(Self, &[u8]), DamagedPart> {
        let first = bytes.first_chunk().ok_or(DamagedPart)?;
        let header = Self::decode(first, id, number)?;
        let records = bytes.get(HEADER_BYTES..header.end as usize).ok_or(DamagedPart)?;
        let is_right = word(first, 36) == crc32c_seeded(seed(id, number), records);
        if is_right { Ok((header, records)) } else { Err(DamagedPart) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_seen() {
        let header = Header { generation: 5, index: 3, is_last: true, end: 60, opened: 1 << 40, number: 7 };
        let mut bytes = vec![0xAB; 64];
        header.encode(&mut bytes[..60], 5, 9);
        let decode =
            |bytes: &[u8], id, number| Header::decode(bytes.first_chunk().expect("longer"), id, number);
        assert_eq!(Header::decode_part(&bytes, 5, 9), Ok((header, &bytes[HEADER_BYTES..60])));
        assert_eq!(decode(&bytes, 5, 9), Ok(header));
        assert_eq!(decode(&bytes, 6, 9), Err(DamagedPart));
        assert_eq!(decode(&bytes, 5, 8), Err(DamagedPart));
        for bit in 0..60 * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode_part(&flipped, 5, 9), Err(DamagedPart), "bit {bit}");
            assert_eq!(decode(&flipped, 5, 9).is_err(), bit < HEADER_BYTES * 8, "bit {bit}");
        }
    }
}
