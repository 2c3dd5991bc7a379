//! An entry of a block, for as long as recovery does not know whether it is the newest of its place. There is one for each entry of the log, whatever its
//! length.

use std::ops::Range;

use aquifer_base::limits::{HOME_BITS, LOG_GRAIN_BYTES};
use aquifer_map::partitions::{GRAINS, Source};

use crate::chunk::VERSION_MAX;

/// Bits of a version.
const VERSION_BITS: u32 = VERSION_MAX.ilog2() + 1;
/// Bits of the first grain that stand beside the version.
const HIGH_BITS: u32 = u64::BITS - VERSION_BITS;
/// The others.
const LOW_BITS: u32 = HOME_GRAIN_BITS - HIGH_BITS;
/// Bits of a grain of home space.
const HOME_GRAIN_BITS: u32 = HOME_BITS - LOG_GRAIN_BYTES.trailing_zeros();

/// In 20 bytes: there can be hundreds of millions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Found {
    /// The version, and above it the high bits of the first grain.
    words: [u32; 2],
    /// The others, and above them the high bits of the source.
    low: u32,
    grains: u32,
    source: u32,
}

impl Found {
    /// What a transaction with this version did to some grains from `start` on.
    pub(super) fn new(version: u64, start: u64, grains: u32, source: Source) -> Self {
        debug_assert!(version >> VERSION_BITS == 0 && start >> HOME_GRAIN_BITS == 0);
        let word = version | start >> LOW_BITS << VERSION_BITS;
        let source = source.word();
        let low = (start & ((1 << LOW_BITS) - 1)) as u32 | ((source >> 32) as u32) << LOW_BITS;
        Self { words: [word as u32, (word >> 32) as u32], low, grains, source: source as u32 }
    }

    fn word(&self) -> u64 {
        u64::from(self.words[0]) | u64::from(self.words[1]) << 32
    }

    pub(super) fn version(&self) -> u64 {
        self.word() & ((1 << VERSION_BITS) - 1)
    }

    /// Its first grain.
    pub(super) fn start(&self) -> u64 {
        self.word() >> VERSION_BITS << LOW_BITS | u64::from(self.low & ((1 << LOW_BITS) - 1))
    }

    /// The grain behind it.
    pub(super) fn end(&self) -> u64 {
        self.start() + u64::from(self.grains)
    }

    /// The partitions that it is in.
    pub(super) fn partitions(&self) -> Range<u64> {
        self.start() / GRAINS as u64..self.end().div_ceil(GRAINS as u64)
    }

    /// What is in its grain `start` and behind.
    pub(super) fn source_from(&self, start: u64) -> Source {
        let word = u64::from(self.source) | u64::from(self.low >> LOW_BITS) << 32;
        Source::from_word(word).plus((start - self.start()) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_told_as_it_was_said() {
        let last = (1 << HOME_GRAIN_BITS) - 1;
        for (version, start, grains) in
            [(0, 0, 1), (VERSION_MAX, last, 1), (5, 1 << LOW_BITS, u32::MAX), (VERSION_MAX - 1, 1023, 2)]
        {
            let found = Found::new(version, start, grains, Source::Log(77 << 33));
            assert_eq!((found.version(), found.start()), (version, start));
            assert_eq!(found.end(), start + u64::from(grains));
            assert_eq!(found.source_from(start), Source::Log(77 << 33));
        }
        let found = Found::new(1, 1023, 2, Source::Log(77));
        assert_eq!((found.partitions(), found.source_from(1024)), (0..2, Source::Log(78)));
        assert_eq!(Found::new(1, 1024, 1024, Source::Zeros).partitions(), 1..2);
        assert_eq!(size_of::<Found>(), 20);
    }
}
