//! The systems that are compared, each behind the same array of objects.

pub mod abi;
pub mod aquifer;
pub mod fio;
pub mod jemalloc;
pub mod mapping;
pub mod memkind;
pub mod mmap;
pub mod swap;

use std::fmt;
use std::path::PathBuf;

use clap::ValueEnum;
use dlopen2::wrapper::{Container, WrapperApi};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::ledger::Ledger;
use crate::objects::Objects;
use crate::payload::Payload;
use crate::theory::RECORD_HEADER_BYTES;
use abi::Stats;

/// A system under test.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Anonymous memory under kernel swap, `MADV_RANDOM`.
    Swap,
    /// The same, compressed in RAM in front of the swap area.
    Zswap,
    /// jemalloc, preloaded, under kernel swap.
    Jemalloc,
    /// A file mapped with `MAP_SHARED`, `MADV_RANDOM`.
    Mmap,
    /// The same without advice: the device's read-ahead applies.
    MmapDefault,
    /// memkind's file-backed kind, `MADV_RANDOM` on its mapping.
    Memkind,
    /// The same as it comes.
    MemkindDefault,
    /// This library, through its C interface.
    Aquifer,
    /// The same with objects that share pages of 4 KiB.
    AquiferPages,
    /// The same, and pages are compressed before they leave RAM.
    AquiferCompressed,
    /// The same, while that saves time and processors have some left.
    AquiferAuto,
    /// Not memory at all: the device's own random reads, 4 KiB and 512 bytes, as the limit.
    Fio,
}

impl Kind {
    /// Rows of tables, in their order.
    pub const NAMES: &[&str] = &[
        "swap",
        "zswap",
        "jemalloc",
        "mmap",
        "mmap-default",
        "memkind",
        "memkind-default",
        "aquifer",
        "aquifer-pages",
        "aquifer-compressed",
        "aquifer-auto",
        "fio 4 KiB",
        "fio 512 B",
    ];

    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Swap => "swap",
            Self::Zswap => "zswap",
            Self::Jemalloc => "jemalloc",
            Self::Mmap => "mmap",
            Self::MmapDefault => "mmap-default",
            Self::Memkind => "memkind",
            Self::MemkindDefault => "memkind-default",
            Self::Aquifer => "aquifer",
            Self::AquiferPages => "aquifer-pages",
            Self::AquiferCompressed => "aquifer-compressed",
            Self::AquiferAuto => "aquifer-auto",
            Self::Fio => "fio",
        }
    }

    /// Whether it is this library.
    fn is_ours(self) -> bool {
        matches!(self, Self::Aquifer | Self::AquiferPages | Self::AquiferCompressed | Self::AquiferAuto)
    }

    /// Whether its memory leaves RAM for a swap area.
    pub fn needs_swap(self) -> bool {
        matches!(self, Self::Swap | Self::Zswap | Self::Jemalloc)
    }

    /// What is in the environment of its process.
    pub fn environment(self) -> &'static [(&'static str, &'static str)] {
        if self == Self::Jemalloc { jemalloc::ENVIRONMENT } else { &[] }
    }

    /// Whether it stays within its RAM only because a cgroup makes it.
    pub fn needs_cgroup(self) -> bool {
        self != Self::Fio && !self.is_ours()
    }

    /// Bytes of disk it takes.
    pub fn disk_bytes(self, setup: &Setup) -> u64 {
        match self {
            // The swap area is made by the orchestrator, whatever its size.
            Self::Swap | Self::Zswap | Self::Jemalloc => 0,
            _ if self.is_ours() => setup.flash_bytes,
            _ => setup.data_bytes,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a peer is given.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// Directory for its files, on the measured device.
    pub dir: PathBuf,
    /// Bytes of all objects together.
    pub data_bytes: u64,
    /// Bytes of one object.
    pub object_bytes: u64,
    /// RAM it may use.
    pub ram_bytes: u64,
    /// Size of the log of [`Kind::Aquifer`].
    pub flash_bytes: u64,
    /// What the objects look like.
    pub payload: Payload,
}

impl Setup {
    /// Number of objects.
    pub fn objects(&self) -> u64 {
        self.data_bytes / self.object_bytes
    }

    /// What is known of the writes of `peer`.
    pub fn ledger(&self, peer: impl Into<String>) -> Ledger {
        Ledger::new(peer, self.objects()).holding(self.payload)
    }
}

/// Log size for `data_bytes` of objects to fill `fill` (0 to 1) of it as live records.
pub fn flash_bytes_for(data_bytes: u64, object_bytes: u64, fill: f64) -> u64 {
    const ROUND_BYTES: u64 = 1 << 20;
    let records = data_bytes / object_bytes * (object_bytes + RECORD_HEADER_BYTES);
    ((records as f64 / fill) as u64).next_multiple_of(ROUND_BYTES)
}

/// An opened peer.
pub trait Peer {
    /// Its array of objects; zeros at first.
    fn objects(&self) -> Objects<'_>;

    /// Bytes of RAM that are neither objects nor pages of objects, where the peer can tell.
    fn metadata_bytes(&self) -> Option<u64> {
        self.stats().map(|stats| stats.metadata_bytes)
    }

    /// The library's own counters.
    fn stats(&self) -> Option<Stats> {
        None
    }

    /// Ends writes that would otherwise reach the device during the next peer's turn.
    fn quiesce(&self) {}
}

/// Opens a peer that is memory; called in a process of its own.
///
/// # Errors
/// [`crate::Error::Unavailable`] if the machine lacks what it needs.
pub fn open(kind: Kind, setup: &Setup) -> Result<Box<dyn Peer>> {
    Ok(match kind {
        Kind::Swap | Kind::Zswap => Box::new(swap::Swap::open(setup)?),
        Kind::Jemalloc => Box::new(jemalloc::Jemalloc::open(setup)?),
        Kind::Mmap => Box::new(mmap::Mmap::open(setup, true)?),
        Kind::MmapDefault => Box::new(mmap::Mmap::open(setup, false)?),
        Kind::Memkind => Box::new(memkind::Memkind::open(setup, true)?),
        Kind::MemkindDefault => Box::new(memkind::Memkind::open(setup, false)?),
        Kind::Aquifer => Box::new(aquifer::Aquifer::open(setup, aquifer::Layout::Objects)?),
        Kind::AquiferPages => Box::new(aquifer::Aquifer::open(setup, aquifer::Layout::Pages)?),
        Kind::AquiferCompressed => Box::new(aquifer::Aquifer::open(setup, aquifer::Layout::CompressedPages)?),
        Kind::AquiferAuto => Box::new(aquifer::Aquifer::open(setup, aquifer::Layout::CompressedInSpareTime)?),
        Kind::Fio => unreachable!("fio is a process of its own, see fio::measure"),
    })
}

/// Opens the library `name`, which `package` brings, with the functions of `T`: at run time, so that no peer is needed to build.
///
/// # Errors
/// [`Error::Unavailable`] if it is not there or lacks a function.
///
/// # Safety
/// The functions have the types that `T` says, and the library's initialisers do no harm.
pub unsafe fn load_library<T: WrapperApi>(name: &str, package: &str) -> Result<Container<T>> {
    // SAFETY: the caller's word.
    let loaded = unsafe { Container::load(name) };
    loaded
        .map_err(|error| Error::Unavailable(format!("{name} cannot be loaded ({error}); install {package}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_sized_by_its_fill() {
        // 136 MiB of records for 128 MiB of objects, in a log that they fill by half.
        assert_eq!(flash_bytes_for(128 << 20, 128, 0.5), 272 << 20);
        assert_eq!(flash_bytes_for(1 << 20, 128, 0.9) % (1 << 20), 0);
    }
}
