//! The durable heap.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use aquifer_base::HomeAddress;
use aquifer_durable::superblock::SUPERBLOCK_BYTES;
use aquifer_durable::{Backing, DurableHeap, Options};

use super::books::Object;
use super::breakdown::Breakdown;
use super::resident::Resident;
use super::sample::{Durable, Settings};
use super::store::{Footprint, Store};
use crate::error::{Error, Result};

const SIZE_MAX: usize = u16::MAX as usize;
/// Capacity in units of the cap: far from being what limits the file.
const CAPACITY: u64 = 4;
const CAPACITY_BYTES_MIN: u64 = 64 << 20;
const BLOCK_BYTES: u64 = 512;

/// Objects of a heap on a file in RAM; memory is the file's.
pub struct Heap {
    heap: DurableHeap,
    file: File,
    payload: Vec<u8>,
    baseline_bytes: u64,
    blocks_max_bytes: u64,
    ram_max_bytes: u64,
    settings: Settings,
    wants_breakdown: bool,
    breakdown: Option<Breakdown>,
}

fn failed(error: aquifer_durable::Error) -> Error {
    Error::Input(format!("the durable heap: {error}"))
}

impl Heap {
    /// A new heap in the file at `path`.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Input`] with what the heap says.
    pub fn create(path: &Path, cap_bytes: u64, settings: Settings, wants_breakdown: bool) -> Result<Self> {
        let baseline_bytes = Resident::now()?.anonymous_bytes;
        let options = Options {
            capacity_bytes: (CAPACITY * cap_bytes).max(CAPACITY_BYTES_MIN),
            chunk_bytes: settings.chunk_bytes,
            utilisation_percent: settings.utilisation_percent,
            backing: Backing::Memory,
            ..Options::default()
        };
        Ok(Self {
            heap: DurableHeap::open(path, &options).map_err(failed)?,
            file: File::open(path).map_err(Error::io("opening", path))?,
            payload: vec![0xA5; SIZE_MAX],
            baseline_bytes,
            blocks_max_bytes: 0,
            ram_max_bytes: 0,
            settings,
            wants_breakdown,
            breakdown: None,
        })
    }
}

impl Store for Heap {
    fn allocate(&mut self, sizes: &[u32], made: &mut Vec<Object>) -> Result<()> {
        let before = made.len();
        let payload = &self.payload;
        let outcome = self.heap.transaction(|tx| {
            // A transaction that met another one is run again.
            made.truncate(before);
            for &bytes in sizes {
                let home = tx.alloc(u64::from(bytes))?;
                tx.store(home, &payload[..bytes as usize])?;
                made.push(Object { home: home.0, bytes });
            }
            Ok(())
        });
        outcome.map_err(failed)
    }

    fn free(&mut self, objects: &[Object]) -> Result<()> {
        let outcome = self
            .heap
            .transaction(|tx| objects.iter().try_for_each(|object| tx.free(HomeAddress(object.home))));
        outcome.map_err(failed)
    }

    fn footprint(&mut self) -> Result<Footprint> {
        let usage = self.heap.usage();
        let blocks = self.file.metadata().map_err(Error::io("looking at", "the heap's file"))?.blocks();
        self.blocks_max_bytes = self.blocks_max_bytes.max(blocks * BLOCK_BYTES);
        let ram_bytes = Resident::now()?.anonymous_bytes.saturating_sub(self.baseline_bytes);
        self.ram_max_bytes = self.ram_max_bytes.max(ram_bytes);
        Ok(Footprint {
            resident_bytes: usage.file_bytes + SUPERBLOCK_BYTES as u64,
            reserve_bytes: usage.reserve_bytes + SUPERBLOCK_BYTES as u64,
            map_bytes: usage.map_bytes,
        })
    }

    fn look_into(&mut self, object_bytes: u64) -> Result<()> {
        if self.wants_breakdown {
            self.breakdown = Some(Breakdown::of(&self.heap, object_bytes)?);
        }
        Ok(())
    }

    fn durable(&self) -> Option<Durable> {
        let (counts, cleaned) = (self.heap.persist().counts(), self.heap.cleaned());
        Some(Durable {
            settings: self.settings,
            blocks_max_bytes: self.blocks_max_bytes,
            ram_max_bytes: self.ram_max_bytes,
            persisted_bytes: counts.bytes(),
            fences: counts.fences(),
            cleaned_chunks: cleaned.chunks,
            copied_bytes: cleaned.copied_bytes,
            breakdown: self.breakdown,
        })
    }
}
