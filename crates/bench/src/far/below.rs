//! What lies below the RAM of one run, made for it and taken away after it.

use std::path::Path;

use super::block::BlockSwap;
use super::peer::Peer;
use super::redis::Redis;
use crate::donors::{Donors, flash_bytes};
use crate::error::Result;
use crate::programs::Programs;
use crate::swap::SwapArea;
use crate::zswap::Zswap;

/// With less, the kernel writes clean pages again.
const SWAP_FACTOR: u64 = 3;

/// Undone in the order of the fields: who swaps is gone by then, and nobody ends before those that need it.
#[derive(Debug, Default)]
pub struct Below {
    block: Option<BlockSwap>,
    swap: Option<SwapArea>,
    _zswap: Option<Zswap>,
    donors: Option<Donors>,
    redis: Option<Redis>,
}

impl Below {
    /// What `peer` needs for a program of `peak_bytes`, with files in `dir`.
    ///
    /// # Errors
    /// [`crate::Error::Unavailable`] with what is missing.
    pub fn make(peer: Peer, programs: &Programs, dir: &Path, peak_bytes: u64) -> Result<Self> {
        let swap_bytes = (SWAP_FACTOR * peak_bytes).next_multiple_of(1 << 20);
        let mut below = Self::default();
        match peer {
            Peer::Local => {}
            Peer::Swap => below.swap = Some(SwapArea::create(dir, swap_bytes)?),
            Peer::Zswap => {
                below._zswap = Some(Zswap::switch_on()?);
                below.swap = Some(SwapArea::create(dir, swap_bytes)?);
            }
            Peer::Donors | Peer::Shared => {
                let donors = Donors::start(programs.aquifer()?, provider(peer), flash_bytes(peak_bytes))?;
                below.donors = Some(donors);
            }
            Peer::BlockSwap | Peer::BlockShared => {
                let aquifer = programs.aquifer()?;
                let donors = below.donors.insert(Donors::start(aquifer, provider(peer), swap_bytes)?);
                below.block = Some(BlockSwap::start(aquifer, dir, swap_bytes, &donors.list())?);
            }
            Peer::Redis => below.redis = Some(Redis::start(programs.redis()?)?),
        }
        Ok(below)
    }

    /// Size of the swap area, where there is one.
    pub fn swap_bytes(&self) -> Option<u64> {
        let block = self.block.as_ref().map(BlockSwap::bytes);
        block.or_else(|| self.swap.as_ref().map(SwapArea::bytes))
    }

    /// The donors that the program itself is told of.
    pub fn donors(&self) -> Option<String> {
        self.donors.as_ref().map(Donors::list)
    }

    /// The server that the clients are told of.
    pub fn redis(&self) -> Option<&Redis> {
        self.redis.as_ref()
    }
}

/// What carries the bytes of the donors.
fn provider(peer: Peer) -> &'static str {
    match peer {
        Peer::Shared | Peer::BlockShared => "memory",
        _ => "tcp",
    }
}
