//! Where bytes of a partition are.

use aquifer_base::limits::{LOG_GRAIN_BYTES, PARTITION_BYTES};

/// Grains of a partition.
pub const GRAINS: usize = PARTITION_BYTES / LOG_GRAIN_BYTES;
/// No log has bytes of objects before this grain.
pub const FIRST_GRAIN: u64 = 3;

/// Where bytes of a partition are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Nowhere: nothing is allocated there.
    Hole,
    /// They were allocated and never written: all zeros.
    Zeros,
    /// In the log from this grain of it on, which is [`FIRST_GRAIN`] at least.
    Log(u64),
}

impl Source {
    /// As a word: 0 for a hole, 1 for zeros, else the grain of the log.
    #[inline]
    pub const fn word(self) -> u64 {
        match self {
            Self::Hole => HOLE,
            Self::Zeros => 1,
            Self::Log(grain) => grain,
        }
    }

    /// The source of a word.
    #[inline]
    pub const fn from_word(word: u64) -> Self {
        match word {
            HOLE => Self::Hole,
            1 => Self::Zeros,
            grain => Self::Log(grain),
        }
    }

    /// The source of what lies `grains` further on.
    #[inline]
    pub const fn plus(self, grains: usize) -> Self {
        Self::from_word(plus(self.word(), grains))
    }
}

/// The word of a hole.
pub(super) const HOLE: u64 = 0;

/// The word of the source `grains` further on.
#[inline]
pub(super) const fn plus(word: u64, grains: usize) -> u64 {
    // What a racing reader has read may be anything.
    if word > 1 { word.wrapping_add(grains as u64) } else { word }
}
