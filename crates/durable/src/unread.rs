//! Chunks that a checkpoint has spared recovery, and whose blocks therefore nobody has verified yet. Each is verified before anything of it
//! is loaded, and all of them by and by.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering, fence};

use aquifer_log::geometry::SegmentId;

use crate::block::Block;
use crate::chunk::{self, HEADER_BYTES};
use crate::error::{Error, Result};
use crate::log::Log;

const READ: u8 = 0;
const NOT_YET: u8 = 1;
const DAMAGED: u8 = 2;

/// What is known of each chunk.
pub(crate) struct Unread {
    /// How many were not read, or are damaged.
    left: AtomicU32,
    states: Box<[AtomicU8]>,
}

impl Unread {
    /// All of a log's chunks were read.
    pub(crate) fn new(chunks: u32) -> Self {
        Self { left: AtomicU32::new(0), states: (0..chunks).map(|_| AtomicU8::new(READ)).collect() }
    }

    /// A chunk was not read.
    pub(crate) fn add(&self, id: SegmentId) {
        self.states[id.0 as usize].store(NOT_YET, Ordering::Relaxed);
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    /// It was, or what is in it does not matter any more.
    pub(crate) fn forget(&self, id: SegmentId) {
        if self.states[id.0 as usize].swap(READ, Ordering::AcqRel) != READ {
            self.left.fetch_sub(1, Ordering::Relaxed);
        }
        // A thread that verifies the chunk now, and reads bytes written later, sees this state, too.
        fence(Ordering::Release);
    }

    /// Whether there are none left.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }

    /// All that were not read.
    pub(crate) fn all(&self) -> Vec<SegmentId> {
        let unread = |&id: &SegmentId| self.states[id.0 as usize].load(Ordering::Relaxed) == NOT_YET;
        (0..self.states.len() as u32).map(SegmentId).filter(unread).collect()
    }
}

impl Log {
    /// Sees that the chunk with a grain of the log was verified. Any grain will do: one that a racing reader has found.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    #[inline]
    pub(crate) fn ensure_read(&self, grain: u32) -> Result<()> {
        if self.unread.is_empty() { Ok(()) } else { self.read_if_not_yet(grain) }
    }

    #[cold]
    fn read_if_not_yet(&self, grain: u32) -> Result<()> {
        self.chunk_with(grain).map_or(Ok(()), |id| self.verify(id))
    }

    /// Verifies a chunk that was not read.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub(crate) fn verify(&self, id: SegmentId) -> Result<()> {
        let state = &self.unread.states[id.0 as usize];
        if state.load(Ordering::Acquire) == READ {
            return Ok(());
        }
        if self.has_all_blocks(id) {
            self.unread.forget(id);
            return Ok(());
        }
        // It may have been given up meanwhile, and be another one's.
        fence(Ordering::Acquire);
        let _ = state.compare_exchange(NOT_YET, DAMAGED, Ordering::AcqRel, Ordering::Acquire);
        if state.load(Ordering::Acquire) == READ {
            return Ok(());
        }
        let why = "a block of a chunk that was durable does not verify".into();
        Err(Error::Damaged { offset: self.offset_of(id), why })
    }

    fn has_all_blocks(&self, id: SegmentId) -> bool {
        let mut bytes = vec![0; self.superblock.chunk_bytes as usize];
        self.persist.read(self.offset_of(id), &mut bytes);
        let seed = chunk::seed(self.superblock.id, id.0, self.table.generation(id));
        let (mut at, end) = (HEADER_BYTES, self.filled_to(id) as usize);
        while let Some(block) =
            bytes.get(at..).and_then(|bytes| Block::decode(bytes, seed)).filter(|_| at < end)
        {
            at += block.len_bytes();
        }
        at == end
    }
}
