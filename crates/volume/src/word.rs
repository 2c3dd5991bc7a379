//! The entry: where a page's bytes are on flash.

use aquifer_base::checksum::crc32c_seeded;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

/// A page's bytes.
pub type PageBytes = [u8; PAGE_BYTES];

/// A page of the medium, counted from its first. At most [`Physical::BITS`] bits: 8 TiB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Physical(pub u32);

impl Physical {
    /// Bits of a number.
    pub const BITS: u32 = 31;
    /// One more than the largest number.
    pub const END: u64 = 1 << Self::BITS;

    /// Bytes from the start of the medium.
    #[must_use]
    pub fn offset_bytes(self) -> u64 {
        u64::from(self.0) * PAGE_BYTES as u64
    }
}

/// Where a page's bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Nowhere: it reads as zeros.
    Zero,
    /// In a page of their own, whose checksum folds to `check`.
    Page {
        /// The page.
        at: Physical,
        /// What [`check_of`] says of the bytes.
        check: u32,
    },
    /// In an older page, and what changed since in a block of the log.
    Patched {
        /// The older page.
        base: Physical,
        /// The block that holds the patch.
        block: Physical,
        /// Whether the patch takes more than [`PATCH_BYTES_SHORT`] of the block.
        is_long: bool,
    },
    /// Nowhere any more: what named its place is damaged.
    Lost,
}

/// The one 64-bit word that translates a page: the same for the mapping of memory, the block map of a file, and the map of a flash
/// translation layer (FlashMap).
///
/// | bits 0..2 | bits 2..33 | bits 33..64 |
/// |---|---|---|
/// | 0 `Zero` | 0 | 0 |
/// | 1 `Page` | page of the medium | check of its bytes |
/// | 2 `Patched` | page of the medium | block of the log |
/// | 3 `Patched`, long | page of the medium, not 0 | block of the log |
/// | 3 `Lost` | 0 | 0 |
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Word(u64);

const LOW: u64 = (1 << Physical::BITS) - 1;

impl Word {
    /// Reads as zeros.
    pub const ZERO: Word = Word(0);
    /// The word for a page that is lost.
    pub const LOST: Word = Word(3);

    /// The word for a place.
    #[must_use]
    pub fn of(place: Place) -> Self {
        let word = |state: u64, low: u32, high: u32| {
            Word(state | (u64::from(low) & LOW) << 2 | u64::from(high) << (2 + Physical::BITS))
        };
        match place {
            Place::Zero => Word::ZERO,
            Place::Lost => Word::LOST,
            Place::Page { at, check } => word(1, at.0, check),
            Place::Patched { base, block, is_long } => word(2 + u64::from(is_long), base.0, block.0),
        }
    }

    /// The place; `None` for a word that nobody writes.
    #[must_use]
    pub fn place(self) -> Option<Place> {
        let low = (self.0 >> 2 & LOW) as u32;
        let high = (self.0 >> (2 + Physical::BITS)) as u32;
        match self.0 & 3 {
            0 if self.0 == 0 => Some(Place::Zero),
            1 => Some(Place::Page { at: Physical(low), check: high }),
            3 if self == Word::LOST => Some(Place::Lost),
            state @ (2 | 3) if low > 0 || state == 2 => {
                Some(Place::Patched { base: Physical(low), block: Physical(high), is_long: state == 3 })
            }
            _ => None,
        }
    }

    /// As it stands in a leaf.
    #[must_use]
    pub fn bits(self) -> u64 {
        self.0
    }

    /// From a leaf.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Word(bits)
    }

    /// What the page takes of the medium, in units of 256 bytes: what the cleaner counts.
    pub(crate) fn for_each_share(self, mut share: impl FnMut(Physical, u32)) {
        match self.place() {
            Some(Place::Page { at, .. }) => share(at, PAGE_UNITS),
            Some(Place::Patched { base, block, is_long }) => {
                share(base, PAGE_UNITS);
                share(block, if is_long { PATCH_UNITS_LONG } else { PATCH_UNITS_SHORT });
            }
            Some(Place::Zero | Place::Lost) | None => {}
        }
    }
}

/// What a page counts.
pub const PAGE_UNITS: u32 = 16;
/// What a short patch counts.
pub const PATCH_UNITS_SHORT: u32 = 1;
/// What a longer one counts: as much as the longest takes, three of which fill a block.
pub const PATCH_UNITS_LONG: u32 = 6;
/// Bytes that a short patch takes of its block at most, header included.
pub const PATCH_BYTES_SHORT: usize = 256;

/// What a word remembers of a page's bytes: 31 bits of their CRC32C, so that every flipped bit and nearly every other change is seen.
#[must_use]
pub fn check_of(crc: u32) -> u32 {
    (crc ^ crc >> 31) & LOW as u32
}

/// The CRC32C of a page's bytes.
#[must_use]
pub fn crc_of(bytes: &[u8]) -> u32 {
    crc32c_seeded(0, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_again() {
        let last = Physical((1u32 << 31) - 1);
        for place in [
            Place::Zero,
            Place::Lost,
            Place::Page { at: last, check: LOW as u32 },
            Place::Page { at: Physical(0), check: 0 },
            Place::Patched { base: last, block: Physical(0), is_long: false },
            Place::Patched { base: Physical(1), block: last, is_long: true },
        ] {
            assert_eq!(Word::of(place).place(), Some(place));
            assert_eq!(Word::from_bits(Word::of(place).bits()), Word::of(place));
        }
        assert_eq!(Word::from_bits(3 | 1 << 40).place(), None);
        assert_eq!(Word::from_bits(4).place(), None);
    }

    /// CRC32C is linear, so a flip changes the check of all pages or of none.
    #[test]
    fn every_flipped_bit_of_a_page_changes_its_check() {
        let mut bytes = [0x5A; PAGE_BYTES];
        let before = check_of(crc_of(&bytes));
        for bit in 0..PAGE_BYTES * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(check_of(crc_of(&bytes)), before, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
