//! Which leaves are written.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use crate::rng::Rng;

/// Which leaves are written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub enum Spread {
    /// One after the other.
    #[serde(rename = "in a row")]
    Together,
    /// At random.
    #[serde(rename = "at random")]
    Apart,
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Together => "in a row",
            Self::Apart => "at random",
        })
    }
}

impl Spread {
    /// Numbers of `count` of the `all` leaves that a file could have.
    pub fn leaves(self, all: u64, count: u64) -> Vec<u64> {
        let first = all / 3;
        match self {
            Self::Together => (first..first + count).collect(),
            Self::Apart => {
                let (mut leaves, mut rng) = (BTreeSet::new(), Rng::new(all));
                while (leaves.len() as u64) < count {
                    leaves.insert(rng.below(all));
                }
                leaves.into_iter().collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_different_leaves_as_asked_for() {
        for spread in [Spread::Together, Spread::Apart] {
            let leaves: BTreeSet<u64> = spread.leaves(1000, 64).into_iter().collect();
            assert_eq!(leaves.len(), 64);
            assert!(leaves.iter().all(|&leaf| leaf < 1000));
        }
        assert_ne!(Spread::Apart.leaves(1000, 64), Spread::Together.leaves(1000, 64));
    }
}
