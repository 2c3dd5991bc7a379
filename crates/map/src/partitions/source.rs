//! Where bytes of a partition are.

use aquifer_base::limits::{LOG_GRAIN_BYTES, PARTITION_BYTES};

/// Grains of a partition.
pub const GRAINS: usize = PARTITION_BYTES / LOG_GRAIN_BYTES;

/// Where bytes of a partition are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Nowhere: nothing is allocated there.
    Hole,
    /// They were allocated and never written: all zeros.
    Zeros,
    /// In the log from this grain of it on, which is larger than 1.
    Log(u32),
}

impl Source {
    /// As a word: 0 for a hole, 1 for zeros, else the grain of the log.
    #[inline]
    pub const fn word(self) -> u32 {
        match self {
            Self::Hole => HOLE,
            Self::Zeros => 1,
            Self::Log(grain) => grain,
        }
    }

    /// The source of a word.
    #[inline]
    pub const fn from_word(word: u32) -> Self {
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
pub(super) const HOLE: u32 = 0;

/// The word of the source `grains` further on.
#[inline]
pub(super) const fn plus(word: u32, grains: usize) -> u32 {
    // What a racing reader has read may be anything.
    if word > 1 { word.wrapping_add(grains as u32) } else { word }
}
