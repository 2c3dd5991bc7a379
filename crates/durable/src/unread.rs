//! Chunks that a checkpoint has spared recovery, and whose blocks therefore nobody has verified yet. Each is verified before anything of it
//! is loaded, and all of them by and by. What is damaged costs what lies in it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aquifer_base::limits::LOG_GRAIN_BYTES;
use aquifer_log::geometry::SegmentId;

use crate::chunk;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::walk::{Blocks, Found};

const READ: u8 = 0;
const NOT_YET: u8 = 1;
const DAMAGED: u8 = 2;

/// Parts of a chunk that do not verify: bytes of the file.
type Damaged = Vec<Range<u64>>;

/// What is known of each chunk.
pub(crate) struct Unread {
    /// How many were not read, or are damaged.
    left: AtomicU32,
    states: Box<[AtomicU8]>,
    damaged: Mutex<HashMap<SegmentId, Damaged>>,
}

impl Unread {
    /// All of a log's chunks were read.
    pub(crate) fn new(chunks: u32) -> Self {
        let states = (0..chunks).map(|_| AtomicU8::new(READ)).collect();
        Self { left: AtomicU32::new(0), states, damaged: Mutex::default() }
    }

    fn damaged(&self) -> MutexGuard<'_, HashMap<SegmentId, Damaged>> {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner)
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
            self.damaged().remove(&id);
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
    /// Sees that a grain of the log was verified. Any grain will do: one that a racing reader has found.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    #[inline]
    pub(crate) fn ensure_read(&self, grain: u64) -> Result<()> {
        if self.unread.is_empty() { Ok(()) } else { self.read_if_not_yet(grain) }
    }

    #[cold]
    fn read_if_not_yet(&self, grain: u64) -> Result<()> {
        let Some(id) = self.chunk_with(grain) else { return Ok(()) };
        if self.verify(id) {
            return Ok(());
        }
        let (damaged, offset) = (self.unread.damaged(), grain * LOG_GRAIN_BYTES as u64);
        let hit = damaged.get(&id).and_then(|parts| parts.iter().find(|part| part.contains(&offset)));
        let Some(part) = hit else { return Ok(()) };
        let why = "a block of a chunk that was durable does not verify".into();
        Err(Error::Damaged { offset: part.start, why })
    }

    /// Verifies a chunk that was not read; returns whether all of it is right.
    pub(crate) fn verify(&self, id: SegmentId) -> bool {
        let state = &self.unread.states[id.0 as usize];
        match state.load(Ordering::Acquire) {
            READ => return true,
            DAMAGED => return false,
            _ => {}
        }
        let damaged = self.damaged_parts(id);
        if damaged.is_empty() {
            self.unread.forget(id);
            return true;
        }
        // It may have been given up meanwhile, and be another one's.
        fence(Ordering::Acquire);
        let mut all = self.unread.damaged();
        let was = state.compare_exchange(NOT_YET, DAMAGED, Ordering::AcqRel, Ordering::Acquire);
        if was == Ok(NOT_YET) {
            all.insert(id, damaged);
        }
        state.load(Ordering::Acquire) == READ
    }

    fn damaged_parts(&self, id: SegmentId) -> Damaged {
        let (start, end) = (self.offset_of(id), self.filled_to(id) as usize);
        let mut bytes = vec![0; end];
        self.persist.read(start, &mut bytes);
        let seed = chunk::seed(self.superblock.id, id.0, self.table.generation(id));
        let (mut damaged, mut blocks) = (Damaged::new(), Blocks::new(&bytes, seed));
        for (at, found) in blocks.by_ref() {
            if !matches!(found, Found::Block(block) if block.is_intact()) {
                damaged.push(start + at as u64..start + (at + found.len_bytes()) as u64);
            }
        }
        if blocks.position() < end {
            damaged.push(start + blocks.position() as u64..start + end as u64);
        }
        damaged
    }
}
