//! Which words of a persist that was under way have landed when the machine crashes.

use crate::machine::mix;

/// A choice of words.
#[derive(Clone, Copy, Debug)]
pub enum Landing {
    /// Chosen by this number: all, none, the first ones, the last ones, one, all but one, or a random half.
    Seed(u64),
    /// Bit *n* is word *n*.
    Mask(u64),
}

impl Landing {
    /// The choice for one of several persists.
    pub fn of(self, persist: u64) -> Self {
        match self {
            Self::Seed(seed) => Self::Seed(mix(seed ^ persist << 40)),
            Self::Mask(_) => self,
        }
    }

    /// For what else has to be chosen.
    pub fn seed(self) -> u64 {
        match self {
            Self::Seed(number) | Self::Mask(number) => mix(number),
        }
    }

    /// Whether word `word` of `words` lands.
    pub fn lands(self, word: u64, words: u64) -> bool {
        let seed = match self {
            Self::Mask(mask) => return word < 64 && mask >> word & 1 == 1,
            Self::Seed(seed) => seed,
        };
        let one = mix(seed + 1) % words;
        match mix(seed) % 7 {
            0 => true,
            1 => false,
            2 => word < one,
            3 => word >= one,
            4 => word == one,
            5 => word != one,
            _ => mix(seed ^ word << 20) & 1 == 1,
        }
    }
}
