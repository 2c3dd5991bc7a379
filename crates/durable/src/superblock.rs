//! The first bytes of a durable heap's file: what it is, and how it is divided.
//!
//! ```text
//! 0 magic "AQDHEAP\n" | 8 version u32 | 12 chunk_bytes u32 | 16 id u64 | 24 zeros | 60 crc u32      (little-endian)
//! | superblock, 4096 bytes | chunk 0 | chunk 1 | ...
//! ```

use aquifer_base::checksum::crc32c_seeded;

use crate::error::Result;
use crate::persist::Persist;
use crate::record::Record;

/// Bytes before the first chunk.
pub const SUPERBLOCK_BYTES: usize = 4096;
/// Bytes that say something.
pub const USED_BYTES: usize = 64;
/// The version that this library writes and reads.
pub const VERSION: u32 = 2;
/// A file has about this many chunks at most, as a power of two, if nobody wants others.
const CHUNKS_BITS: u32 = 18;
const MAGIC: [u8; 8] = *b"AQDHEAP\n";

/// What the superblock says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Size of a chunk: a power of two, 64 KiB to 16 MiB.
    pub chunk_bytes: u32,
    /// A random number, which the checksums of this heap begin with.
    pub id: u64,
}

impl Superblock {
    /// Smallest chunk.
    pub const CHUNK_BYTES_MIN: u32 = 64 << 10;
    /// Largest chunk.
    pub const CHUNK_BYTES_MAX: u32 = 16 << 20;

    /// Size of a chunk of a file that may grow to `capacity_bytes`, unless another is wanted: 1 MiB, more from 256 GiB on.
    pub fn chunk_bytes_for(capacity_bytes: u64) -> u32 {
        let share = (capacity_bytes >> CHUNKS_BITS).next_power_of_two();
        share.clamp(1 << 20, Self::CHUNK_BYTES_MAX.into()) as u32
    }

    /// Writes it to an empty file, or one where that came to nothing. A crash leaves a file that [`Superblock::find`] takes for empty.
    ///
    /// # Errors
    /// The memory's.
    pub fn create(&self, persist: &dyn Persist) -> Result<()> {
        let bytes = self.encode();
        persist.grow(SUPERBLOCK_BYTES as u64)?;
        persist.persist(8, &bytes[8..])?;
        Record::create_all(persist, self.id)?;
        persist.persist(0, &bytes[..8])
    }

    /// The superblock of a file; `None` if it is empty.
    ///
    /// # Errors
    /// What is wrong, for a person.
    pub fn find(persist: &dyn Persist) -> std::result::Result<Option<Self>, String> {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        persist.read(0, &mut bytes);
        let has_nothing = persist.len_bytes() <= SUPERBLOCK_BYTES as u64
            && bytes[..8].iter().all(|&byte| byte == 0)
            && (USED_BYTES..SUPERBLOCK_BYTES).all(|at| bytes[at] == 0 || Record::is_at(at));
        if has_nothing {
            return Ok(None);
        }
        Self::decode(bytes.first_chunk().expect("longer")).map(Some)
    }

    /// As it stands in the file.
    pub fn encode(&self) -> [u8; USED_BYTES] {
        let mut bytes = [0; USED_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.chunk_bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.id.to_le_bytes());
        let crc = crc32c_seeded(0, &bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads one.
    ///
    /// # Errors
    /// What is wrong, for a person.
    pub fn decode(bytes: &[u8; USED_BYTES]) -> std::result::Result<Self, String> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if bytes[..8] != MAGIC {
            return Err("it does not begin as one".into());
        }
        if word(8) != VERSION {
            return Err(format!(
                "its version is {}, this library reads and writes version {VERSION} alone",
                word(8)
            ));
        }
        if word(60) != crc32c_seeded(0, &bytes[..60]) {
            return Err("the checksum of its first bytes is wrong".into());
        }
        let chunk_bytes = word(12);
        let range = Self::CHUNK_BYTES_MIN..=Self::CHUNK_BYTES_MAX;
        if !chunk_bytes.is_power_of_two() || !range.contains(&chunk_bytes) {
            return Err(format!("its chunks would have {chunk_bytes} bytes"));
        }
        let id = u64::from(word(16)) | u64::from(word(20)) << 32;
        Ok(Self { chunk_bytes, id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUPERBLOCK: Superblock = Superblock { chunk_bytes: 1 << 20, id: 0x1234_5678_9ABC_DEF0 };

    #[test]
    fn is_read_as_written() {
        assert_eq!(Superblock::decode(&SUPERBLOCK.encode()), Ok(SUPERBLOCK));
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        for bit in 0..USED_BYTES * 8 {
            let mut bytes = SUPERBLOCK.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Superblock::decode(&bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = SUPERBLOCK.encode();
        bytes[8] = 9;
        assert!(Superblock::decode(&bytes).expect_err("unknown").contains("version is 9"));
    }
}
