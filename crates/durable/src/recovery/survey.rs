//! What one thread finds in the chunks that it verifies: how far each is filled, and with what versions.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use aquifer_base::limits::LOG_GRAIN_BYTES;
use aquifer_log::geometry::SegmentId;
use aquifer_log::segment::State;
use aquifer_map::partitions::GRAINS;

use super::checkpoint::Checkpoint;
use crate::block::{Block, Kind, Role};
use crate::checkpoint::Header;
use crate::chunk::{self, ChunkHeader, Head, Previous};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::record::NO_FLOOR;
use crate::walk::{Blocks, Found};

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
    /// Whether there are blocks that were durable and whose payloads do not verify.
    pub(super) has_damage: bool,
}

impl Filled {
    /// A chunk without blocks.
    pub(super) fn of(id: SegmentId) -> Self {
        let (versions, partitions, end) = ((u64::MAX, 0), NOWHERE, chunk::HEADER_BYTES as u32);
        Self { id, versions, entries: 0, partitions, end, gaps: Vec::new(), has_damage: false }
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
    Listed {
        /// The list.
        losses: Vec<Loss>,
        /// Blocks that are left out because their payloads do not verify.
        left_out: Arc<LeftOut>,
        /// Where such blocks are of which something is needed.
        needed: Vec<u64>,
    },
}

/// Blocks whose payloads do not verify, and that are left out.
pub(crate) enum LeftOut {
    /// The blocks that begin at these places of the file.
    Of(HashSet<u64>),
    /// All of them.
    All,
}

impl LeftOut {
    fn has(&self, offset: u64) -> bool {
        match self {
            Self::Of(offsets) => offsets.contains(&offset),
            Self::All => true,
        }
    }
}

/// Why the payloads of a block are damage that counts.
fn needed(version: u64) -> String {
    format!(
        "the objects of transaction {version} do not verify, and not all of them were written again since"
    )
}

impl Damage {
    /// Lists a loss, or makes an error of it.
    pub(super) fn add(&mut self, offset: u64, bytes: u64, why: &str) -> Result<()> {
        let why = why.to_owned();
        match self {
            Self::Refused => Err(Error::Damaged { offset, why }),
            Self::Listed { losses, .. } => {
                losses.push(Loss { offset, bytes, why });
                Ok(())
            }
        }
    }

    /// A block is needed, and its payloads do not verify.
    pub(super) fn add_needed(&mut self, offset: u64, block: &Block<'_>) -> Result<()> {
        match self {
            // It is listed when it is left out.
            Self::Listed { needed, .. } => {
                needed.push(offset);
                Ok(())
            }
            Self::Refused => self.add(offset, block.len_bytes() as u64, &needed(block.version())),
        }
    }

    /// Whether a block whose payloads do not verify is left out.
    fn leaves_out(&self, offset: u64) -> bool {
        matches!(self, Self::Listed { left_out, .. } if left_out.has(offset))
    }

    /// What was listed, and where blocks are that are needed and do not verify.
    pub(crate) fn into_lists(self) -> (Vec<Loss>, Vec<u64>) {
        match self {
            Self::Refused => (Vec::new(), Vec::new()),
            Self::Listed { losses, needed, .. } => (losses, needed),
        }
    }

    /// Whether damage is listed.
    pub(super) fn is_listed(&self) -> bool {
        matches!(self, Self::Listed { .. })
    }

    /// All is listed, and some blocks are left out.
    pub(crate) fn listed(left_out: Arc<LeftOut>) -> Self {
        Self::Listed { losses: Vec::new(), left_out, needed: Vec::new() }
    }

    /// Another one of this kind, for another thread.
    pub(super) fn fork(&self) -> Self {
        match self {
            Self::Refused => Self::Refused,
            Self::Listed { left_out, .. } => Self::listed(left_out.clone()),
        }
    }

    /// Takes over what another one lists.
    pub(super) fn join(&mut self, other: Self) {
        if let (Self::Listed { losses, .. }, Self::Listed { losses: more, .. }) = (self, other) {
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
    /// For each chunk that begins as it should, the generation of its life, or of the last one that it had.
    pub(super) lives: HashMap<u32, u32>,
    /// How far other chunks say that they were durable.
    pub(super) promised: Vec<Previous>,
    /// The same of chunks that were opened behind the floor, which says nothing of what was behind it, too.
    pub(super) promised_behind: Vec<Previous>,
    /// For each chunk that may have blocks before the floor its generation and how far it has blocks without a gap, behind the floor too.
    pub(super) unbroken: HashMap<u32, (u32, u32)>,
    /// Where the last block of a chunk ends, if its payloads do not verify: it was being written, unless another chunk says that it was durable.
    pub(super) torn: HashMap<u32, u32>,
    /// The newest version.
    pub(super) newest: u64,
    /// No transaction changes partitions from this one on.
    pub(super) partitions: u64,
    /// What does not count.
    pub(super) discards: Vec<Discard>,
    pub(super) damage: Damage,
    /// Later transactions do not count.
    floor: u64,
    /// Blocks up to here of the chunk that is read were durable.
    durable_to: u32,
    bytes: Vec<u8>,
}

impl Survey {
    pub(super) fn new(floor: u64, damage: Damage) -> Self {
        Self {
            filled: Vec::new(),
            committed: Vec::new(),
            ends: HashMap::new(),
            lives: HashMap::new(),
            promised: Vec::new(),
            promised_behind: Vec::new(),
            unbroken: HashMap::new(),
            torn: HashMap::new(),
            newest: if floor == NO_FLOOR { 0 } else { floor },
            partitions: 0,
            discards: Vec::new(),
            damage,
            floor,
            durable_to: 0,
            bytes: Vec::new(),
        }
    }

    /// Takes over what another thread has found.
    pub(super) fn join(&mut self, other: Self) {
        self.filled.extend(other.filled);
        self.committed.extend(other.committed);
        self.ends.extend(other.ends);
        self.lives.extend(other.lives);
        self.promised.extend(other.promised);
        self.promised_behind.extend(other.promised_behind);
        self.unbroken.extend(other.unbroken);
        self.torn.extend(other.torn);
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
        let bytes = u64::from(log.superblock.chunk_bytes);
        let mut head = [0; chunk::HEAD_BYTES];
        log.persist.read(start, &mut head);
        let Ok(head) = Head::decode(&head, log.superblock.id, id.0) else {
            return self.damage.add(start, bytes, "the header of a chunk does not verify");
        };
        self.lives.insert(id.0, head.generation());
        let header = match head {
            // It was about to be given back, or was, and that is lost.
            Head::Used(ChunkHeader { opened, .. }) | Head::Part(Header { opened, .. })
                if opened < log.durable_oldest() =>
            {
                log.table.restore(id, head.generation(), State::Free);
                self.discards.push(Discard { chunk: id, opened, blocks: Vec::new(), is_whole: true });
                return Ok(());
            }
            Head::Used(header) => header,
            Head::Part(_) => return Ok(()),
            Head::New if log.chunks_recorded() <= id.0.into() => return Ok(()),
            Head::New => return self.damage.add(start, bytes, "a chunk begins with zeros"),
            Head::Free { generation, is_opening } => {
                log.table.restore(id, generation, State::Free);
                if is_opening && has_block(log, id, generation.wrapping_add(1)) {
                    return self.damage.add(start, bytes, "a chunk has a block and no header");
                }
                return Ok(());
            }
        };
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

    /// Verifies a chunk again, whose blocks were durable up to `durable_to`.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub(super) fn read_again(&mut self, heap: &Core, id: SegmentId, durable_to: u32) -> Result<()> {
        self.filled.retain(|filled| filled.id != id);
        self.discards.retain(|discard| discard.chunk != id);
        self.durable_to = durable_to;
        let outcome = self.read(heap, id, None);
        self.durable_to = 0;
        outcome
    }

    fn read_blocks(&mut self, log: &Log, bytes: &[u8], (id, header): (SegmentId, ChunkHeader)) -> Result<()> {
        let start = log.offset_of(id);
        let seed = chunk::seed(log.superblock.id, id.0, header.generation);
        let (mut filled, mut blocks, mut unbroken) = (Filled::of(id), Vec::new(), chunk::HEADER_BYTES);
        // The last block so far, if it is not known yet whether it was durable; what does not verify before the next one.
        let (mut torn, mut gap): (Option<(usize, Block<'_>)>, Option<Range<u32>>) = (None, None);
        for (at, found) in Blocks::new(bytes, seed) {
            let block = match found {
                Found::Block(block) => block,
                Found::Damage(len) => {
                    gap = Some(at as u32..(at + len) as u32);
                    continue;
                }
            };
            let gap = gap.take();
            if at == unbroken {
                unbroken += block.len_bytes();
            }
            if block.version() > self.floor {
                blocks.push(start + at as u64);
                // Behind the floor blocks may be torn, in any order.
                continue;
            }
            // It was durable, because a block that counts is behind it.
            if let Some((at, block)) = torn.take() {
                self.add_damaged(log, &block, (start, at), &mut filled)?;
            }
            if let Some(gap) = gap {
                self.add_gap(start, gap, &mut filled, block.version())?;
            }
            let end = at + block.len_bytes();
            if !blocks.is_empty() || block.version() <= filled.versions.1 {
                let why = "the blocks of a chunk are not in the order of their versions";
                self.damage.add(start + at as u64, block.len_bytes() as u64, why)?;
                filled.gaps.push(at as u32..end as u32);
            } else if block.is_intact() {
                self.add(log, &block, &mut filled)?;
                filled.end = end as u32;
            } else {
                torn = Some((at, block));
            }
        }
        let are_behind = !blocks.is_empty();
        if let Some((at, block)) = torn {
            let end = at + block.len_bytes();
            // Parts are of sessions too. What a cleaner copies may be under way, and the floor does not wait for it.
            let is_of_session = block.is_later() || (self.floor != NO_FLOOR && block.role() != Role::Whole);
            if is_of_session || end <= self.durable_to as usize {
                self.add_damaged(log, &block, (start, at), &mut filled)?;
            } else {
                // It must not count either when the heap has a floor, which may be a higher one.
                blocks.push(start + at as u64);
                self.torn.insert(id.0, end as u32);
            }
        }
        if header.opened < self.floor {
            self.unbroken.insert(id.0, (header.generation, unbroken as u32));
        }
        let is_empty = filled.end as usize == chunk::HEADER_BYTES;
        // A chunk that was opened behind the floor promises what was filled then.
        let is_whole = is_empty && self.floor != NO_FLOOR && (header.opened > self.floor || are_behind);
        match is_whole {
            true => {
                log.table.restore(id, header.generation, State::Free);
                self.promised_behind.extend(header.previous);
            }
            false => self.restore(log, id, header, filled.end),
        }
        if filled.versions.1 > 0 {
            self.filled.push(filled);
        }
        self.discards.push(Discard { chunk: id, opened: header.opened, blocks, is_whole });
        Ok(())
    }

    /// Adds what does not verify between two blocks that were durable.
    fn add_gap(&mut self, start: u64, gap: Range<u32>, filled: &mut Filled, after: u64) -> Result<()> {
        let why = match filled.versions.1 {
            0 => format!("a block does not verify, of a transaction before version {after}"),
            before => {
                format!("a block does not verify, of a transaction between the versions {before} and {after}")
            }
        };
        self.damage.add(start + u64::from(gap.start), (gap.end - gap.start).into(), &why)?;
        filled.gaps.push(gap);
        Ok(())
    }

    /// Adds a block that was durable and whose payloads do not verify. Whether something of it is needed tells the map.
    fn add_damaged(
        &mut self,
        log: &Log,
        block: &Block<'_>,
        (start, at): (u64, usize),
        filled: &mut Filled,
    ) -> Result<()> {
        let (offset, end) = (start + at as u64, at + block.len_bytes());
        if self.damage.leaves_out(offset) {
            filled.gaps.push(at as u32..end as u32);
            self.damage.add(offset, block.len_bytes() as u64, &needed(block.version()))?;
        } else {
            self.add(log, block, filled)?;
            filled.has_damage = true;
        }
        filled.end = end as u32;
        Ok(())
    }

    /// # Errors
    /// [`Error::TooLarge`] if it changes home space that a file of this capacity does not have.
    fn add(&mut self, log: &Log, block: &Block<'_>, filled: &mut Filled) -> Result<()> {
        let (bytes, limit) = (block.homes().1 * LOG_GRAIN_BYTES as u64, log.home_bytes);
        if bytes > limit {
            return Err(Error::TooLarge {
                what: "the home space of a file of this capacity; open it with a larger one",
                bytes,
                limit,
            });
        }
        let version = block.version();
        self.newest = self.newest.max(version);
        // What ends a chunk can be much newer than all that is in it, and nothing is collected of it.
        if block.counts() == (0, 0) && block.role() == Role::Whole {
            return Ok(());
        }
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
        Ok(())
    }
}

/// Whether a chunk begins with a block of this life, behind its header.
fn has_block(log: &Log, id: SegmentId, generation: u32) -> bool {
    let mut bytes = vec![0; log.superblock.chunk_bytes as usize];
    log.persist.read(log.offset_of(id), &mut bytes);
    let at = chunk::HEADER_BYTES;
    let seed = chunk::seed_at(chunk::seed(log.superblock.id, id.0, generation), at);
    Block::decode(&bytes[at..], seed).is_some()
}
