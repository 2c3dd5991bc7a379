//! How far a heap whose commits do not wait is known to be durable: its floor.
//!
//! ```text
//! two places in the superblock's page, at 1024 and 2048, written in turn:
//! 0 number u64 | 8 floor u64 | 16 zeros u32 | 20 crc u32      (little-endian)
//! ```
//!
//! The place with the larger number counts. All transactions up to the floor are durable; what is found of later ones is not a prefix of
//! the commits, and recovery drops it. A heap whose commits wait has no floor: all that is found counts.

use crate::checksum::crc32c;
use crate::error::{Error, Result};
use crate::persist::Persist;

/// The floor of a heap whose commits wait.
pub(crate) const NONE: u64 = u64::MAX;
const PLACES: [u64; 2] = [1024, 2048];
const BYTES: usize = 24;

/// The floor as it stands in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Floor {
    /// How often it was written.
    number: u64,
    /// The newest version that is known to be durable with all before it.
    pub(crate) version: u64,
}

impl Floor {
    /// The one in the file of the heap `id`.
    ///
    /// # Errors
    /// [`Error::Damaged`]: one write can be torn, not two.
    pub(crate) fn read(persist: &dyn Persist, id: u64) -> Result<Self> {
        let mut newest = Self { number: 0, version: NONE };
        let mut torn = 0;
        for offset in PLACES {
            let mut bytes = [0; BYTES];
            persist.read(offset, &mut bytes);
            match Self::decode(&bytes, id) {
                Some(floor) if floor.number > newest.number => newest = floor,
                Some(_) => {}
                None => torn += usize::from(bytes != [0; BYTES]),
            }
        }
        if torn == PLACES.len() {
            let why = "both records of what is durable do not verify".into();
            return Err(Error::Damaged { offset: PLACES[0], why });
        }
        Ok(newest)
    }

    /// Makes another one durable.
    pub(crate) fn write(&mut self, persist: &dyn Persist, id: u64, version: u64) -> Result<()> {
        let next = Self { number: self.number + 1, version };
        persist.persist(PLACES[next.number as usize % PLACES.len()], &next.encode(id))?;
        *self = next;
        Ok(())
    }

    fn encode(&self, id: u64) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.version.to_le_bytes());
        let crc = crc32c(id as u32, &bytes[..20]);
        bytes[20..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; BYTES], id: u64) -> Option<Self> {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let crc = crc32c(id as u32, &bytes[..20]);
        (bytes[20..] == crc.to_le_bytes() && word(0) > 0).then(|| Self { number: word(0), version: word(8) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_seen() {
        let floor = Floor { number: 7, version: 1 << 40 };
        let bytes = floor.encode(5);
        assert_eq!(Floor::decode(&bytes, 5), Some(floor));
        assert_eq!(Floor::decode(&bytes, 6), None);
        for bit in 0..BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Floor::decode(&flipped, 5), None, "bit {bit}");
        }
    }
}
