//! The eight workloads, as the paper's table has them.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use aquifer_bench::rng::Rng;

/// Sizes of objects, all equally likely.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Smallest, in bytes.
    pub min: u32,
    /// Largest, in bytes.
    pub max: u32,
}

impl Sizes {
    /// One of them.
    pub fn pick(self, rng: &mut Rng) -> u32 {
        self.min + rng.below(u64::from(self.max - self.min) + 1) as u32
    }
}

/// One of the eight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize, Deserialize)]
#[value(rename_all = "UPPER")]
#[allow(missing_docs, reason = "the paper gives them numbers, not names")]
pub enum Workload {
    W1,
    W2,
    W3,
    W4,
    W5,
    W6,
    W7,
    W8,
}

/// What a workload does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Definition {
    /// Sizes in the first phase.
    pub before: Sizes,
    /// Share of the objects that is deleted then.
    pub deleted_percent: u64,
    /// Sizes in the second phase, if there is one.
    pub after: Option<Sizes>,
}

const fn sizes(min: u32, max: u32) -> Sizes {
    Sizes { min, max }
}

impl Workload {
    /// What it does.
    pub fn definition(self) -> Definition {
        let (before, deleted_percent, after) = match self {
            Self::W1 => (sizes(100, 100), 0, None),
            Self::W2 => (sizes(100, 100), 0, Some(sizes(130, 130))),
            Self::W3 => (sizes(100, 100), 90, Some(sizes(130, 130))),
            Self::W4 => (sizes(100, 150), 0, Some(sizes(200, 250))),
            Self::W5 => (sizes(100, 150), 90, Some(sizes(200, 250))),
            Self::W6 => (sizes(100, 200), 50, Some(sizes(1000, 2000))),
            Self::W7 => (sizes(1000, 2000), 90, Some(sizes(1500, 2500))),
            Self::W8 => (sizes(50, 150), 90, Some(sizes(5000, 15_000))),
        };
        Definition { before, deleted_percent, after }
    }

    /// The smallest object of it, in bytes.
    pub fn size_min(self) -> u32 {
        self.definition().before.min
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_reach_both_ends_and_the_middle() {
        let (mut rng, sizes) = (Rng::new(1), sizes(5, 7));
        let mut seen = [0; 8];
        (0..1000).for_each(|_| seen[sizes.pick(&mut rng) as usize] += 1);
        assert!(seen[..5] == [0; 5] && seen[5..].iter().all(|&n| n > 250), "{seen:?}");
    }

    #[test]
    fn the_first_objects_are_the_smallest() {
        for workload in Workload::value_variants() {
            let Definition { before, after, .. } = workload.definition();
            assert!(after.is_none_or(|after| after.min >= before.min) && workload.size_min() == before.min);
        }
    }
}
