//! Digests of whole pages.
//!
//! A whole page has one copy in RAM, so nothing is left to compare it with once it may have been written. What is kept instead is a digest of 128
//! bits of the bytes that it was mapped with. Two pages with different bytes have the same digest with a
//! probability of 2^-128, even if an attacker chooses them: the digest begins with a secret number.

use std::hash::{BuildHasher, Hasher, RandomState};

use aquifer_cache::SlotId;
use twox_hash::XxHash3_128;

use super::Residence;

/// How digests of one heap begin.
pub(super) struct Digests {
    seed: u64,
}

impl Digests {
    pub(super) fn new() -> Self {
        Self { seed: RandomState::new().build_hasher().finish() }
    }

    fn of(&self, bytes: &[u8]) -> u128 {
        // Zero says that there is none.
        XxHash3_128::oneshot_with_seed(self.seed, bytes).max(1)
    }
}

impl Residence {
    /// Keeps the digest of a page's bytes, which its slot does not have; or none, if the page counts as written. The caller holds its entry.
    pub(crate) fn note_digest_in_fault(&self, slot: SlotId, bytes: Option<&[u8]>) {
        self.cache.set_digest(slot, bytes.map_or(0, |bytes| self.digests.of(bytes)));
    }

    /// Whether a page is known to have these bytes since it was mapped. The caller holds its entry.
    pub(super) fn has_digest_in_fault(&self, slot: SlotId, bytes: &[u8]) -> Option<bool> {
        let digest = self.cache.digest(slot);
        (digest != 0).then(|| digest == self.digests.of(bytes))
    }
}
