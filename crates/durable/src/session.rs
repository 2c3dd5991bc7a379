//! What one transaction at a time needs: the end of a log, and buffers that are used again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aquifer_log::geometry::SegmentId;

use crate::block::{EMPTY_BYTES, Encoded};
use crate::chunk::{Previous, VERSION_MAX, seed_at};
use crate::draft::Draft;
use crate::durability::Unsynced;
use crate::error::Result;
use crate::log::{Log, OpenChunk};
use crate::tuning::Tuning;

/// RAM of buffers that a session keeps from one transaction to the next.
const BUFFER_BYTES_MAX: usize = 8 << 20;

/// A session is used by one transaction at a time, of any thread.
#[derive(Default)]
pub(crate) struct Session {
    chunk: Option<OpenChunk>,
    /// A chunk that was ended before there was another to go on with, whose header must say the same of it.
    ended: Option<Previous>,
    /// If its commits do not wait for durability: what is not durable yet.
    unsynced: Option<Arc<Unsynced>>,
    /// Chunks that it went on with so far.
    pub(crate) opened: u64,
    /// Whether each entry of a block is persisted on its own.
    persists_each: bool,
    pub(crate) draft: Draft,
    pub(crate) block: Encoded,
}

impl Session {
    /// A session whose commits do not wait for durability, if `unsynced` remembers them.
    pub(crate) fn new(unsynced: Option<Arc<Unsynced>>, tuning: &Tuning) -> Self {
        let (draft, persists_each) = (Draft::new(tuning), !tuning.persists_once);
        Self { unsynced, persists_each, draft, ..Self::default() }
    }

    /// A commit begins, before it takes its version.
    #[inline]
    pub(crate) fn begin_commit(&self, clock: &AtomicU64) {
        self.unsynced.iter().for_each(|unsynced| unsynced.begin(clock));
    }

    /// A commit has appended what it has.
    #[inline]
    pub(crate) fn end_commit(&self) {
        self.unsynced.iter().for_each(|unsynced| unsynced.end());
    }

    /// Gives back what a large transaction had. Sessions rest for long, and each may have had one.
    #[inline]
    pub(crate) fn rest(&mut self) {
        if self.buffer_bytes() > BUFFER_BYTES_MAX {
            self.draft.writes.shrink();
            self.block.shrink();
        }
    }

    /// RAM of what it writes with.
    #[inline]
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.draft.writes.buffer_bytes() + self.block.buffer_bytes()
    }

    /// Bytes that its chunk has room for.
    pub(crate) fn room(&self) -> u64 {
        // There is always room for the block that ends it.
        self.chunk.as_ref().map_or(0, |chunk| chunk.end - EMPTY_BYTES as u64 - chunk.next)
    }

    /// Whether its chunk has room for the encoded block.
    pub(crate) fn has_room(&self) -> bool {
        self.block.len() as u64 <= self.room()
    }

    /// Goes on with another chunk, which was taken for it. All transactions in it will be newer than what `opened` returns. Returns the old
    /// one, which must be sealed when all of its blocks are in the map: then it may be cleaned.
    ///
    /// # Errors
    /// The device refused.
    pub(crate) fn go_on_with(
        &mut self,
        id: SegmentId,
        log: &Log,
        clock: &AtomicU64,
        opened: impl FnOnce() -> u64,
    ) -> Result<Option<OpenChunk>> {
        // The next chunk's header promises that all of this one is durable.
        if let Some(unsynced) = &self.unsynced {
            unsynced.sync(log)?;
        }
        self.write_end(log, clock)?;
        let chunk = log.open(id, opened, self.ended)?;
        self.opened += 1;
        Ok(self.chunk.replace(chunk))
    }

    /// Makes the encoded block durable, or stores it to be made durable later; there is room for it. Returns where it is in the file.
    ///
    /// # Errors
    /// The device refused.
    pub(crate) fn append(&mut self, log: &Log, version: u64) -> Result<u64> {
        let chunk = self.chunk.as_mut().expect("there is room");
        let at = chunk.next;
        if self.unsynced.is_some() {
            self.block.set_later();
        }
        self.block.seal(version, seed_at(chunk.seed, (at - chunk.start) as usize));
        match &self.unsynced {
            None if self.persists_each => persist_each(&self.block, log, at)?,
            None => log.persist.persist(at, &self.block)?,
            Some(unsynced) => {
                log.persist.store(at, &self.block)?;
                unsynced.add(at, self.block.len() as u64);
            }
        }
        chunk.next += self.block.len() as u64;
        Ok(at)
    }

    /// Appends a block without entries to its chunk, if it has one. With that, and the next chunk's header, two writes say that what is before was
    /// written.
    fn write_end(&mut self, log: &Log, clock: &AtomicU64) -> Result<()> {
        let Some(chunk) = &mut self.chunk else { return Ok(()) };
        // As it is without that block, which may be behind the floor and go.
        self.ended = Some(log.filled(chunk));
        let version = clock.fetch_add(1, Ordering::AcqRel) + 1;
        if version > VERSION_MAX {
            return Ok(());
        }
        let mut block = Encoded::empty();
        block.seal(version, seed_at(chunk.seed, (chunk.next - chunk.start) as usize));
        log.persist.persist(chunk.next, &block)?;
        chunk.next += block.len() as u64;
        Ok(())
    }

    /// Ends its chunk, if it has one; whether it had. All of its blocks are in the map.
    pub(crate) fn end_chunk(&mut self, log: &Log, clock: &AtomicU64) -> bool {
        // What the device refuses now is refused to the next commit too; without it the end is told by the next header.
        let _ = self.write_end(log, clock);
        let Some(chunk) = self.chunk.take() else { return false };
        log.seal(&chunk);
        true
    }

    /// How many chunks were sealed since it went on with its own.
    pub(crate) fn age(&self, log: &Log) -> u32 {
        self.chunk.as_ref().map_or(0, |chunk| log.seals().wrapping_sub(chunk.seals))
    }

    /// The chunk that it appends to.
    pub(crate) fn chunk(&self) -> Option<&OpenChunk> {
        self.chunk.as_ref()
    }
}

/// Persists the bytes of each entry, and what is before them at last. What a crash leaves of it does not verify.
#[cold]
fn persist_each(block: &Encoded, log: &Log, at: u64) -> Result<()> {
    let (payloads, mut end) = (block.payloads().collect::<Vec<_>>(), block.len());
    for start in payloads.into_iter().rev() {
        log.persist.persist(at + start as u64, &block[start..end])?;
        end = start;
    }
    log.persist.persist(at, &block[..end])
}
