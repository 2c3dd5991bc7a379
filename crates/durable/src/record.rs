//! Three values in the superblock's page that change while the heap is open.
//!
//! ```text
//! two places for each, written one after the other:  0 number u64 | 8 value u64 | 16 which of them u32 | 20 crc u32      (little-endian)
//! the floor at 1024 and 2048, the chunks of the file at 1536 and 2560, the oldest at 3072 and 3584
//! ```
//!
//! Both places have a value before it is acknowledged. Of two that differ the one with the larger number counts: a write was under way, or one was
//! damaged or not written. Opening a heap to write makes them equal before anything else is written. So a torn write, which hits one place, leaves the
//! value before; and damage or a lost write, which hit one place, leave the value that was acknowledged.
//!
//! The second write waits for the first one also where one sync could make both durable: a page with both could be lost as a whole.
//!
//! **Floor.** How far a heap whose commits do not wait is known to be durable: all transactions up to this version. What is found of
//! later ones is not a prefix of the commits, and recovery drops it. A heap whose commits wait has none: all that is found counts.
//!
//! **Chunks.** How many the file has, at least. One with fewer was cut.
//!
//! **Oldest.** No chunk that was opened before this version has anything that is needed. A chunk that is older was about to be given back, or it was given
//! back and that write was lost: it does not count. So a free can be forgotten when no chunk has what it hides.

use crate::checksum::crc32c;
use crate::error::{Error, Result};
use crate::persist::Persist;
use crate::superblock::SUPERBLOCK_BYTES;

/// The floor of a heap whose commits wait.
pub(crate) const NO_FLOOR: u64 = u64::MAX;
const BYTES: usize = 24;

/// Which value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Floor,
    Chunks,
    Oldest,
}

impl Kind {
    const fn places(self) -> [u64; 2] {
        match self {
            Self::Floor => [1024, 2048],
            Self::Chunks => [1536, 2560],
            Self::Oldest => [3072, 3584],
        }
    }

    /// What it is in a heap that is new.
    const fn first(self) -> u64 {
        match self {
            Self::Floor => NO_FLOOR,
            Self::Chunks | Self::Oldest => 0,
        }
    }
}

/// A value as it stands in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    kind: Kind,
    /// How often it was written.
    number: u64,
    pub(crate) value: u64,
}

impl Record {
    /// The one in the file of the heap `id`.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub(crate) fn read(persist: &dyn Persist, id: u64, kind: Kind) -> Result<Self> {
        if persist.len_bytes() < SUPERBLOCK_BYTES as u64 {
            return Err(Error::Damaged { offset: persist.len_bytes(), why: "the file ends there".into() });
        }
        let records = kind.places().into_iter().filter_map(|offset| {
            let mut bytes = [0; BYTES];
            persist.read(offset, &mut bytes);
            Self::decode(&bytes, id, kind)
        });
        records.max_by_key(|record| record.number).ok_or_else(|| {
            let why = format!("both records of the heap's {kind:?} do not verify").to_lowercase();
            Error::Damaged { offset: kind.places()[0], why }
        })
    }

    /// Writes all records of a heap that is being made, in both places: zeros there are damage.
    ///
    /// # Errors
    /// The device refused.
    pub(crate) fn create_all(persist: &dyn Persist, id: u64) -> Result<()> {
        let all = [Kind::Floor, Kind::Chunks, Kind::Oldest].map(|kind| Self {
            kind,
            number: 1,
            value: kind.first(),
        });
        all.iter().try_for_each(|record| record.settle(persist, id))
    }

    /// Whether bytes of the superblock's page from `offset` on may be those of a record.
    pub(crate) fn is_at(offset: usize) -> bool {
        let mut places = [Kind::Floor, Kind::Chunks, Kind::Oldest].into_iter().flat_map(Kind::places);
        places.any(|place| (place as usize..place as usize + BYTES).contains(&offset))
    }

    /// Makes both places say what the newest one says, in the file of the heap `id`, if one was being written or is damaged. Before that another write
    /// could tear the only place that has the value.
    ///
    /// # Errors
    /// The device refused.
    pub(crate) fn settle(&self, persist: &dyn Persist, id: u64) -> Result<()> {
        for offset in self.kind.places() {
            let mut bytes = [0; BYTES];
            persist.read(offset, &mut bytes);
            if bytes != self.encode(id) {
                persist.persist(offset, &self.encode(id))?;
            }
        }
        Ok(())
    }

    /// Makes another one durable, in both places.
    ///
    /// # Errors
    /// The device refused; then the value before or this one counts.
    pub(crate) fn write(&mut self, persist: &dyn Persist, id: u64, value: u64) -> Result<()> {
        let next = Self { number: self.number + 1, value, ..*self };
        self.kind.places().into_iter().try_for_each(|place| persist.persist(place, &next.encode(id)))?;
        *self = next;
        Ok(())
    }

    fn encode(&self, id: u64) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.value.to_le_bytes());
        bytes[16..20].copy_from_slice(&(self.kind as u32).to_le_bytes());
        let crc = crc32c(id as u32, &bytes[..20]);
        bytes[20..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; BYTES], id: u64, kind: Kind) -> Option<Self> {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let crc = crc32c(id as u32, &bytes[..20]);
        let is_right = bytes[20..] == crc.to_le_bytes() && bytes[16..20] == (kind as u32).to_le_bytes();
        (is_right && word(0) > 0).then(|| Self { kind, number: word(0), value: word(8) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_seen() {
        let record = Record { kind: Kind::Chunks, number: 7, value: 1 << 40 };
        let bytes = record.encode(5);
        assert_eq!(Record::decode(&bytes, 5, Kind::Chunks), Some(record));
        assert_eq!(Record::decode(&bytes, 6, Kind::Chunks), None);
        assert_eq!(Record::decode(&bytes, 5, Kind::Floor), None);
        for bit in 0..BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Record::decode(&flipped, 5, Kind::Chunks), None, "bit {bit}");
        }
    }
}
