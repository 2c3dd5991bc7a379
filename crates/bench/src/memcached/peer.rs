//! The servers that are compared.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A way to give memcached more data than RAM.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// memcached as it is, under kernel swap
    Swap,
    /// memcached with each item as an object of the heap
    Aquifer,
    /// memcached as it is, under `aquifer run`
    Pages,
    /// memcached as the distribution ships it, with extstore
    Extstore,
}

impl Peer {
    /// Whether it stays within its RAM only because a control group makes it: extstore reads and
    /// writes its file through the kernel's page cache.
    pub fn needs_cgroup(self) -> bool {
        matches!(self, Self::Swap | Self::Extstore)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Swap => "swap",
            Self::Aquifer => "aquifer",
            Self::Pages => "pages",
            Self::Extstore => "extstore",
        })
    }
}
