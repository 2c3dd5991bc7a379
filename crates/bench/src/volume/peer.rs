//! The peers that have the mapped file, and what each is given.

use std::fmt;
use std::path::PathBuf;

use aquifer_base::units::parse_size;
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::payload::Payload;

/// Least RAM of a volume that is measured.
const VOLUME_RAM_BYTES_MIN: u64 = 2 << 20;
/// Page tables and the kernel's index of shared memory are two words for each page that was ever touched; none of it is in the volume's option.
const DATA_PER_TABLES: u64 = 256;

/// The systems.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// A mapped file of the host's file system, without advice.
    Mmap,
    /// The same, with the advice that all accesses are random.
    MmapRandom,
    /// The same, with the advice that a part of it is read in order.
    MmapSequential,
    /// A mapped file of a volume.
    Volume,
    /// The host's file, read by fio past the page cache.
    Device,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mmap => "mmap",
            Self::MmapRandom => "mmap-random",
            Self::MmapSequential => "mmap-sequential",
            Self::Volume => "volume",
            Self::Device => "device (fio)",
        })
    }
}

impl Peer {
    /// Names of those that map a file through the kernel.
    pub const OF_MMAP: &[&str] = &["mmap", "mmap-random", "mmap-sequential"];
    /// Names of all, in the order of tables.
    pub const NAMES: &[&str] = &["mmap", "mmap-random", "mmap-sequential", "volume", "device (fio)"];
}

/// The volume's part of RAM and disk.
#[derive(Clone, Debug, Args)]
pub struct VolumeOptions {
    /// What of --ram the volume is not given: the program and its buffers. A 256th of the data comes on top for page tables
    #[arg(long, value_parser = parse_size, default_value = "28M")]
    pub reserve: u64,
    /// Percent of a volume that its file takes
    #[arg(long, default_value_t = 67, value_parser = clap::value_parser!(u32).range(5..=90))]
    pub fill: u32,
    /// Turn the bits of this byte of the data around as it is written, to see that wrong bytes end the run
    #[arg(long)]
    pub flip_byte: Option<u64>,
}

/// A mapped file, and the memory for it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// The system.
    pub peer: Peer,
    /// The host's file, or the volume's.
    pub path: PathBuf,
    /// Bytes of the mapped file.
    pub data_bytes: u64,
    /// What the volume is told to use of the control group's limit, in which process, page cache and page tables are.
    pub volume_ram_bytes: Option<u64>,
    /// What its bytes look like.
    pub payload: Payload,
}

/// What a volume is given of a limit: less `reserve_bytes` for the process, less what the kernel needs for the mapping. None if too
/// little is left.
pub fn volume_ram_bytes(limit_bytes: u64, reserve_bytes: u64, data_bytes: u64) -> Option<u64> {
    let ram_bytes = limit_bytes.checked_sub(reserve_bytes)?.checked_sub(data_bytes / DATA_PER_TABLES)?;
    (ram_bytes >= VOLUME_RAM_BYTES_MIN).then_some(ram_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_volume_gets_what_is_left() {
        let ram = |limit_mib: u64, data_mib: u64| volume_ram_bytes(limit_mib << 20, 24 << 20, data_mib << 20);
        assert_eq!(ram(256, 4096), Some(216 << 20));
        assert_eq!(ram(64, 0), Some(40 << 20));
        assert_eq!(ram(24, 0), None);
        assert_eq!(ram(32, 4096), None);
    }
}
