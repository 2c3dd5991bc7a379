//! What one thread finds in the chunks that it reads.

use std::collections::HashMap;

use aquifer_base::limits::LOG_GRAIN_BYTES;
use aquifer_log::geometry::SegmentId;
use aquifer_map::partitions::Source;

use super::buckets::buckets_of;
use super::checkpoint::Checkpoint;
use super::found::Found;
use crate::block::{ALIGN_BYTES, Block, Kind, Role};
use crate::checkpoint;
use crate::checksum::Sums;
use crate::chunk::{self, ChunkHeader, Previous};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::record::NO_FLOOR;

const GRAIN: u64 = LOG_GRAIN_BYTES as u64;

/// What does not count of a chunk.
pub(super) struct Discard {
    pub(super) chunk: SegmentId,
    /// The version that the chunk was opened at.
    pub(super) opened: u64,
    /// Where its blocks behind the floor begin in the file, from front to back.
    pub(super) blocks: Vec<u64>,
    /// Whether there are no others, so that the chunk is free.
    pub(super) is_whole: bool,
}

/// What was found.
pub(super) struct Scan {
    /// Entries, by the thread that will enter their partition.
    pub(super) buckets: Vec<Vec<Found>>,
    /// Entries that count only if their transaction has committed, and their buckets.
    pub(super) parts: Vec<(usize, Found)>,
    /// Transactions in parts that have.
    pub(super) committed: Vec<u64>,
    /// For each chunk its generation and how far it verifies.
    pub(super) ends: HashMap<u32, (u32, u32)>,
    /// How far other chunks say that they were durable.
    pub(super) promised: Vec<Previous>,
    /// The newest version.
    pub(super) newest: u64,
    /// What does not count.
    pub(super) discards: Vec<Discard>,
    /// Later transactions do not count.
    floor: u64,
    bytes: Vec<u8>,
}

impl Scan {
    pub(super) fn new(buckets: usize, floor: u64) -> Self {
        Self {
            buckets: (0..buckets).map(|_| Vec::new()).collect(),
            parts: Vec::new(),
            committed: Vec::new(),
            ends: HashMap::new(),
            promised: Vec::new(),
            newest: if floor == NO_FLOOR { 0 } else { floor },
            discards: Vec::new(),
            floor,
            bytes: Vec::new(),
        }
    }

    /// Collects the entries of a chunk, unless the checkpoint has them.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub(super) fn read(&mut self, heap: &Core, id: SegmentId, checkpoint: Option<&Checkpoint>) -> Result<()> {
        let (log, start) = (&heap.log, heap.log.offset_of(id));
        let mut header = [0; chunk::HEADER_BYTES];
        log.persist.read(start, &mut header);
        if checkpoint::Header::is_in(&header) {
            return Ok(());
        }
        let damaged = |at: usize, why: &str| Error::Damaged { offset: start + at as u64, why: why.into() };
        let header = ChunkHeader::decode(&header, log.superblock.id, id.0);
        let header = header.map_err(|_| damaged(0, "the header of a chunk does not verify"))?;
        let Some(header) = header else { return Ok(()) };
        if let Some(end) = checkpoint.and_then(|checkpoint| checkpoint.end_of(id, header.generation)) {
            self.restore(log, id, header, end);
            log.unread.add(id);
            return Ok(());
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.resize(log.superblock.chunk_bytes as usize, 0);
        log.persist.read(start, &mut bytes);
        let seed = chunk::seed(log.superblock.id, id.0, header.generation);
        let mut at = chunk::HEADER_BYTES;
        while let Some(block) = Block::decode(&bytes[at..], seed).filter(|b| b.version() <= self.floor) {
            self.add(&block, start + at as u64);
            at += block.len_bytes();
        }
        let discard = self.behind(&bytes, (at, seed), start, (id, header)).map_err(|why| damaged(at, why))?;
        if !discard.is_whole {
            self.restore(log, id, header, at as u32);
        }
        self.discards.push(discard);
        self.bytes = bytes;
        Ok(())
    }

    /// A chunk is in use, filled up to `end`.
    fn restore(&mut self, log: &Log, id: SegmentId, header: ChunkHeader, end: u32) {
        self.newest = self.newest.max(header.opened);
        self.ends.insert(id.0, (header.generation, end));
        self.promised.extend(header.previous);
        log.restore(id, header, end);
    }

    /// The transactions behind the floor in a chunk, which counts up to `at`. They may be torn, in any order.
    ///
    /// # Errors
    /// What is wrong, if there are others behind them: those are durable, and so is all that is before them.
    fn behind(
        &self,
        bytes: &[u8],
        (mut at, seed): (usize, u32),
        start: u64,
        (chunk, header): (SegmentId, ChunkHeader),
    ) -> std::result::Result<Discard, &'static str> {
        let is_empty = at == chunk::HEADER_BYTES;
        let mut blocks = Vec::new();
        if bytes[at..].iter().all(|&byte| byte == 0) {
            at = bytes.len();
        }
        // What an earlier life of the chunk left can say at any place that a block of any length is there.
        let sums = Sums::new(&bytes[..if at < bytes.len() { bytes.len() } else { 0 }]);
        while at < bytes.len() {
            let Some(block) = Block::decode_at(bytes, at, seed, &sums) else {
                at += ALIGN_BYTES;
                continue;
            };
            if block.version() <= self.floor {
                return Err("a block does not verify, and there is one behind it");
            }
            blocks.push(start + at as u64);
            at += block.len_bytes();
        }
        // A chunk that was opened behind the floor promises what was filled then.
        let is_whole =
            is_empty && self.floor != NO_FLOOR && (header.opened > self.floor || !blocks.is_empty());
        Ok(Discard { chunk, opened: header.opened, blocks, is_whole })
    }

    fn add(&mut self, block: &Block<'_>, offset: u64) {
        self.newest = self.newest.max(block.version());
        if block.role() == Role::Last {
            self.committed.push(block.version());
        }
        for entry in block.entries() {
            let payload = (offset + entry.payload as u64) / GRAIN;
            let source = match entry.kind {
                Kind::Bytes => Source::Log(payload as u32),
                Kind::Zeros => Source::Zeros,
                Kind::Hole => Source::Hole,
                Kind::Commit => {
                    self.committed.push(entry.home.0);
                    continue;
                }
            };
            let found = Found::new(block.version(), entry.home.0 / GRAIN, entry.grains, source);
            for bucket in buckets_of(found.partitions(), self.buckets.len()) {
                match block.role() {
                    Role::Whole => self.buckets[bucket].push(found),
                    Role::Part | Role::Last => self.parts.push((bucket, found)),
                }
            }
        }
    }
}
