//! Where the memory of a durable heap is, by reading its file as recovery would.

use aquifer_durable::block::{Block, Kind};
use aquifer_durable::chunk::{self, ChunkHeader};
use aquifer_durable::superblock::{SUPERBLOCK_BYTES, Superblock};
use aquifer_durable::{DurableHeap, Usage};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Parts of a file's memory, in bytes. Their sum is all of it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Breakdown {
    /// Objects, as large as the program wants them.
    pub object_bytes: u64,
    /// What rounding adds to them.
    pub rounding_bytes: u64,
    /// What objects were and are no more: of chunks that have not been cleaned yet.
    pub dead_bytes: u64,
    /// Headers of chunks and blocks, indexes, padding.
    pub index_bytes: u64,
    /// Of these, entries for what was freed.
    pub holes: u64,
    /// What open chunks have room for, and what no block fitted at the ends of full ones.
    pub unfilled_bytes: u64,
    /// Free chunks that keep their memory.
    pub free_bytes: u64,
    /// The superblock.
    pub superblock_bytes: u64,
    /// Chunks that are in use.
    pub chunks: u64,
}

/// What one chunk has.
#[derive(Default)]
struct Filling {
    payload_bytes: u64,
    index_bytes: u64,
    unfilled_bytes: u64,
    holes: u64,
}

impl Filling {
    /// The blocks of a chunk in use.
    fn of(bytes: &[u8], seed: u32) -> Self {
        let mut filling = Self { index_bytes: chunk::HEADER_BYTES as u64, ..Self::default() };
        let mut at = chunk::HEADER_BYTES;
        while let Some(block) = Block::decode(&bytes[at..], seed) {
            let payload: u64 = block
                .entries()
                .filter(|entry| entry.kind == Kind::Bytes)
                .map(|entry| u64::from(entry.grains) * GRAIN_BYTES)
                .sum();
            filling.holes += block.entries().filter(|entry| entry.kind == Kind::Hole).count() as u64;
            filling.payload_bytes += payload;
            filling.index_bytes += block.len_bytes() as u64 - payload;
            at += block.len_bytes();
        }
        filling.unfilled_bytes = (bytes.len() - at) as u64;
        filling
    }
}

const GRAIN_BYTES: u64 = aquifer_base::limits::LOG_GRAIN_BYTES as u64;

impl Breakdown {
    /// Of a heap in which so many bytes of objects are live. Nobody writes to it meanwhile.
    ///
    /// # Errors
    /// [`Error::Input`] if the file is not one of a durable heap.
    pub fn of(heap: &DurableHeap, object_bytes: u64) -> Result<Self> {
        // The heap's own thread may be cleaning; it comes to an end while nobody writes.
        loop {
            let before = heap.cleaned();
            let parts = Self::look(heap, object_bytes)?;
            if heap.cleaned() == before {
                return Ok(parts);
            }
        }
    }

    fn look(heap: &DurableHeap, object_bytes: u64) -> Result<Self> {
        let persist = heap.persist();
        let superblock = Superblock::find(persist).map_err(Error::Input)?;
        let superblock = superblock.ok_or_else(|| Error::Input("the heap has no superblock".into()))?;
        let usage = heap.usage();
        let mut parts = Self::known(&usage, object_bytes);
        let mut bytes = vec![0; superblock.chunk_bytes as usize];
        let chunks = (persist.len_bytes() - SUPERBLOCK_BYTES as u64) / bytes.len() as u64;
        let mut payload_bytes = 0;
        for number in 0..chunks as u32 {
            persist.read(SUPERBLOCK_BYTES as u64 + u64::from(number) * bytes.len() as u64, &mut bytes);
            let header = bytes.first_chunk().expect("a chunk is larger than its header");
            let Ok(Some(header)) = ChunkHeader::decode(header, superblock.id, number) else { continue };
            let filling = Filling::of(&bytes, chunk::seed(superblock.id, number, header.generation));
            payload_bytes += filling.payload_bytes;
            parts.index_bytes += filling.index_bytes;
            parts.unfilled_bytes += filling.unfilled_bytes;
            parts.holes += filling.holes;
            parts.chunks += 1;
        }
        parts.dead_bytes = payload_bytes.saturating_sub(usage.live_bytes);
        Ok(parts)
    }

    fn known(usage: &Usage, object_bytes: u64) -> Self {
        Self {
            object_bytes,
            rounding_bytes: usage.live_bytes.saturating_sub(object_bytes),
            free_bytes: usage.reserve_bytes,
            superblock_bytes: SUPERBLOCK_BYTES as u64,
            ..Self::default()
        }
    }

    /// Share of the memory without dead bytes and free chunks that is no object: what no cleaning regains.
    pub fn lost(&self) -> f64 {
        let kept = self.total_bytes() - self.dead_bytes - self.free_bytes - self.superblock_bytes;
        1.0 - self.object_bytes as f64 / kept as f64
    }

    /// All of it.
    pub fn total_bytes(&self) -> u64 {
        self.object_bytes
            + self.rounding_bytes
            + self.dead_bytes
            + self.index_bytes
            + self.unfilled_bytes
            + self.free_bytes
            + self.superblock_bytes
    }
}
