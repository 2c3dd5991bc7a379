//! SQLite, as the distribution has it: loaded at run time, and loads for its databases.
//!
//! | file | noun |
//! |---|---|
//! | `abi`, `connection` | the part of SQLite's interface that is needed |
//! | `load` | TPC-B-like, TATP-like and TPC-C-like transactions |

mod abi;
pub mod connection;
pub mod load;

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

pub use abi::{CACHE_HIT, CACHE_MISS, CACHE_USED};
pub use load::Kind;

/// How a transaction survives a crash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Journal {
    /// New pages are appended to a log, one sync for each commit.
    Wal,
    /// Old pages are saved in a file that the commit deletes, several syncs for each commit.
    Delete,
}

impl fmt::Display for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wal => "wal",
            Self::Delete => "delete",
        })
    }
}
