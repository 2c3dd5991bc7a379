//! Text that no device can compress much, made without a random number for each letter.

use crate::rng::Rng;

const POOL_BYTES: usize = 64 << 10;
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-.";

/// Letters of which pieces are taken.
pub struct Pool(String);

impl Pool {
    /// One that `seed` decides.
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
