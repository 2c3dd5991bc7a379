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
    /// As stored.
    pub(super) const fn word(self) -> u32 {
        match self {
            Self::Hole => 0,
            Self::Zeros => 1,
            Self::Log(grain) => grain,
        }
    }

    pub(super) const fn from_word(word: u32) -> Self {
        match word {
            0 => Self::Hole,
            1 => Self::Zeros,
            grain => Self::Log(grain),
        }
    }

    /// The source of what lies `grains` further on.
    pub const fn plus(self, grains: usize) -> Self {
        match self {
            // What a racing reader has read may be anything.
            Self::Log(grain) => Self::Log(grain.wrapping_add(grains as u32)),
            other => other,
        }
    }
}
