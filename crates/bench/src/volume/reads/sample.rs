//! Lines of results.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::super::meter::Cost;
use super::super::study::Run;

/// Which words are read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Of a page that is drawn uniformly
    Uniform,
    /// Of a page that is drawn by Zipf's law
    Zipf,
    /// All in order
    Scan,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
            Self::Scan => "scan",
        })
    }
}

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// Which words are read.
    pub access: Access,
    /// By how many threads.
    pub threads: u32,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.access, self.threads)
    }
}

/// One run of one peer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Reads {
    /// What was read how.
    #[serde(flatten)]
    pub cell: Cell,
    /// Words of 8 bytes that were read in the measured time; of the device, blocks when the access is random.
    pub ops: u64,
    /// In a second.
    pub ops_per_s: f64,
    /// Seconds before the measured time.
    pub warmup_s: f64,
    /// What it took; none of fio's.
    pub cost: Option<Cost>,
    /// Who, and with what.
    #[serde(flatten)]
    pub run: Run,
}

impl Reads {
    /// Processor time of one read.
    pub fn cpu_ns(&self) -> Option<f64> {
        self.cost.map(|cost| Cost::each(cost.usage.cpu_ns(), self.ops))
    }

    /// One line for the person who waits.
    pub fn summary(&self) -> String {
        format!(
            "{:15} {} run {}: {:>12.0}/s{}",
            self.run.setup.peer.to_string(),
            self.cell,
            self.run.run,
            self.ops_per_s,
            self.cpu_ns().map_or(String::new(), |ns| format!(", {:.2} us CPU each", ns / 1e3)),
        )
    }
}
