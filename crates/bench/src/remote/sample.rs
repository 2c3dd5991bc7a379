//! Lines of results.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::machine::Context;

/// How both sides wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Waiting {
    /// They look all the time.
    Spinning,
    /// They sleep.
    Blocking,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Waiting::Spinning => "spinning",
            Waiting::Blocking => "blocking",
        })
    }
}

/// One peer in one run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Remote {
    /// Who.
    pub peer: String,
    /// How they waited.
    pub waiting: Waiting,
    /// Number of the run, from 1.
    pub run: u32,
    /// Microseconds of a read of 4 KiB.
    pub read_us: f64,
    /// MiB a second that were written in pieces of 128 KiB.
    pub fill_mib_s: f64,
    /// Machine and command.
    pub context: Context,
}
