//! Chunks that are free, open and full.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::sync::atomic::{AtomicU64, Ordering};

use aquifer_base::limits::LOG_GRAIN_BYTES;
use aquifer_log::Kind;
use aquifer_log::geometry::SegmentId;
use aquifer_log::segment::{SegmentTable, State};

use crate::chunk::{self, ChunkHeader};
use crate::error::{Error, Result};
use crate::persist::Persist;
use crate::superblock::{SUPERBLOCK_BYTES, Superblock};

/// An open chunk: blocks go to its end.
pub(crate) struct OpenChunk {
    pub(crate) id: SegmentId,
    /// What its checksums begin with.
    pub(crate) seed: u32,
    /// Where the next block goes, in the file.
    pub(crate) next: u64,
    /// Where the chunk ends.
    pub(crate) end: u64,
}

#[derive(Default)]
struct Free {
    chunks: Vec<SegmentId>,
    /// Chunks that the file has.
    grown: u32,
}

/// All chunks of a heap.
pub(crate) struct Log {
    pub(crate) persist: Box<dyn Persist>,
    pub(crate) superblock: Superblock,
    pub(crate) table: SegmentTable,
    capacity_bytes: u64,
    chunk_shift: u32,
    free: Mutex<Free>,
    seals: AtomicU64,
}

impl Log {
    /// The log in a file that may grow to `capacity_bytes`.
    pub(crate) fn new(persist: Box<dyn Persist>, superblock: Superblock, capacity_bytes: u64) -> Self {
        let chunk_bytes = u64::from(superblock.chunk_bytes);
        let chunks = ((capacity_bytes - SUPERBLOCK_BYTES as u64) / chunk_bytes) as u32;
        Self {
            persist,
            superblock,
            table: SegmentTable::new(chunks),
            capacity_bytes,
            chunk_shift: chunk_bytes.ilog2(),
            free: Mutex::default(),
            seals: AtomicU64::new(0),
        }
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a chunk begins in the file.
    pub(crate) fn offset_of(&self, id: SegmentId) -> u64 {
        SUPERBLOCK_BYTES as u64 + (u64::from(id.0) << self.chunk_shift)
    }

    /// The chunk that has a grain of the log.
    #[inline]
    pub(crate) fn chunk_of(&self, grain: u32) -> SegmentId {
        let offset = u64::from(grain) * LOG_GRAIN_BYTES as u64 - SUPERBLOCK_BYTES as u64;
        SegmentId((offset >> self.chunk_shift) as u32)
    }

    /// Size of the largest block.
    pub(crate) fn block_bytes_max(&self) -> usize {
        self.superblock.chunk_bytes as usize - chunk::HEADER_BYTES
    }

    /// Bytes of home space that the log holds.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.table.live_bytes_total()
    }

    /// Takes over the chunks of a file: those that recovery did not find in use are free.
    pub(crate) fn adopt(&self, chunks: u32) {
        let mut free = self.free();
        free.grown = chunks;
        free.chunks = self.table.in_state(State::Free).filter(|id| id.0 < chunks).collect();
        free.chunks.reverse();
    }

    /// A chunk to fill. All of its transactions are newer than the version `opened`.
    pub(crate) fn open(&self, opened: u64) -> Result<OpenChunk> {
        let id = self.take()?;
        self.table.next_generation(id, Kind::Page);
        let generation = self.table.generation(id);
        let (start, number) = (self.offset_of(id), id.0);
        let header = ChunkHeader { generation, opened }.encode(self.superblock.id, number);
        self.persist.persist(start, &header)?;
        self.table.set_state(id, State::Open);
        Ok(OpenChunk {
            id,
            seed: chunk::seed(self.superblock.id, number, generation),
            next: start + chunk::HEADER_BYTES as u64,
            end: start + u64::from(self.superblock.chunk_bytes),
        })
    }

    fn take(&self) -> Result<SegmentId> {
        let mut free = self.free();
        if let Some(id) = free.chunks.pop() {
            return Ok(id);
        }
        let id = SegmentId(free.grown);
        if id.0 == self.table.len() {
            return Err(Error::Full { capacity_bytes: self.capacity_bytes });
        }
        self.persist.grow(self.offset_of(SegmentId(id.0 + 1)))?;
        free.grown += 1;
        Ok(id)
    }

    /// Ends a chunk: nothing is appended to it any more.
    pub(crate) fn seal(&self, chunk: &OpenChunk) {
        let now = self.seals.fetch_add(1, Ordering::Relaxed) as u32;
        self.table.seal(chunk.id, now);
    }
}
