//! The extents of one partition: a sorted array, six bytes each.
//!
//! ```text
//! block of the arena:  address u32 x capacity | start u16 x capacity
//! ```
//!
//! An extent begins at its start, a grain within the partition, and ends where the next one begins or the partition ends. Its
//! bytes lie in the log from its address on, side by side. No two neighbours could be one.

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
            Self::Log(grain) => Self::Log(grain + grains as u32),
            other => other,
        }
    }
}

/// Extents spread out for a change.
#[derive(Default)]
pub(super) struct Extents {
    starts: Vec<u16>,
    words: Vec<u32>,
}

impl Extents {
    pub(super) fn clear(&mut self) {
        self.starts.clear();
        self.words.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, u32)> + '_ {
        self.starts.iter().copied().zip(self.words.iter().copied())
    }

    /// Adds an extent behind the others, which goes on where they end; merges it with the last one if it can.
    pub(super) fn push(&mut self, start: usize, source: Source) {
        let before = match (self.starts.last(), self.words.last()) {
            (Some(&start), Some(&word)) => (usize::from(start), Source::from_word(word)),
            _ => (0, Source::Hole),
        };
        if before.1.plus(start - before.0) != source {
            self.starts.push(start as u16);
            self.words.push(source.word());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_in_the_log_are_one_extent() {
        let mut extents = Extents::default();
        extents.push(0, Source::Hole);
        extents.push(4, Source::Log(100));
        extents.push(8, Source::Log(104));
        extents.push(9, Source::Zeros);
        extents.push(12, Source::Zeros);
        extents.push(13, Source::Log(109));
        assert_eq!(extents.iter().collect::<Vec<_>>(), [(4, 100), (9, 1), (13, 109)]);
    }
}
