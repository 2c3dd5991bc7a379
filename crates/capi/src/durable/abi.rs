//! The structures of the header.

use std::ffi::{c_char, c_int};
use std::path::PathBuf;
use std::time::Duration;

use aquifer::Error;
use aquifer_durable::superblock::{SUPERBLOCK_BYTES, Superblock};
use aquifer_durable::{Backing, Durability, Options};

use crate::abi::path;
use crate::sized::SizedOptions;

/// Chunks that a heap has room for at least.
const CHUNKS_MIN: u64 = 12;
/// Between two groups of commits that are made durable, if nothing else is said.
const GROUP_US: u64 = 10_000;

/// `aq_durable_options`
#[repr(C)]
pub struct AqDurableOptions {
    _struct_bytes: usize,
    capacity_bytes: u64,
    chunk_bytes: u64,
    utilisation_percent: u32,
    backing: c_int,
    durability: c_int,
    group_us: u32,
    checkpoint_bytes: u64,
    read_only: c_int,
    socket_path: *const c_char,
}

/// `aq_durable_stats`
#[repr(C)]
pub struct AqDurableStats {
    pub(super) struct_bytes: usize,
    pub(super) capacity_bytes: u64,
    pub(super) file_bytes: u64,
    pub(super) live_bytes: u64,
    pub(super) map_bytes: u64,
    pub(super) fences: u64,
    pub(super) written_bytes: u64,
}

fn invalid<T>(what: String) -> Result<T, Error> {
    Err(Error::Invalid(what))
}

/// `given`, or `default` for 0.
fn or(given: u64, default: u64) -> u64 {
    if given == 0 { default } else { given }
}

// SAFETY: as the trait wants it.
unsafe impl SizedOptions for AqDurableOptions {
    const NAME: &'static str = "aq_durable_options";
}

impl AqDurableOptions {
    /// What they ask for. Nothing has happened to the file if that makes no sense.
    pub(super) fn to_options(&self) -> Result<Options, Error> {
        let defaults = Options::default();
        let capacity_bytes = or(self.capacity_bytes, defaults.capacity_bytes);
        let chunk_bytes = or(self.chunk_bytes, Superblock::chunk_bytes_for(capacity_bytes).into());
        let percent = or(self.utilisation_percent.into(), defaults.utilisation_percent.into()) as u32;
        let (least, most) = (Superblock::CHUNK_BYTES_MIN, Superblock::CHUNK_BYTES_MAX);
        if !chunk_bytes.is_power_of_two() || !(least.into()..=most.into()).contains(&chunk_bytes) {
            return invalid(format!(
                "options.chunk_bytes is {chunk_bytes}; it must be a power of two from {least} to {most}"
            ));
        }
        let least = SUPERBLOCK_BYTES as u64 + CHUNKS_MIN * chunk_bytes;
        if capacity_bytes < least {
            return invalid(format!(
                "options.capacity_bytes is {capacity_bytes}; with this chunk size it must be at least {least}"
            ));
        }
        if !(5..=95).contains(&percent) {
            return invalid(format!("options.utilisation_percent is {percent}; it must be from 5 to 95"));
        }
        let backing = match self.backing {
            0 => Backing::Detect,
            1 => Backing::Memory,
            2 => Backing::Flash,
            other => return invalid(format!("options.backing is {other}; see enum aq_backing")),
        };
        let (chunk_bytes, utilisation_percent) = (chunk_bytes as u32, percent);
        let durability = self.to_durability()?;
        let checkpoint_bytes = self.checkpoint_bytes;
        Ok(Options {
            capacity_bytes,
            chunk_bytes,
            utilisation_percent,
            backing,
            durability,
            checkpoint_bytes,
            ..defaults
        })
    }

    /// Where `aquifer stats` and `top` ask, if anywhere.
    ///
    /// # Safety
    /// The path is NULL or a string.
    pub(super) unsafe fn socket(&self) -> Option<PathBuf> {
        // SAFETY: as the caller promises.
        unsafe { path(self.socket_path) }
    }

    /// Whether the heap is only read.
    pub(super) fn is_read_only(&self) -> bool {
        self.read_only != 0
    }

    fn to_durability(&self) -> Result<Durability, Error> {
        let interval = Duration::from_micros(or(self.group_us.into(), GROUP_US));
        match self.durability {
            0 => Ok(Durability::Sync),
            1 => Ok(Durability::Group(interval)),
            2 => Ok(Durability::Relaxed),
            other => invalid(format!("options.durability is {other}; see enum aq_durability")),
        }
    }
}
