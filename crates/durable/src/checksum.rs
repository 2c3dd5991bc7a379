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

/// The polynomial of CRC32C, its bits reversed.
const POLYNOMIAL: u32 = 0x82F6_3B78;
/// The polynomial 1 in that order of bits.
const ONE: u32 = 1 << 31;
/// Bytes between the places that [`Sums`] keeps.
const STEP_BYTES: usize = 8;
/// Powers of one table.
const POWERS: usize = 1 << 11;

/// The product of two polynomials, modulo that of the checksum.
fn product(mut a: u32, mut b: u32) -> u32 {
    let mut sum = 0;
    while a != 0 {
        if a & ONE != 0 {
            sum ^= b;
        }
        a <<= 1;
        b = if b & 1 == 0 { b >> 1 } else { b >> 1 ^ POLYNOMIAL };
    }
    sum
}

/// Checksums of any part of some bytes, each in the same time however long it is: from those of the bytes before its ends.
pub(crate) struct Sums<'a> {
    bytes: &'a [u8],
    /// Of the bytes before each multiple of [`STEP_BYTES`].
    before: Vec<u32>,
    /// At `n`, what moves a checksum over `n` steps, and over `n` times [`POWERS`] steps.
    few: Vec<u32>,
    many: Vec<u32>,
}

impl<'a> Sums<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let mut before = Vec::with_capacity(bytes.len() / STEP_BYTES + 1);
        before.push(0);
        for step in bytes.chunks_exact(STEP_BYTES) {
            before.push(crc32c(before[before.len() - 1], step));
        }
        // The polynomials x, x^2, x^4, ... x^64: eight bytes.
        let step = (0..6).fold(ONE >> 1, |power, _| product(power, power));
        let powers = |of: u32, count: usize| {
            let next = |&power: &u32| Some(product(power, of));
            std::iter::successors(Some(ONE), next).take(count).collect::<Vec<_>>()
        };
        let few = powers(step, POWERS);
        let many = powers(product(few[POWERS - 1], step), before.len() / POWERS + 1);
        Self { bytes, before, few, many }
    }

    /// As [`crc32c`] of the bytes from `start` to `end`.
    pub(crate) fn crc32c(&self, seed: u32, start: usize, end: usize) -> u32 {
        let up_to = |at: usize| {
            let step = at / STEP_BYTES;
            crc32c(self.before[step], &self.bytes[step * STEP_BYTES..at])
        };
        let (steps, rest) = ((end - start) / STEP_BYTES, (end - start) % STEP_BYTES);
        let moved = product(self.few[steps % POWERS], seed ^ up_to(start));
        let moved = product(self.many[steps / POWERS], moved);
        // Over the rest as if it were zeros: a checksum of bytes is the exclusive or of what they and the seed give.
        let rest = &[0; STEP_BYTES][..rest];
        crc32c(moved, rest) ^ crc32c(0, rest) ^ up_to(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_bytes() {
        let bytes: Vec<u8> = (0..40_000u32).map(|n| ((n * n) >> 3) as u8).collect();
        let sums = Sums::new(&bytes);
        let ends = [0, 1, 4, 8, 12, 100, 255, 4096, 16_383, 16_384, 16_388, 32_768, 39_999, 40_000];
        for start in ends {
            for end in ends.into_iter().filter(|&end| end >= start) {
                let expected = crc32c(start as u32 * 77, &bytes[start..end]);
                assert_eq!(sums.crc32c(start as u32 * 77, start, end), expected, "{start} to {end}");
            }
        }
    }

    #[test]
    fn is_the_same_for_short_and_long_runs() {
        let bytes: Vec<u8> = (0..1000u32).map(|n| (n * 7) as u8).collect();
        for len in [0, 1, 7, 8, 44, 255, 256, 257, 1000] {
            assert_eq!(crc32c(5, &bytes[..len]), crc32c_seeded(5, &bytes[..len]), "{len} bytes");
        }
    }
}
