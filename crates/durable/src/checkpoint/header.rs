//! The first bytes of a chunk that has a part of a checkpoint.

use aquifer_base::checksum::crc32c_seeded;

use crate::chunk::{self, HEADER_BYTES, VERSION_MAX};

const MAGIC: u32 = u32::from_le_bytes(*b"CKPT");
/// In the index of the last part.
const LAST: u32 = 1 << 31;

/// What they say.
///
/// ```text
/// 0 magic u32 | 4 crc u32 | 8 index u32, bit 31 of the last | 12 end u32 | 16 opened u64 | 24 number u64 | 32 records ...
/// ```
///
/// The checksum is that of all from byte 8 to the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
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

impl Header {
    /// Whether a chunk begins as one with a part of a checkpoint, whole or not.
    pub(crate) fn is_in(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC.to_le_bytes())
    }

    /// Writes it to the beginning of a part that is otherwise complete, for chunk `number` of the heap `id`.
    pub(crate) fn encode(&self, bytes: &mut [u8], id: u64, number: u32) {
        let index = self.index | if self.is_last { LAST } else { 0 };
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..12].copy_from_slice(&index.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.end.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.opened.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.number.to_le_bytes());
        let crc = crc32c_seeded(seed(id, number), &bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    }

    /// What is said at the beginning of a chunk, which may be anything unless all of the part verifies.
    pub(crate) fn peek(bytes: &[u8; HEADER_BYTES]) -> Self {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let (index, is_last) = (word(8) & !LAST, word(8) & LAST != 0);
        Self { index, is_last, end: word(12), opened: long(16), number: long(24) }
    }

    /// The header of a chunk, and its records.
    ///
    /// # Errors
    /// [`DamagedPart`].
    pub(crate) fn decode(bytes: &[u8], id: u64, number: u32) -> Result<(Self, &[u8]), DamagedPart> {
        let first = bytes.first_chunk().ok_or(DamagedPart)?;
        let header = Self::peek(first);
        let part = bytes.get(..header.end as usize).filter(|part| part.len() >= HEADER_BYTES);
        let part = part.ok_or(DamagedPart)?;
        let crc = crc32c_seeded(seed(id, number), &part[8..]);
        let is_right = Self::is_in(part) && part[4..8] == crc.to_le_bytes() && header.opened <= VERSION_MAX;
        if is_right { Ok((header, &part[HEADER_BYTES..])) } else { Err(DamagedPart) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_seen() {
        let header = Header { index: 3, is_last: true, end: 52, opened: 1 << 40, number: 7 };
        let mut bytes = vec![0xAB; 64];
        header.encode(&mut bytes[..52], 5, 9);
        assert_eq!(Header::decode(&bytes, 5, 9), Ok((header, &bytes[HEADER_BYTES..52])));
        assert_eq!(Header::decode(&bytes, 6, 9), Err(DamagedPart));
        assert_eq!(Header::decode(&bytes, 5, 8), Err(DamagedPart));
        for bit in 0..52 * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&flipped, 5, 9), Err(DamagedPart), "bit {bit}");
        }
    }
}
