//! What the loads draw: NURand, the non-uniform random numbers of TPC-C (revision 5.11, clause 2.1.6), and text.

use crate::rng::{Rng, mix};

/// A of item numbers.
pub const ITEMS: u64 = 8191;
/// A of customer numbers.
pub const CUSTOMERS: u64 = 1023;
/// A of last names.
pub const LAST_NAMES: u64 = 255;

/// The standard's C, one for each A; any constants do.
#[derive(Clone, Copy, Debug)]
pub struct NuRand {
    c: u64,
}

impl NuRand {
    /// With constants that follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { c: mix(seed) }
    }

    /// A number from `least` to `most`: (((random(0, a) | random(least, most)) + C) % (most - least + 1)) + least.
    pub fn pick(self, rng: &mut Rng, a: u64, least: u64, most: u64) -> u64 {
        let either = rng.below(a + 1) | between(rng, least, most);
        (either + self.c % (a + 1)) % (most - least + 1) + least
    }
}

/// A number from `least` to `most`, each as often.
pub fn between(rng: &mut Rng, least: u64, most: u64) -> u64 {
    least + rng.below(most - least + 1)
}

const POOL_BYTES: usize = 64 << 10;
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-.";

/// Letters of which pieces are taken: text that no device can compress much, made without a random number for each letter.
pub struct Pool(String);

impl Pool {
    /// The letters that `seed` decides.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        Self((0..POOL_BYTES).map(|_| char::from(LETTERS[rng.below(64) as usize])).collect())
    }

    /// `length` letters from anywhere in it.
    pub fn take(&self, rng: &mut Rng, length: u64) -> &str {
        let start = rng.below(POOL_BYTES as u64 - length) as usize;
        &self.0[start..start + length as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_their_range_and_some_are_much_more_frequent() {
        let (mut rng, nurand) = (Rng::new(7), NuRand::new(7));
        for (a, least, most) in [(LAST_NAMES, 0, 999), (CUSTOMERS, 1, 3000), (ITEMS, 1, 100_000)] {
            let mut counts = vec![0_u64; most as usize + 1];
            for _ in 0..10 * most {
                counts[nurand.pick(&mut rng, a, least, most) as usize] += 1;
            }
            assert_eq!(counts[..least as usize].iter().sum::<u64>(), 0);
            let mut counts = counts.split_off(least as usize);
            counts.sort_unstable();
            let top_tenth: u64 = counts.iter().rev().take(counts.len() / 10).sum();
            // Uniform numbers would give a tenth.
            let share = top_tenth as f64 / (10 * most) as f64;
            assert!((0.3..0.9).contains(&share), "{a}: {share}");
            assert!(counts.iter().filter(|&&count| count > 0).count() * 2 > counts.len());
        }
    }
}
