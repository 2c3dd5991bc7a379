//! What one thread finds in the chunks that it verifies: how far each is filled, and with what versions.

use std::collections::HashMap;
use std::ops::Range;

use aquifer_log::geometry::SegmentId;
use aquifer_map::partitions::GRAINS;

use super::checkpoint::Checkpoint;
use crate::block::{ALIGN_BYTES, Block, Kind, Role};
use crate::checkpoint;
use crate::checksum::Sums;
use crate::chunk::{self, ChunkHeader, Previous};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::record::NO_FLOOR;

/// Partitions before any are there: the least start and the largest end of none.
pub(super) const NOWHERE: Range<u64> = Range { start: u64::MAX, end: 0 };

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

/// A chunk with blocks that verify. Their versions are in order.
pub(super) struct Filled {
    pub(super) id: SegmentId,
    /// Versions of its first and its last block.
    pub(super) versions: (u64, u64),
    /// Entries of all.
    pub(super) entries: u64,
    /// Between which partitions all are that they change.
    pub(super) partitions: Range<u64>,
    /// Where the last one ends, from the start of the chunk.
    pub(super) end: u32,
    /// What does not verify before that. Only what is read in spite of damage has some.
    pub(super) gaps: Vec<Range<u32>>,
}

impl Filled {
    /// A chunk without blocks.
    pub(super) fn of(id: SegmentId) -> Self {
        let (versions, partitions, end) = ((u64::MAX, 0), NOWHERE, chunk::HEADER_BYTES as u32);
        Self { id, versions, entries: 0, partitions, end, gaps: Vec::new() }
    }

    /// Whether it changes some of these partitions.
    pub(super) fn changes(&self, partitions: &Range<u64>) -> bool {
        self.partitions.start < partitions.end && partitions.start < self.partitions.end
    }
}

/// Bytes of the file that should be something else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loss {
    /// Where they begin.
    pub offset: u64,
    /// How many there are.
    pub bytes: u64,
    /// What is wrong with them.
    pub why: String,
}

/// What becomes of damage.
#[derive(Default)]
pub(crate) enum Damage {
    /// The heap is not opened.
    #[default]
    Refused,
    /// What it hits is left out, and listed.
    Listed(Vec<Loss>),
}

impl Damage {
    /// Lists a loss, or makes an error of it.
    pub(super) fn add(&mut self, offset: u64, bytes: u64, why: &str) -> Result<()> {
        let why = why.to_owned();
        match self {
            Self::Refused => Err(Error::Damaged { offset, why }),
            Self::Listed(losses) => {
                losses.push(Loss { offset, bytes, why });
                Ok(())
            }
        }
    }

    /// What was listed.
    pub(crate) fn into_losses(self) -> Vec<Loss> {
        match self {
            Self::Refused => Vec::new(),
            Self::Listed(losses) => losses,
        }
    }

    /// Whether damage is listed.
    pub(super) fn is_listed(&self) -> bool {
        matches!(self, Self::Listed(_))
    }

    /// Another one of this kind, for another thread.
    pub(super) fn fork(&self) -> Self {
        match self {
            Self::Refused => Self::Refused,
            Self::Listed(_) => Self::Listed(Vec::new()),
        }
    }

    /// Takes over what another one lists.
    pub(super) fn join(&mut self, other: Self) {
        if let (Self::Listed(losses), Self::Listed(more)) = (self, other) {
            losses.extend(more);
        }
    }
}

/// What was found.
pub(super) struct Survey {
    pub(super) filled: Vec<Filled>,
    /// Transactions in parts that have committed.
    pub(super) committed: Vec<u64>,
    /// For each chunk its generation and how far it verifies.
    pub(super) ends: HashMap<u32, (u32, u32)>,
    /// How far other chunks say that they were durable.
    pub(super) promised: Vec<Previous>,
    /// The newest version.
    pub(super) newest: u64,
    /// No transaction changes partitions from this one on.
    pub(super) partitions: u64,
    /// What does not count.
    pub(super) discards: Vec<Discard>,
    pub(super) damage: Damage,
    /// Later transactions do not count.
    floor: u64,
    bytes: Vec<u8>,
}

impl Survey {
    pub(super) fn new(floor: u64, damage: Damage) -> Self {
        Self {
            filled: Vec::new(),
            committed: Vec::new(),
            ends: HashMap::new(),
            promised: Vec::new(),
            newest: if floor == NO_FLOOR { 0 } else { floor },
            partitions: 0,
            discards: Vec::new(),
            damage,
            floor,
            bytes: Vec::new(),
        }
    }

    /// Takes over what another thread has found.
    pub(super) fn join(&mut self, other: Self) {
        self.filled.extend(other.filled);
        self.committed.extend(other.committed);
        self.ends.extend(other.ends);
        self.promised.extend(other.promised);
        self.newest = self.newest.max(other.newest);
        self.partitions = self.partitions.max(other.partitions);
        self.discards.extend(other.discards);
        self.damage.join(other.damage);
    }

    /// Verifies a chunk, unless the checkpoint has its blocks.
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
        let Ok(header) = ChunkHeader::decode(&header, log.superblock.id, id.0) else {
            let bytes = log.superblock.chunk_bytes.into();
            return self.damage.add(start, bytes, "the header of a chunk does not verify");
        };
        let Some(header) = header else { return Ok(()) };
        if let Some(end) = checkpoint.and_then(|checkpoint| checkpoint.end_of(id, header.generation)) {
            self.restore(log, id, header, end);
            log.unread.add(id);
            return Ok(());
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.resize(log.superblock.chunk_bytes as usize, 0);
        log.persist.read(start, &mut bytes);
        let outcome = self.read_blocks(log, &bytes, (id, header));
        self.bytes = bytes;
        outcome
    }

    /// A chunk is in use, filled up to `end`.
    fn restore(&mut self, log: &Log, id: SegmentId, header: ChunkHeader, end: u32) {
        self.newest = self.newest.max(header.opened);
        self.ends.insert(id.0, (header.generation, end));
        self.promised.extend(header.previous);
        log.restore(id, header, end);
    }

    fn read_blocks(&mut self, log: &Log, bytes: &[u8], (id, header): (SegmentId, ChunkHeader)) -> Result<()> {
        let start = log.offset_of(id);
        let seed = chunk::seed(log.superblock.id, id.0, header.generation);
        let mut filled = Filled::of(id);
        let (mut at, mut blocks, mut sums) = (chunk::HEADER_BYTES, Vec::new(), None);
        loop {
            while let Some(block) = Block::decode(&bytes[at..], seed) {
                if block.version() > self.floor {
                    blocks.push(start + at as u64);
                } else if !blocks.is_empty() || block.version() <= filled.versions.1 {
                    let why = "the blocks of a chunk are not in the order of their versions";
                    self.damage.add(start + at as u64, block.len_bytes() as u64, why)?;
                    filled.gaps.push(at as u32..(at + block.len_bytes()) as u32);
                } else {
                    self.add(&block, &mut filled);
                    filled.end = (at + block.len_bytes()) as u32;
                }
                at += block.len_bytes();
            }
            // Behind the floor blocks may be torn, in any order. If one that counts is behind another that does not verify, both were durable.
            let Some(next) = next_block(bytes, at, seed, &mut sums) else { break };
            if next.1 <= self.floor {
                let why = match (filled.versions.1, next.1) {
                    (0, after) => format!("a block does not verify, of a transaction before version {after}"),
                    (before, after) => format!(
                        "a block does not verify, of a transaction between the versions {before} and {after}"
                    ),
                };
                self.damage.add(start + at as u64, (next.0 - at) as u64, &why)?;
                filled.gaps.push(at as u32..next.0 as u32);
            }
            at = next.0;
        }
        let is_empty = filled.end as usize == chunk::HEADER_BYTES;
        // A chunk that was opened behind the floor promises what was filled then.
        let is_whole =
            is_empty && self.floor != NO_FLOOR && (header.opened > self.floor || !blocks.is_empty());
        if !is_whole {
            self.restore(log, id, header, filled.end);
        }
        if !is_empty {
            self.filled.push(filled);
        }
        self.discards.push(Discard { chunk: id, opened: header.opened, blocks, is_whole });
        Ok(())
    }

    fn add(&mut self, block: &Block<'_>, filled: &mut Filled) {
        let version = block.version();
        self.newest = self.newest.max(version);
        let (first, end) = (block.homes().0 / GRAINS as u64, block.homes().1.div_ceil(GRAINS as u64));
        self.partitions = self.partitions.max(end);
        filled.partitions = filled.partitions.start.min(first)..filled.partitions.end.max(end);
        filled.versions = (filled.versions.0.min(version), version);
        if block.role() == Role::Last {
            self.committed.push(version);
        }
        let (changes, commits) = block.counts();
        filled.entries += u64::from(changes);
        if commits > 0 {
            let commits = block.entries().filter(|entry| entry.kind == Kind::Commit);
            self.committed.extend(commits.map(|entry| entry.home.0));
        }
    }
}

/// Where the next block from `at` on is that verifies, and its version.
fn next_block<'a>(
    bytes: &'a [u8],
    at: usize,
    seed: u32,
    sums: &mut Option<Sums<'a>>,
) -> Option<(usize, u64)> {
    if bytes[at..].iter().all(|&byte| byte == 0) {
        return None;
    }
    // What an earlier life of the chunk left can say at any place that a block of any length is there.
    let sums = sums.get_or_insert_with(|| Sums::new(bytes));
    (at..bytes.len())
        .step_by(ALIGN_BYTES)
        .find_map(|at| Block::decode_at(bytes, at, seed, sums).map(|block| (at, block.version())))
}
