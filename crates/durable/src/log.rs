//! Chunks that are free, open and full.
//!
//! | file | noun |
//! |---|---|
//! | `free` | where free chunks come from |
//! | `room` | how many of them there are for what |
//! | `oldest` | the oldest version that counts |

mod free;
mod oldest;
mod room;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use aquifer_base::limits::{HOME_BITS, LOG_GRAIN_BYTES};
use aquifer_log::Kind;
use aquifer_log::geometry::SegmentId;
use aquifer_log::segment::{SegmentTable, State};

use crate::block::EMPTY_BYTES;
use crate::chunk::{self, ChunkHeader, Previous};
use crate::error::{Error, Result};
use crate::homes;
use crate::persist::Persist;
use crate::record::{self, Record};
use crate::superblock::{SUPERBLOCK_BYTES, Superblock};
use crate::unread::Unread;
pub(crate) use oldest::Oldest;
pub(crate) use room::Purpose;

use free::Free;

/// An open chunk: blocks go to its end.
pub(crate) struct OpenChunk {
    pub(crate) id: SegmentId,
    /// What its checksums begin with.
    pub(crate) seed: u32,
    /// Where it begins in the file.
    pub(crate) start: u64,
    /// Where the next block goes, in the file.
    pub(crate) next: u64,
    /// Where the chunk ends.
    pub(crate) end: u64,
    /// How many chunks had been sealed when it was opened.
    pub(crate) seals: u32,
}

/// Largest log that map entries can address.
const CAPACITY_BYTES_MAX: u64 = (LOG_GRAIN_BYTES as u64) << 40;
/// Most chunks: there are tables with all of them in RAM.
const CHUNKS_MAX: u64 = 1 << 20;
/// Free chunks beyond one in this many keep no memory.
const KEPT: usize = 16;
/// Bytes at the beginning of a chunk without memory that keep theirs: a page, for the mark.
const KEPT_BYTES: u64 = 4096;

/// All chunks of a heap.
pub(crate) struct Log {
    pub(crate) persist: Box<dyn Persist>,
    pub(crate) superblock: Superblock,
    pub(crate) table: SegmentTable,
    /// The version that each chunk was opened at.
    opened: Box<[AtomicU64]>,
    /// How far each is filled, since it was sealed.
    filled_to: Box<[AtomicU32]>,
    /// Which sealed chunks recovery did not read.
    pub(crate) unread: Unread,
    pub(crate) capacity_bytes: u64,
    /// Home space that objects may be in.
    pub(crate) home_bytes: u64,
    utilisation_percent: u32,
    chunk_shift: u32,
    processors: usize,
    free: Mutex<Free>,
    /// No chunk counts that was opened before this version.
    durable_oldest: Mutex<Record>,
    /// Chunks of earlier lives of the heap of which no header says how far they were durable.
    unpromised: Mutex<Vec<Previous>>,
    seals: AtomicU64,
}

/// Largest file with chunks of this size.
pub(crate) fn capacity_bytes_max(chunk_bytes: u32) -> u64 {
    CAPACITY_BYTES_MAX.min(SUPERBLOCK_BYTES as u64 + CHUNKS_MAX * u64::from(chunk_bytes))
}

/// Refuses a file of which map entries cannot address all, or with too many chunks.
pub(crate) fn ensure_reachable(capacity_bytes: u64, chunk_bytes: u32) -> Result<()> {
    let (bytes, limit) = (capacity_bytes, capacity_bytes_max(chunk_bytes));
    let what = match chunk_bytes {
        Superblock::CHUNK_BYTES_MAX => "a durable heap",
        _ => "a durable heap with chunks of this size",
    };
    if bytes > limit { Err(Error::TooLarge { what, bytes, limit }) } else { Ok(()) }
}

impl Log {
    /// The log in a file that may grow to `capacity_bytes`.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Damaged`], [`Error::Io`].
    pub(crate) fn new(
        persist: Box<dyn Persist>,
        superblock: Superblock,
        capacity_bytes: u64,
        utilisation_percent: u32,
    ) -> Result<Self> {
        ensure_reachable(capacity_bytes, superblock.chunk_bytes)?;
        let record = Record::read(&*persist, superblock.id, record::Kind::Chunks)?;
        let oldest = Record::read(&*persist, superblock.id, record::Kind::Oldest)?;
        // Nobody allocates in what is only looked at.
        let home_bytes =
            if persist.is_read_only() { 1 << HOME_BITS } else { homes::bytes_for(capacity_bytes) };
        if !persist.is_read_only() {
            record.settle(&*persist, superblock.id)?;
            oldest.settle(&*persist, superblock.id)?;
        }
        let chunk_bytes = u64::from(superblock.chunk_bytes);
        let chunks = ((capacity_bytes - SUPERBLOCK_BYTES as u64) / chunk_bytes) as u32;
        let table = SegmentTable::new(chunks);
        // The id, which is random, makes seeds differ from those of other heaps. What a chunk says of its lives is larger if it had one.
        (0..chunks).for_each(|number| table.restore(SegmentId(number), 0, State::Free));
        Ok(Self {
            persist,
            superblock,
            table,
            opened: (0..chunks).map(|_| AtomicU64::new(0)).collect(),
            filled_to: (0..chunks).map(|_| AtomicU32::new(0)).collect(),
            unread: Unread::new(chunks),
            capacity_bytes,
            home_bytes,
            utilisation_percent,
            chunk_shift: chunk_bytes.ilog2(),
            processors: thread::available_parallelism().map_or(1, usize::from),
            free: Mutex::new(Free {
                chunks: Vec::new(),
                punched: VecDeque::new(),
                grown: 0,
                record,
                apart: 0,
                refused: None,
            }),
            durable_oldest: Mutex::new(oldest),
            unpromised: Mutex::default(),
            seals: AtomicU64::new(0),
        })
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
    pub(crate) fn chunk_of(&self, grain: u64) -> SegmentId {
        let offset = grain * LOG_GRAIN_BYTES as u64 - SUPERBLOCK_BYTES as u64;
        SegmentId((offset >> self.chunk_shift) as u32)
    }

    /// The same, if there is one: of any number.
    pub(crate) fn chunk_with(&self, grain: u64) -> Option<SegmentId> {
        let offset = (grain * LOG_GRAIN_BYTES as u64).checked_sub(SUPERBLOCK_BYTES as u64)?;
        let number = offset >> self.chunk_shift;
        (number < u64::from(self.table.len())).then_some(SegmentId(number as u32))
    }

    /// Size of the largest block.
    pub(crate) fn block_bytes_max(&self) -> usize {
        self.superblock.chunk_bytes as usize - chunk::HEADER_BYTES - EMPTY_BYTES
    }

    /// Bytes of home space that the log holds.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.table.live_bytes_total()
    }

    /// Chunks that the file has had.
    pub(crate) fn chunks_recorded(&self) -> u64 {
        self.free().record.value
    }

    /// Takes over the chunks of a file: those that recovery did not find in use are free.
    ///
    /// # Errors
    /// The device refused to count those that a crash has left uncounted.
    pub(crate) fn adopt(&self, chunks: u32) -> Result<()> {
        let mut free = self.free();
        free.grown = chunks;
        // Whether they have memory is not known.
        let mut found: Vec<_> = self.table.in_state(State::Free).filter(|id| id.0 < chunks).collect();
        found.reverse();
        free.punched = found.into();
        if self.persist.is_read_only() || free.record.value >= u64::from(chunks) {
            return Ok(());
        }
        let counted = free.record.value as u32;
        for id in (counted..chunks).map(SegmentId).filter(|&id| self.table.state(id) == State::Free) {
            if self.table.generation(id) == 0 {
                let unused = chunk::unused(self.superblock.id, id.0);
                self.persist.persist(self.offset_of(id), &unused)?;
            }
        }
        free.record.write(&*self.persist, self.superblock.id, chunks.into())
    }

    /// Begins another life of a chunk that was taken: the session that filled `previous` goes on with it. All transactions in it
    /// will be newer than what `opened` returns, which is asked when the chunk [is in use](Log::reserve).
    pub(crate) fn open(
        &self,
        id: SegmentId,
        opened: impl FnOnce() -> u64,
        previous: Option<Previous>,
    ) -> Result<OpenChunk> {
        self.reserve(id);
        let opened = opened();
        self.opened[id.0 as usize].store(opened, Ordering::Release);
        self.table.next_generation(id, Kind::Page);
        let generation = self.table.generation(id);
        let (start, number) = (self.offset_of(id), id.0);
        let previous = previous.or_else(|| self.take_unpromised());
        let header = ChunkHeader { generation, opened, previous };
        header.create(&*self.persist, start, self.superblock.id, number)?;
        Ok(OpenChunk {
            id,
            seed: chunk::seed(self.superblock.id, number, generation),
            start,
            next: start + chunk::HEADER_BYTES as u64,
            end: start + u64::from(self.superblock.chunk_bytes),
            seals: self.seals(),
        })
    }

    /// Takes over chunks of which no header says how far they are durable, those first that are promised last. The first headers of sessions do, which have
    /// no chunk before them.
    pub(crate) fn promise_later(&self, chunks: Vec<Previous>) {
        *self.unpromised.lock().unwrap_or_else(PoisonError::into_inner) = chunks;
    }

    fn take_unpromised(&self) -> Option<Previous> {
        let mut unpromised = self.unpromised.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = |&Previous { number, generation, .. }: &Previous| {
            let id = SegmentId(number);
            self.table.state(id) == State::Sealed && self.table.generation(id) == generation
        };
        std::iter::from_fn(|| unpromised.pop()).find(is_there)
    }

    /// The version that a chunk in use was opened at.
    pub(crate) fn opened(&self, id: SegmentId) -> u64 {
        self.opened[id.0 as usize].load(Ordering::Relaxed)
    }

    /// How far a chunk is filled, for the header of the next one.
    pub(crate) fn filled(&self, chunk: &OpenChunk) -> Previous {
        let end = (chunk.next - self.offset_of(chunk.id)) as u32;
        Previous { number: chunk.id.0, generation: self.table.generation(chunk.id), end }
    }

    /// Gives back a chunk that was taken and not opened.
    pub(crate) fn put_back(&self, id: SegmentId) {
        self.table.set_state(id, State::Free);
        self.free().chunks.push(id);
    }

    /// Gives a chunk back that nothing needs any more.
    pub(crate) fn release(&self, id: SegmentId) -> Result<()> {
        self.unread.forget(id);
        self.filled_to[id.0 as usize].store(0, Ordering::Relaxed);
        // What it holds must not be found again: frees of it are forgotten when it is gone.
        let (offset, generation) = (self.offset_of(id), self.table.generation(id));
        chunk::free(&*self.persist, offset, self.superblock.id, id.0, generation)?;
        self.table.set_state(id, State::Free);
        let mut free = self.free();
        let kept = Purpose::Write.reserve(self.passes_of(&free).filled()) + free.grown as usize / KEPT;
        if free.chunks.len() > kept {
            // The mark stays. What cannot be given back is kept.
            let chunk_bytes = u64::from(self.superblock.chunk_bytes);
            let punched = self.persist.punch(offset + KEPT_BYTES, chunk_bytes - KEPT_BYTES);
            if punched.is_ok() {
                free.punched.push_back(id);
                return Ok(());
            }
        }
        free.chunks.push(id);
        Ok(())
    }

    /// Takes over a chunk with a part of the checkpoint that counts, in the life that it has.
    pub(crate) fn restore_apart(&self, id: SegmentId, generation: u32, opened: u64) {
        self.table.restore(id, generation, State::Open);
        self.set_apart(id, opened);
    }

    /// Begins another life of a chunk that was set apart: its part of a checkpoint is written. Returns the generation.
    pub(crate) fn begin_apart(&self, id: SegmentId) -> u32 {
        self.table.next_generation(id, Kind::Page);
        self.table.generation(id)
    }

    /// A chunk that was taken gets a part of a checkpoint. Until it is released it counts as if it had the transactions from `opened` on.
    pub(crate) fn set_apart(&self, id: SegmentId, opened: u64) {
        self.opened[id.0 as usize].store(opened, Ordering::Relaxed);
        self.table.set_state(id, State::Open);
        self.free().apart += 1;
    }

    /// Ends a checkpoint's claim to chunk `id`, which the cleaner gives back later.
    pub(crate) fn abandon_apart(&self, id: SegmentId, opened: u64) {
        self.restore_unneeded(id, self.table.generation(id), opened);
        self.free().apart -= 1;
    }

    /// Gives a checkpoint's chunk back.
    pub(crate) fn release_apart(&self, id: SegmentId) -> Result<()> {
        self.release(id)?;
        self.free().apart -= 1;
        Ok(())
    }

    /// Chunks with memory, and the file's.
    pub(crate) fn chunks(&self) -> (u32, u32) {
        let free = self.free();
        (free.grown - free.punched.len() as u32, free.grown)
    }

    /// Memory of free chunks.
    pub(crate) fn free_bytes(&self) -> u64 {
        (self.free().chunks.len() as u64) << self.chunk_shift
    }

    /// Takes over a chunk that was found in the file, filled up to `end`. It is in use even if it is empty: its header must be taken away
    /// before it gets another one.
    pub(crate) fn restore(&self, id: SegmentId, header: ChunkHeader, end: u32) {
        self.table.restore(id, header.generation, State::Sealed);
        self.opened[id.0 as usize].store(header.opened, Ordering::Relaxed);
        self.filled_to[id.0 as usize].store(end, Ordering::Relaxed);
    }

    /// Takes over a chunk that was found with a part of a checkpoint that does not count. The cleaner finds nothing in it.
    pub(crate) fn restore_unneeded(&self, id: SegmentId, generation: u32, opened: u64) {
        self.table.restore(id, generation, State::Sealed);
        self.opened[id.0 as usize].store(opened, Ordering::Relaxed);
    }

    /// How far a sealed chunk is filled; 0 if it has no blocks.
    pub(crate) fn filled_to(&self, id: SegmentId) -> u32 {
        self.filled_to[id.0 as usize].load(Ordering::Relaxed)
    }

    /// How many chunks were sealed.
    pub(crate) fn seals(&self) -> u32 {
        self.seals.load(Ordering::Relaxed) as u32
    }

    /// Ends a chunk: nothing is appended to it any more.
    pub(crate) fn seal(&self, chunk: &OpenChunk) {
        let now = self.seals.fetch_add(1, Ordering::Relaxed) as u32;
        let filled = chunk.next - self.offset_of(chunk.id);
        self.filled_to[chunk.id.0 as usize].store(filled as u32, Ordering::Relaxed);
        self.table.seal(chunk.id, now);
    }
}
