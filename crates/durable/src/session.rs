//! What one transaction at a time needs: the end of a log, and buffers that are used again.

use aquifer_base::{HomeAddress, PartitionId};
use aquifer_map::partitions::{Scratch, Word};

use crate::block;
use crate::error::{Error, Result};
use crate::log::{Log, OpenChunk};
use crate::write_set::WriteSet;

/// A session is used by one transaction at a time, of any thread.
#[derive(Default)]
pub(crate) struct Session {
    chunk: Option<OpenChunk>,
    pub(crate) writes: WriteSet,
    /// Partitions that were read, and their versions.
    pub(crate) reads: Vec<(PartitionId, Word)>,
    /// Partitions that are locked, and their words before.
    pub(crate) locks: Vec<(PartitionId, Word)>,
    pub(crate) allocated: Vec<HomeAddress>,
    pub(crate) freed: Vec<HomeAddress>,
    pub(crate) block: Vec<u8>,
    pub(crate) scratch: Scratch,
}

impl Session {
    /// Forgets the last transaction.
    pub(crate) fn clear(&mut self) {
        self.writes.clear();
        self.reads.clear();
        self.locks.clear();
        self.allocated.clear();
        self.freed.clear();
    }

    /// Makes the encoded block durable; returns where it is in the file. `clock` is the newest version that is given out.
    ///
    /// # Errors
    /// There is no room, or the device refused.
    pub(crate) fn append(&mut self, log: &Log, clock: u64) -> Result<u64> {
        let bytes = self.block.len() as u64;
        if self.chunk.as_ref().is_none_or(|chunk| chunk.next + bytes > chunk.end) {
            if bytes > log.block_bytes_max() as u64 {
                let limit = log.block_bytes_max() as u64;
                return Err(Error::TooLarge { what: "a transaction", bytes, limit });
            }
            let chunk = log.open(clock)?;
            if let Some(full) = self.chunk.replace(chunk) {
                log.seal(&full);
            }
        }
        let chunk = self.chunk.as_mut().expect("opened above");
        block::seal(&mut self.block, chunk.seed);
        log.persist.persist(chunk.next, &self.block)?;
        let at = chunk.next;
        chunk.next += bytes;
        Ok(at)
    }

    /// The chunk that it appends to.
    pub(crate) fn chunk(&self) -> Option<&OpenChunk> {
        self.chunk.as_ref()
    }
}
