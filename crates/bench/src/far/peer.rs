//! Where the memory is that is not local: what lies below the RAM of a program, made for a run and taken away after it.

use std::fmt;
use std::path::Path;
use std::process::Command;

use clap::ValueEnum;
use serde::Serialize;

use super::block::BlockSwap;
use super::program::Program;
use super::servers::Redis;
use crate::donors::{Donors, flash_bytes};
use crate::error::Result;
use crate::programs::Programs;
use crate::study::name_of;
use crate::swap::SwapArea;
use crate::zswap::Zswap;

/// With less, the kernel writes clean pages again.
const SWAP_FACTOR: u64 = 3;

/// What lies below the RAM of a program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, ValueEnum, Serialize)]
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
    /// The same, each transfer of which takes 3 us at least, as a page over RDMA does
    RdmaLike,
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
        matches!(self, Self::Donors | Self::Shared | Self::RdmaLike)
    }

    /// Whether the program can be given it: only clients of memcached can ask somebody else.
    pub fn serves(self, program: Program) -> bool {
        self != Self::Redis || program.is_cache()
    }

    /// What carries the bytes of the donors.
    fn provider(self) -> &'static [&'static str] {
        match self {
            Self::Shared | Self::BlockShared => &["memory"],
            Self::RdmaLike => &["memory", "--delay", "3us"],
            _ => &["tcp"],
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name_of(self))
    }
}

/// What lies below one run. Undone in the order of the fields: who swaps is gone by then, and nobody ends before those that need it.
#[derive(Debug, Default)]
pub struct Below {
    block: Option<BlockSwap>,
    swap: Option<SwapArea>,
    _zswap: Option<Zswap>,
    donors: Option<Donors>,
    redis: Option<Redis>,
}

impl Below {
    /// Makes what `peer` needs for a program of `peak_bytes`, with files in `dir`.
    ///
    /// # Errors
    /// [`Error::Unavailable`](crate::Error::Unavailable) with what is missing.
    pub fn make(peer: Peer, dir: &Path, peak_bytes: u64) -> Result<Self> {
        let swap_bytes = (SWAP_FACTOR * peak_bytes).next_multiple_of(1 << 20);
        let programs = Programs::find()?;
        let donors = |bytes| Donors::start(programs.aquifer()?, peer.provider(), bytes);
        let mut below = Self::default();
        match peer {
            Peer::Local => {}
            Peer::Swap | Peer::Zswap => {
                below._zswap =
                    if peer == Peer::Zswap { Some(Zswap::switch_on()?) } else { Zswap::switch_off()? };
                below.swap = Some(SwapArea::create(dir, swap_bytes)?);
            }
            Peer::Donors | Peer::Shared | Peer::RdmaLike => {
                below.donors = Some(donors(flash_bytes(peak_bytes))?)
            }
            Peer::BlockSwap | Peer::BlockShared => {
                let donors = below.donors.insert(donors(swap_bytes)?);
                below._zswap = Zswap::switch_off()?;
                below.block = Some(BlockSwap::start(programs.aquifer()?, dir, swap_bytes, &donors.list())?);
            }
            Peer::Redis => below.redis = Some(Redis::start("redis", Redis::command()?, dir, None)?),
        }
        Ok(below)
    }

    /// Size of the swap area, where there is one.
    pub fn swap_bytes(&self) -> Option<u64> {
        let block = self.block.as_ref().map(BlockSwap::bytes);
        block.or_else(|| self.swap.as_ref().map(SwapArea::bytes))
    }

    /// The server that clients are told of.
    pub fn redis(&self) -> Option<&Redis> {
        self.redis.as_ref()
    }

    /// `program` with `given_bytes` of RAM and the donors below it; as it is without donors of its own.
    ///
    /// # Errors
    /// [`Error::Unavailable`](crate::Error::Unavailable) if our command is not there.
    pub fn run(
        &self,
        program: Command,
        given_bytes: Option<u64>,
        dir: &Path,
        peak_bytes: u64,
    ) -> Result<Command> {
        let (Some(given_bytes), Some(donors)) = (given_bytes, &self.donors) else { return Ok(program) };
        let mut command = Command::new(Programs::find()?.aquifer()?);
        command.args(["run", "--ram", &given_bytes.to_string(), "--flash"]).arg(dir);
        command.args(["--flash-size", &flash_bytes(peak_bytes).to_string()]);
        command.args(["--donors", &donors.list(), "--"]);
        command.arg(program.get_program()).args(program.get_args());
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Ok(command)
    }
}
