//! Which pages are accessed, and how fast their flash is.

use std::fmt;
use std::str::FromStr;

use aquifer_device::nand::Timing;
use clap::ValueEnum;
use serde::{Serialize, Serializer};

use aquifer_bench::distribution::{Distribution, Picker, ZIPF_EXPONENT, Zipf};
use aquifer_bench::rng::Rng;

/// How accesses are spread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Pattern {
    /// Every page equally often.
    Uniform,
    /// Zipf with exponent 0.99, the ranks scattered over the file: hot pages have cold neighbours.
    Zipf,
    /// The same with the ranks in the order of the file: hot pages have hot neighbours.
    ZipfNear,
}

/// Which pages are accessed, and how many of the accesses read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// Which.
    pub pattern: Pattern,
    /// The others store 8 bytes, and sync every so often.
    pub read_percent: u32,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pattern = self.pattern.to_possible_value().expect("none is hidden");
        write!(f, "{}:{}", pattern.get_name(), self.read_percent)
    }
}

impl Serialize for Load {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Load {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || format!("'{text}' is no load; write one as uniform:100 or zipf:90");
        let (pattern, percent) = text.split_once(':').ok_or_else(malformed)?;
        let read_percent = percent.parse().ok().filter(|percent| *percent <= 100).ok_or_else(malformed)?;
        let pattern = Pattern::from_str(pattern, false).map_err(|_| malformed())?;
        Ok(Load { pattern, read_percent })
    }
}

/// How fast the flash is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ValueEnum)]
pub enum Speed {
    /// It takes no time: what is left is software
    #[serde(rename = "none")]
    None,
    /// Reads 10 us, programs 30 us, erases 1 ms, channels with 3.2 GB/s
    #[serde(rename = "10 us")]
    Fast,
    /// Reads 40 us, programs 200 us, erases 2 ms, channels with 800 MB/s
    #[serde(rename = "40 us")]
    Common,
}

impl Speed {
    /// What the flash is told.
    pub fn timing(self) -> Timing {
        match self {
            Self::None => Timing::NONE,
            Self::Fast => Timing {
                read_ns: 10_000,
                program_ns: 30_000,
                erase_ns: 1_000_000,
                bus_bytes_per_s: 3_200_000_000,
            },
            Self::Common => Timing::COMMON,
        }
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
    fn loads_are_written_as_they_are_read() {
        for text in ["uniform:100", "zipf:90", "zipf-near:0"] {
            assert_eq!(text.parse::<Load>().expect("a load").to_string(), text);
        }
        for text in ["uniform", "uniform:101", "unicorn:100", "zipf:-1"] {
            assert!(text.parse::<Load>().is_err(), "{text}");
        }
    }

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
