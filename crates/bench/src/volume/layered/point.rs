//! What is measured: how much data for the RAM, on which flash, with which accesses, by how many threads.

use std::fmt;
use std::str::FromStr;

use aquifer_device::nand::Timing;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::pattern::Pattern;

/// How fast the flash is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Speed {
    /// It takes no time: what is left is software.
    None,
    /// Reads 10 us, programs 30 us, erases 1 ms, channels with 3.2 GB/s.
    Fast,
    /// Reads 40 us, programs 200 us, erases 2 ms, channels with 800 MB/s.
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

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Fast => "10 us",
            Self::Common => "40 us",
        })
    }
}

/// Which pages are accessed, and how many of the accesses read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Load {
    /// Which.
    pub pattern: Pattern,
    /// The others store 8 bytes, and sync every so often.
    pub read_percent: u32,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.pattern, self.read_percent)
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

/// One row of the result.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Data by RAM.
    pub ratio: u64,
    /// How fast the flash is.
    pub speed: Speed,
    /// Accesses.
    pub load: Load,
    /// Who makes them.
    pub threads: u32,
}

impl Point {
    /// The whole budget of a stack.
    pub fn ram_bytes(&self, data_bytes: u64) -> u64 {
        data_bytes / self.ratio
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ratio, speed, load, threads } = self;
        write!(f, "data:RAM {ratio}, flash {speed}, {load}, {threads} threads")
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
}
