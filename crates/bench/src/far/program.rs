//! The programs that run.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A program that keeps its data in ordinary memory and knows nothing of what lies below.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// memcached, 95 % gets and 5 % sets
    Etc,
    /// memcached, 75 % gets and 25 % sets
    Sys,
    /// SQLite's database in memory, orders and payments
    Tpcc,
    /// Ranks of a graph in memory
    Pagerank,
    /// Records grouped by key: partitioned, then sorted
    Shuffle,
}

impl Program {
    /// Whether it is memcached, with clients.
    pub fn is_cache(self) -> bool {
        matches!(self, Self::Etc | Self::Sys)
    }

    /// What it does so many of in a second.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Etc | Self::Sys => "requests/s",
            Self::Tpcc => "transactions/s",
            Self::Pagerank => "edges/s",
            Self::Shuffle => "records/s",
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Etc => "etc",
            Self::Sys => "sys",
            Self::Tpcc => "tpcc",
            Self::Pagerank => "pagerank",
            Self::Shuffle => "shuffle",
        })
    }
}
