//! What the chunks that are cleaned have, and may still be needed.

use aquifer_base::limits::LOG_GRAIN_BYTES;
use aquifer_base::{HomeAddress, PartitionId};
use aquifer_log::geometry::SegmentId;
use aquifer_map::partitions::{GRAINS, Hint, Portion, Source, portions};
use aquifer_sys::Backoff;
use aquifer_sys::prefetch::prefetch;

use super::covers::Standing;
use crate::block::{Block, Kind, Role};
use crate::chunk::{self, ChunkHeader};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::walk::{Blocks, Found};

const GRAIN: u64 = LOG_GRAIN_BYTES as u64;
/// What the entry of a run takes in a block, usually.
pub(super) const ENTRY_BYTES: u64 = 5;
/// Cache lines of a run that are loaded ahead.
const PREFETCHED_LINES: usize = 4;

/// A run of home space, in one partition, of which a victim has an entry. What of it is needed tells the map.
#[derive(Clone, Copy)]
pub(super) struct Run {
    /// First grain of home space.
    pub(super) start: u64,
    pub(super) grains: u32,
    /// The grain of the victims' bytes with which it begins, or what it is instead of bytes.
    at: u32,
}

impl Run {
    /// It is allocated, and all zeros.
    const ZEROS: u32 = u32::MAX;
    /// It was freed.
    const HOLE: u32 = u32::MAX - 1;

    /// The partition that it is in.
    pub(super) fn partition(&self) -> PartitionId {
        HomeAddress(self.start * GRAIN).partition()
    }

    /// Where in its partition it begins.
    pub(super) fn first(&self) -> usize {
        self.start as usize % GRAINS
    }

    pub(super) fn has_bytes(&self) -> bool {
        self.at < Self::HOLE
    }
}

/// All of some chunks.
#[derive(Default)]
pub(super) struct Survivors {
    pub(super) runs: Vec<Run>,
    /// Holes that are smaller than their partitions, so that there may be others beside them.
    pub(super) holes: Vec<Run>,
    /// Transactions in parts that have committed, of which there may be parts elsewhere.
    pub(super) commits: Vec<u64>,
    /// The chunks, one behind the other, as they were verified.
    bytes: Vec<u8>,
    /// For each of them the grain of the log with which it begins.
    firsts: Vec<u64>,
    /// Grains of a chunk: a power of two.
    chunk_shift: u32,
    /// Bytes that the map pointed to when they were collected.
    live_bytes: u64,
}

impl Survivors {
    /// Forgets all; the next chunks have `chunk_bytes`.
    pub(super) fn clear(&mut self, chunk_bytes: u32) {
        self.truncate([0; 3]);
        self.firsts.clear();
        self.chunk_shift = (chunk_bytes / LOG_GRAIN_BYTES as u32).ilog2();
        self.live_bytes = 0;
    }

    /// How many there are of each.
    pub(super) fn counts(&self) -> [usize; 3] {
        [self.runs.len(), self.holes.len(), self.commits.len()]
    }

    /// Forgets those behind the first of each.
    pub(super) fn truncate(&mut self, [runs, holes, commits]: [usize; 3]) {
        self.runs.truncate(runs);
        self.holes.truncate(holes);
        self.commits.truncate(commits);
    }

    /// About what copying all of them singly takes at most.
    pub(super) fn copied_bytes(&self) -> u64 {
        let without_bytes = self.runs.iter().filter(|run| !run.has_bytes()).count();
        let with_bytes = ((self.runs.len() - without_bytes) as u64).min(self.live_bytes / GRAIN);
        let others = (without_bytes + self.holes.len() + self.commits.len()) as u64;
        (with_bytes + others) * ENTRY_BYTES + self.live_bytes
    }

    /// Whether nothing is to be copied, if `live_bytes` tells how much each chunk has still.
    pub(super) fn are_none(&self, live_bytes: impl Fn(usize) -> u32) -> bool {
        self.commits.is_empty()
            && self.runs.iter().all(Run::has_bytes)
            && (0..self.firsts.len()).all(|chunk| live_bytes(chunk) == 0)
    }

    /// Which of the chunks has a run that has bytes.
    pub(super) fn chunk_of(&self, run: &Run) -> usize {
        (run.at >> self.chunk_shift) as usize
    }

    /// Where the map points to, if a run is needed.
    pub(super) fn source(&self, run: &Run) -> Source {
        match run.at {
            Run::ZEROS => Source::Zeros,
            Run::HOLE => Source::Hole,
            at => {
                let first = self.firsts[self.chunk_of(run)];
                Source::Log(first + u64::from(at & ((1 << self.chunk_shift) - 1)))
            }
        }
    }

    /// Bytes of a run that has some, from its grain `before` on.
    pub(super) fn bytes(&self, run: &Run, before: usize, grains: usize) -> &[u8] {
        &self.bytes[(run.at as usize + before) * LOG_GRAIN_BYTES..][..grains * LOG_GRAIN_BYTES]
    }

    /// Begins to load the bytes of a run.
    pub(super) fn prefetch(&self, run: &Run) {
        if run.has_bytes() {
            let bytes = self.bytes(run, 0, run.grains as usize);
            prefetch(bytes.as_ptr(), bytes.len(), PREFETCHED_LINES);
        }
    }
}

fn not_right(offset: u64, why: &str) -> Error {
    Error::Damaged { offset, why: why.into() }
}

/// Adds what an entry has of a partition.
fn add(runs: &mut Vec<Run>, portion: &Portion, at: u32) {
    let start = portion.id.start().0 / GRAIN + portion.start as u64;
    runs.push(Run { start, grains: (portion.end - portion.start) as u32, at });
}

impl Core {
    /// Adds the entries of a chunk. All other chunks in use were opened at `oldest` or later.
    pub(super) fn collect(&self, victim: SegmentId, oldest: u64, survivors: &mut Survivors) -> Result<()> {
        let (start, chunk_bytes) = (self.log.offset_of(victim), self.log.superblock.chunk_bytes as usize);
        let (from, mut bytes) = (survivors.firsts.len() * chunk_bytes, std::mem::take(&mut survivors.bytes));
        bytes.resize(bytes.len().max(from + chunk_bytes), 0);
        let chunk = &mut bytes[from..from + chunk_bytes];
        self.log.persist.read(start, chunk);
        survivors.firsts.push(start / GRAIN);
        let first = survivors.runs.len();
        let collected = match self.log.filled_to(victim) {
            // It has a part of a checkpoint.
            0 => Ok(true),
            end => self.collect_blocks(victim, &chunk[..end as usize], oldest, survivors),
        };
        survivors.bytes = bytes;
        let is_right = collected.and_then(|is_intact| {
            let live_bytes = || u64::from(self.log.table.live_bytes(victim));
            // Others may write over some of them, but point nothing to a chunk that is sealed.
            if is_intact || self.count_needed(survivors, first) >= live_bytes() {
                survivors.live_bytes += live_bytes();
                return Ok(());
            }
            Err(not_right(start, "the objects of a block of a chunk do not verify"))
        });
        if is_right.is_err() {
            survivors.firsts.pop();
        }
        is_right
    }

    /// Adds the entries of a chunk's blocks, which are in `bytes` up to the last, but not the bytes of those that are not intact; returns whether all are.
    ///
    /// # Errors
    /// [`Error::Damaged`] if something does not verify that may have been a hole, which must not be lost.
    fn collect_blocks(
        &self,
        victim: SegmentId,
        bytes: &[u8],
        oldest: u64,
        survivors: &mut Survivors,
    ) -> Result<bool> {
        let (id, start) = (self.log.superblock.id, self.log.offset_of(victim));
        let (header, _) = bytes.split_first_chunk().expect("a chunk is larger than its header");
        let header = ChunkHeader::decode(header, id, victim.0);
        let damaged = || not_right(start, "the header of a chunk does not verify");
        let seed = chunk::seed(id, victim.0, header.ok_or_else(damaged)?.generation);
        let (mut is_intact, mut blocks) = (true, Blocks::new(bytes, seed));
        for (at, found) in blocks.by_ref() {
            let Found::Block(block) = found else {
                return Err(not_right(start + at as u64, "a block of a chunk does not verify"));
            };
            self.collect_block(&block, at, oldest, survivors);
            is_intact = is_intact && block.is_intact();
        }
        if blocks.position() < bytes.len() {
            return Err(not_right(start + blocks.position() as u64, "a block of a chunk does not verify"));
        }
        Ok(is_intact)
    }

    /// Adds the entries of a block, which begins at the byte `offset` of the last chunk.
    fn collect_block(&self, block: &Block<'_>, offset: usize, oldest: u64, survivors: &mut Survivors) {
        if block.role() == Role::Last && oldest < block.version() {
            survivors.commits.push(block.version());
        }
        let chunk = ((survivors.firsts.len() - 1) as u32) << survivors.chunk_shift;
        for entry in block.entries() {
            let all = portions(entry.home.0 / GRAIN, entry.grains);
            match entry.kind {
                Kind::Bytes if !block.is_intact() => {}
                Kind::Bytes => {
                    let at = chunk + ((offset + entry.payload) / LOG_GRAIN_BYTES) as u32;
                    all.for_each(|portion| add(&mut survivors.runs, &portion, at + portion.before));
                }
                Kind::Zeros => all.for_each(|portion| add(&mut survivors.runs, &portion, Run::ZEROS)),
                Kind::Hole => {
                    let is_old = block.version() <= oldest;
                    all.for_each(|portion| self.collect_hole(&portion, block, is_old, survivors));
                }
                Kind::Commit => {
                    survivors.commits.extend(Some(entry.home.0).filter(|&version| oldest < version));
                }
            }
        }
    }

    /// Adds a hole, unless it has nothing to hide: it is as old as all chunks, or there is a cover.
    fn collect_hole(&self, portion: &Portion, block: &Block<'_>, is_old: bool, survivors: &mut Survivors) {
        let mut common = self.places.common();
        let standing = common.covers.standing(portion.id, block.version());
        if standing == Standing::Cover {
            // It leaves with its chunk.
            common.covers.forget(portion.id);
        }
        drop(common);
        if is_old || standing == Standing::Superseded {
            return;
        }
        // A hole as large as its partition is kept as a run: it says as much as a cover, and shares its entry
        // with its neighbours.
        if portion.end - portion.start == GRAINS && standing == Standing::Uncovered {
            add(&mut survivors.runs, portion, Run::HOLE);
        } else {
            self.needed(portion, Source::Hole, |part| add(&mut survivors.holes, &part, Run::HOLE));
        }
    }

    /// Bytes of the runs from `first` on that the map points to.
    fn count_needed(&self, survivors: &Survivors, first: usize) -> u64 {
        let mut grains = 0;
        for run in survivors.runs[first..].iter().filter(|run| run.has_bytes()) {
            let portion = portions(run.start, run.grains).next().expect("it has grains");
            self.needed(&portion, survivors.source(run), |part| grains += (part.end - part.start) as u64);
        }
        grains * GRAIN
    }

    /// Calls `visit` for what has this source in the map of a portion, as it is when nobody changes it.
    fn needed(&self, portion: &Portion, source: Source, visit: impl FnMut(Portion)) {
        let (mut backoff, mut found) = (Backoff::new(), Vec::new());
        loop {
            let word = self.map.word(portion.id);
            if !word.is_locked() {
                self.runs_of(portion, source, &mut Hint::default(), |part, _| found.push(part));
                if self.map.is_unchanged(portion.id, word) {
                    return found.into_iter().for_each(visit);
                }
                found.clear();
            }
            backoff.wait();
        }
    }

    /// Calls `visit` for the parts of a portion that have this source in the map now, with a hint for where each begins. It can be
    /// anything if somebody changes the partition meanwhile.
    #[inline]
    pub(super) fn runs_of(
        &self,
        portion: &Portion,
        source: Source,
        hint: &mut Hint,
        mut visit: impl FnMut(Portion, Hint),
    ) {
        let mut at = portion.start;
        while at < portion.end {
            let run = self.map.find(portion.id, at, hint);
            let end = portion.end.min(run.end);
            let before = (at - portion.start) as u32;
            if run.source == source.plus(before as usize) {
                visit(Portion { id: portion.id, start: at, end, before }, *hint);
            }
            at = end;
        }
    }
}
