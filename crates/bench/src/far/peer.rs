//! Where the memory is that is not local.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::program::Program;

/// What lies below the RAM of a program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// Nothing: everything is in RAM, without a limit
    Local,
    /// A swap file on a disk
    Swap,
    /// The same with compressed RAM in front of it
    Zswap,
    /// `aquifer run` with two donors
    Donors,
    /// The same, with memory that the program maps
    Shared,
    /// Swap on `aquifer block` with two donors
    BlockSwap,
    /// The same, with memory that the block device maps
    BlockShared,
    /// A Redis server that the clients of memcached ask for the keys that do not fit
    Redis,
}

impl Peer {
    /// Whether the kernel swaps.
    pub fn swaps(self) -> bool {
        matches!(self, Self::Swap | Self::Zswap | Self::BlockSwap | Self::BlockShared)
    }

    /// Whether a server of its own reads and writes for the kernel.
    pub fn is_block(self) -> bool {
        matches!(self, Self::BlockSwap | Self::BlockShared)
    }

    /// Whether `aquifer run` is told of donors.
    pub fn is_run(self) -> bool {
        matches!(self, Self::Donors | Self::Shared)
    }

    /// Whether the program can be given it: only clients of memcached can ask somebody else.
    pub fn serves(self, program: Program) -> bool {
        self != Self::Redis || program.is_cache()
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Local => "local",
            Self::Swap => "swap",
            Self::Zswap => "zswap",
            Self::Donors => "donors",
            Self::Shared => "shared",
            Self::BlockSwap => "block-swap",
            Self::BlockShared => "block-shared",
            Self::Redis => "redis",
        })
    }
}
