//! A stack in use.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use aquifer_bench::error::Result;
use aquifer_device::Pacing;
use aquifer_device::nand::Timing;
use aquifer_volume::layered::{Stack, StackMapping, StackOptions};
use aquifer_volume::medium::NandMedium;
use aquifer_volume::{FRAME_BYTES, Mapping, OpenOptions, PAGE_BYTES, Protection, Volume};
use serde::Serialize;

use super::stack::{Bytes, Contestant, Filled, failed};

/// What the RAM of a stack goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Division {
    /// All of it.
    pub ram_bytes: u64,
    /// Pages and nodes that translate them.
    pub frames: u64,
    /// Bytes of each.
    pub frame_bytes: u64,
    /// The table of the translation layer.
    pub table_bytes: u64,
    /// Extents of the file; 0 for the volume, which has none.
    pub extents: u64,
    /// Nodes of 4 KiB that translate the file; of the volume's, the leaves.
    pub nodes: u64,
}

/// What was read of the flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reads {
    /// Pages of the file.
    pub pages: u64,
    /// Nodes that translate it.
    pub nodes: u64,
    /// All reads, also patches and those of cleaning.
    pub flash: u64,
}

/// A file that is mapped. The flash takes no time at first.
pub struct Mounted {
    pages: u32,
    ram_bytes: u64,
    stack: Mount,
}

enum Mount {
    Volume { mapping: Mapping, volume: Arc<Volume>, medium: Arc<NandMedium> },
    Layers { mapping: StackMapping, stack: Arc<Stack> },
}

impl Mounted {
    /// Mounts a snapshot with `ram_bytes` of RAM.
    ///
    /// # Errors
    /// [`aquifer_bench::Error::Unavailable`], also if the RAM does not suffice.
    pub fn new(filled: &Filled, contestant: Contestant, ram_bytes: u64) -> Result<Self> {
        let (pages, pacing) = (filled.pages(), Pacing::RealTime);
        let stack = match (filled.snapshot(), contestant.kind()) {
            (Bytes::Layers(image), Some(kind)) => {
                let options = StackOptions { ram_bytes, kind, pacing };
                let stack = Arc::new(Stack::mount(image, options).map_err(failed)?);
                Mount::Layers { mapping: stack.map(Protection::Write).map_err(failed)?, stack }
            }
            (Bytes::Volume(mut nand, ino), _) => {
                nand.set_timing(Timing::NONE);
                let medium = Arc::new(NandMedium::new(nand, pacing).map_err(failed)?);
                let options = OpenOptions { ram_bytes, is_read_only: false };
                let volume = Volume::open(Box::new(Arc::clone(&medium)), options).map_err(failed)?;
                let volume = Arc::new(volume);
                let mapping =
                    volume.map(ino, 0, pages as usize * PAGE_BYTES, Protection::Write).map_err(failed)?;
                Mount::Volume { mapping, volume, medium }
            }
            (Bytes::Layers(_), None) => unreachable!("each stack is given what it has written"),
        };
        Ok(Mounted { pages, ram_bytes, stack })
    }

    /// From now on the flash takes so long. Nobody uses it now.
    pub fn set_timing(&self, timing: Timing) {
        match &self.stack {
            Mount::Volume { medium, .. } => medium.with(|nand| nand.set_timing(timing)),
            Mount::Layers { stack, .. } => stack.set_timing(timing),
        }
    }

    /// The words of the file.
    pub fn words(&self) -> &[AtomicU64] {
        let base = match &self.stack {
            Mount::Volume { mapping, .. } => mapping.as_ptr(),
            Mount::Layers { mapping, .. } => mapping.as_ptr(),
        };
        // SAFETY: the mapping lives as long as what is borrowed from this, has `pages` pages, and is only used through atomics.
        unsafe { std::slice::from_raw_parts(base.cast(), self.pages as usize * PAGE_BYTES / 8) }
    }

    /// Makes all that was stored durable.
    ///
    /// # Errors
    /// [`aquifer_bench::Error::Unavailable`].
    pub fn sync(&self) -> Result<()> {
        match &self.stack {
            Mount::Volume { volume, .. } => volume.sync(),
            Mount::Layers { stack, .. } => stack.sync(),
        }
        .map_err(failed)
    }

    /// What was read of the flash so far.
    pub fn reads(&self) -> Reads {
        match &self.stack {
            Mount::Volume { volume, medium, .. } => {
                let stats = volume.stats();
                let flash = medium.with(|nand| nand.counters().reads);
                Reads { pages: stats.pages_read, nodes: stats.nodes_read, flash }
            }
            Mount::Layers { stack, .. } => {
                let reads = stack.reads();
                Reads { pages: reads.pages, nodes: reads.nodes, flash: reads.flash }
            }
        }
    }

    /// What the RAM goes to.
    ///
    /// # Errors
    /// [`aquifer_bench::Error::Unavailable`].
    pub fn division(&self) -> Result<Division> {
        let ram_bytes = self.ram_bytes;
        Ok(match &self.stack {
            Mount::Volume { volume, .. } => {
                let stats = volume.stats();
                Division {
                    ram_bytes,
                    frames: stats.ram_budget_bytes / FRAME_BYTES,
                    frame_bytes: FRAME_BYTES,
                    table_bytes: 0,
                    extents: 0,
                    nodes: u64::from(self.pages).div_ceil(512),
                }
            }
            Mount::Layers { stack, .. } => {
                let division = stack.division();
                let (extents, nodes) = stack.extents().map_err(failed)?;
                Division {
                    ram_bytes,
                    frames: division.frames,
                    frame_bytes: division.frame_bytes,
                    table_bytes: division.table_bytes,
                    extents,
                    nodes,
                }
            }
        })
    }
}
