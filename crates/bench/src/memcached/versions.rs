//! Which version of each key the server may answer with.
//!
//! A key has at most one set on its way. A get may then answer with any version from the one that
//! was acknowledged before it was sent to the one that was on its way when its reply came: nothing
//! older, nothing newer.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};

/// One word for each key: the acknowledged version, and in the lowest bit whether a set of the next
/// one is on its way. Version 0: never set.
#[derive(Debug)]
pub struct Versions(Vec<AtomicU32>);

const ON_ITS_WAY: u32 = 1;

impl Versions {
    /// `count` keys that were never set.
    pub fn new(count: u64) -> Self {
        Self((0..count).map(|_| AtomicU32::new(0)).collect())
    }

    /// The version to set; none while another set of `key` is on its way.
    pub fn begin_set(&self, key: u64) -> Option<u32> {
        let word = self.word(key).load(Ordering::Acquire);
        let marked = word | ON_ITS_WAY;
        let begun = word != marked
            && self.word(key).compare_exchange(word, marked, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        begun.then_some((word >> 1) + 1)
    }

    /// The set was acknowledged.
    pub fn stored(&self, key: u64, version: u32) {
        self.word(key).store(version << 1, Ordering::Release);
    }

    /// The set was refused; its version can come again.
    pub fn refused(&self, key: u64) {
        self.word(key).fetch_and(!ON_ITS_WAY, Ordering::AcqRel);
    }

    /// The oldest version that a get sent now may answer with; 0 if the key need not be there.
    pub fn oldest(&self, key: u64) -> u32 {
        self.word(key).load(Ordering::Acquire) >> 1
    }

    /// What a get may have answered with whose [`Versions::oldest`] was `oldest`, now that its
    /// reply is here.
    pub fn possible(&self, key: u64, oldest: u32) -> RangeInclusive<u32> {
        let word = self.word(key).load(Ordering::Acquire);
        oldest.max(1)..=(word >> 1) + (word & ON_ITS_WAY)
    }

    fn word(&self, key: u64) -> &AtomicU32 {
        &self.0[key as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_set_at_a_time() {
        let versions = Versions::new(2);
        assert_eq!(versions.begin_set(1), Some(1));
        assert_eq!(versions.begin_set(1), None);
        versions.stored(1, 1);
        assert_eq!(versions.begin_set(1), Some(2));
        versions.refused(1);
        assert_eq!((versions.begin_set(1), versions.oldest(1), versions.oldest(0)), (Some(2), 1, 0));
    }

    #[test]
    fn a_get_sees_what_was_there_or_on_its_way() {
        let versions = Versions::new(1);
        assert!(versions.possible(0, versions.oldest(0)).is_empty());
        versions.begin_set(0);
        let oldest = versions.oldest(0);
        assert_eq!(versions.possible(0, oldest), 1..=1);
        versions.stored(0, 1);
        let before = versions.oldest(0);
        versions.begin_set(0);
        assert_eq!(versions.possible(0, before), 1..=2);
        versions.stored(0, 2);
        assert_eq!(versions.possible(0, before), 1..=2);
        assert_eq!(versions.possible(0, versions.oldest(0)), 2..=2);
    }
}
