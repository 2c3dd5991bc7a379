//! What one transaction at a time needs: the end of a log, and buffers that are used again.

use aquifer_log::geometry::SegmentId;

use crate::block::Encoded;
use crate::draft::Draft;
use crate::error::Result;
use crate::log::{Log, OpenChunk};

/// A session is used by one transaction at a time, of any thread.
#[derive(Default)]
pub(crate) struct Session {
    chunk: Option<OpenChunk>,
    /// Chunks that it went on with so far.
    pub(crate) opened: u64,
    pub(crate) draft: Draft,
    pub(crate) block: Encoded,
}

impl Session {
    /// Bytes that its chunk has room for.
    pub(crate) fn room(&self) -> u64 {
        self.chunk.as_ref().map_or(0, |chunk| chunk.end - chunk.next)
    }

    /// Whether its chunk has room for the encoded block.
    pub(crate) fn has_room(&self) -> bool {
        self.block.len() as u64 <= self.room()
    }

    /// Goes on with another chunk, which was taken for it. All transactions in it will be newer than `opened`. Returns the old
    /// one, which must be sealed when all of its blocks are in the map: then it may be cleaned.
    ///
    /// # Errors
    /// The device refused.
    pub(crate) fn go_on_with(&mut self, id: SegmentId, log: &Log, opened: u64) -> Result<Option<OpenChunk>> {
        let previous = self.chunk.as_ref().map(|chunk| log.filled(chunk));
        let chunk = log.open(id, opened, previous)?;
        self.opened += 1;
        Ok(self.chunk.replace(chunk))
    }

    /// Makes the encoded block durable, for which there is room; returns where it is in the file.
    ///
    /// # Errors
    /// The device refused.
    pub(crate) fn append(&mut self, log: &Log, version: u64) -> Result<u64> {
        let chunk = self.chunk.as_mut().expect("there is room");
        self.block.seal(version, chunk.seed);
        log.persist.persist(chunk.next, &self.block)?;
        let at = chunk.next;
        chunk.next += self.block.len() as u64;
        Ok(at)
    }

    /// The chunk that it appends to.
    pub(crate) fn chunk(&self) -> Option<&OpenChunk> {
        self.chunk.as_ref()
    }
}
