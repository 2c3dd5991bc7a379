//! CRC32C, chained and seeded.

/// The CRC32C of `bytes`, continued from `seed`.
///
/// The seed ties bytes to the place they were written for: the log passes the segment's
/// generation, so that a record left over from an earlier life of the segment does not verify.
pub fn crc32c_seeded(seed: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(seed, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_published_check_value() {
        assert_eq!(crc32c_seeded(0, b"123456789"), 0xE306_9283);
    }

    #[test]
    fn depends_on_the_seed() {
        assert_ne!(crc32c_seeded(1, b"abc"), crc32c_seeded(2, b"abc"));
    }
}
