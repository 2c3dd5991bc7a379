//! The checksum of all that the heap writes: CRC32C.

use aquifer_base::checksum::crc32c_seeded;

/// Longer runs are faster with several instructions in flight.
const SHORT_BYTES: usize = 256;

/// The CRC32C of `bytes`, continued from `seed`.
#[inline]
pub(crate) fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    let short = if bytes.len() <= SHORT_BYTES { aquifer_sys::checksum::crc32c(seed, bytes) } else { None };
    short.unwrap_or_else(|| crc32c_seeded(seed, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_same_for_short_and_long_runs() {
        let bytes: Vec<u8> = (0..1000u32).map(|n| (n * 7) as u8).collect();
        for len in [0, 1, 7, 8, 44, 255, 256, 257, 1000] {
            assert_eq!(crc32c(5, &bytes[..len]), crc32c_seeded(5, &bytes[..len]), "{len} bytes");
        }
    }
}
