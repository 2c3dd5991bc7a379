//! Which page an access goes to.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::distribution::{Distribution, Picker, ZIPF_EXPONENT, Zipf};
use crate::rng::Rng;

/// How accesses are spread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Every page equally often.
    Uniform,
    /// Zipf with exponent 0.99, the ranks scattered over the file: hot pages have cold neighbours.
    Zipf,
    /// The same with the ranks in the order of the file: hot pages have hot neighbours.
    ZipfNear,
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
            Self::ZipfNear => "zipf-near",
        })
    }
}

/// Draws pages.
#[derive(Clone, Copy, Debug)]
pub enum Pages {
    /// By one of the distributions that all benchmarks have.
    Spread(Picker),
    /// By rank.
    Near(Zipf),
}

impl Pages {
    /// Pages from 0 to `count - 1`.
    pub fn new(pattern: Pattern, count: u64) -> Self {
        match pattern {
            Pattern::Uniform => Self::Spread(Picker::new(Distribution::Uniform, count)),
            Pattern::Zipf => Self::Spread(Picker::new(Distribution::Zipf, count)),
            Pattern::ZipfNear => Self::Near(Zipf::new(ZIPF_EXPONENT, count)),
        }
    }

    /// The next page.
    pub fn pick(&mut self, rng: &mut Rng) -> u64 {
        match self {
            Self::Spread(picker) => picker.pick(rng),
            Self::Near(zipf) => zipf.rank(rng),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_hot_pages_are_hot_only_where_they_should_be() {
        let share = |pattern| {
            let (mut pages, mut rng) = (Pages::new(pattern, 100_000), Rng::new(1));
            (0..10_000).filter(|_| pages.pick(&mut rng) < 1000).count()
        };
        assert!(share(Pattern::ZipfNear) > 5000);
        assert!(share(Pattern::Zipf) < 2000 && share(Pattern::Uniform) < 200);
    }
}
