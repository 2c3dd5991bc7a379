//! Where home addresses are in the file, and the bits that tell which slots are allocated.
//!
//! ```text
//! | area 0, 16 MiB | its bits, 512 KiB | area 1 | its bits | ...
//! ```
//!
//! There is a bit for each grain; that of an object's first grain is set. For the journal the bits have home addresses too, behind
//! those of objects.

use aquifer_base::HomeAddress;
use aquifer_base::limits::LOG_GRAIN_BYTES;

use crate::homes::AREA_BYTES;

/// Bytes of an area's bits.
const BITS_BYTES: u64 = AREA_BYTES / LOG_GRAIN_BYTES as u64 / 8;
/// Bytes of an area and its bits.
const STRIDE_BYTES: u64 = AREA_BYTES + BITS_BYTES;
/// Home addresses from here on are those of bits.
const BITS: u64 = 1 << 37;
/// Objects are below.
pub(super) const OBJECTS_END: u64 = BITS / STRIDE_BYTES * AREA_BYTES;
/// Grains that share a word of bits.
const GRAINS_PER_WORD: u64 = 32;

/// The bit of a slot: the home address of its word, and which one it is.
pub(super) fn bit_of(home: HomeAddress) -> (HomeAddress, u32) {
    let grain = home.0 / LOG_GRAIN_BYTES as u64;
    let word = HomeAddress(BITS + grain / GRAINS_PER_WORD * 4);
    (word, 1 << (grain % GRAINS_PER_WORD))
}

/// Where a home address is in the file.
#[inline]
pub(super) fn offset_of(home: HomeAddress) -> u64 {
    match home.0.checked_sub(BITS) {
        None => home.0 / AREA_BYTES * STRIDE_BYTES + home.0 % AREA_BYTES,
        Some(byte) => byte / BITS_BYTES * STRIDE_BYTES + AREA_BYTES + byte % BITS_BYTES,
    }
}

/// The runs of the file that have `len` bytes of home space: how far each is from `home`, where it is, how long it is.
pub(super) fn runs(home: HomeAddress, len: usize) -> impl Iterator<Item = (usize, u64, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let left = len.checked_sub(done).filter(|&left| left > 0)?;
        let (home, at) = (home.plus_bytes(done as u64), done);
        // Bits of one area are a divisor of an area.
        let run = left.min((BITS_BYTES - home.0 % BITS_BYTES) as usize);
        done += run;
        Some((at, offset_of(home), run))
    })
}

/// Length of a file with `areas` areas.
pub(super) fn file_bytes(areas: u32) -> u64 {
    u64::from(areas) * STRIDE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps() {
        for area in [0, 1, 77] {
            let start = file_bytes(area);
            let first = HomeAddress(u64::from(area) * AREA_BYTES);
            let last = first.plus_bytes(AREA_BYTES - 4);
            assert_eq!((offset_of(first), offset_of(last)), (start, start + AREA_BYTES - 4));
            let (bits, bit) = bit_of(first);
            assert_eq!((offset_of(bits), bit), (start + AREA_BYTES, 1));
            let (bits, bit) = bit_of(last);
            assert_eq!((offset_of(bits), bit), (file_bytes(area + 1) - 4, 1 << 31));
        }
    }
}
