//! What is still needed of the chunks that are cleaned.

use aquifer_base::limits::LOG_GRAIN_BYTES;
use aquifer_base::{HomeAddress, PartitionId};
use aquifer_log::geometry::SegmentId;
use aquifer_map::partitions::{GRAINS, Hint, Portion, Source, portions};
use aquifer_sys::Backoff;

use super::covers::{Covers, Standing};
use crate::block::{Block, Kind, Role};
use crate::checkpoint;
use crate::chunk::{self, ChunkHeader};
use crate::core::Core;
use crate::error::{Error, Result};

const GRAIN: u64 = LOG_GRAIN_BYTES as u64;
/// Bytes of a run at most; longer ones are copied piece by piece.
const RUN_BYTES: u64 = 2 << 10;
/// What the entry of a run takes in a block, usually.
const ENTRY_BYTES: u64 = 5;

/// A run of home space that was still needed when it was looked at.
#[derive(Clone, Copy)]
pub(super) struct Survivor {
    /// First grain of home space.
    pub(super) start: u64,
    pub(super) grains: u32,
    pub(super) source: Source,
}

impl Survivor {
    /// The partition that it begins in.
    pub(super) fn partition(&self) -> PartitionId {
        HomeAddress(self.start * GRAIN).partition()
    }

    /// Bytes that it has in the log.
    pub(super) fn bytes(&self) -> u64 {
        match self.source {
            Source::Log(_) => u64::from(self.grains) * GRAIN,
            Source::Zeros | Source::Hole => 0,
        }
    }
}

/// All of some chunks.
#[derive(Default)]
pub(super) struct Survivors {
    pub(super) runs: Vec<Survivor>,
    /// Holes that are smaller than their partitions, so that there may be others beside them.
    pub(super) holes: Vec<Survivor>,
    /// Transactions in parts that have committed, of which there may be parts elsewhere.
    pub(super) commits: Vec<u64>,
    chunk: Vec<u8>,
}

impl Survivors {
    pub(super) fn clear(&mut self) {
        self.runs.clear();
        self.holes.clear();
        self.commits.clear();
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

    /// About what copying all of them singly takes.
    pub(super) fn copied_bytes(&self) -> u64 {
        let entries = self.runs.len() + self.holes.len() + self.commits.len();
        entries as u64 * ENTRY_BYTES + self.runs.iter().map(Survivor::bytes).sum::<u64>()
    }
}

/// Adds a run in pieces of [`RUN_BYTES`].
fn add(runs: &mut Vec<Survivor>, run: Survivor) {
    let most = match run.source {
        Source::Log(_) => (RUN_BYTES / GRAIN) as u32,
        Source::Zeros | Source::Hole => u32::MAX,
    };
    let mut done = 0;
    while done < run.grains {
        let grains = most.min(run.grains - done);
        let source = run.source.plus(done as usize);
        runs.push(Survivor { start: run.start + u64::from(done), grains, source });
        done += grains;
    }
}

impl Core {
    /// Adds what the map still points to in a chunk, and its holes. All other chunks in use were opened at `oldest` or later.
    pub(super) fn collect(
        &self,
        victim: SegmentId,
        oldest: u64,
        survivors: &mut Survivors,
        covers: &mut Covers,
    ) -> Result<()> {
        self.log.verify(victim)?;
        let start = self.log.offset_of(victim);
        let mut bytes = std::mem::take(&mut survivors.chunk);
        bytes.resize(self.log.superblock.chunk_bytes as usize, 0);
        self.log.persist.read(start, &mut bytes);
        let first = survivors.runs.len();
        let collected = match checkpoint::Header::is_in(&bytes) {
            true => Ok(()),
            false => self.collect_blocks(victim, &bytes, oldest, survivors, covers),
        };
        survivors.chunk = bytes;
        collected?;
        let live: u64 = survivors.runs[first..].iter().map(Survivor::bytes).sum();
        if live < u64::from(self.log.table.live_bytes(victim)) {
            let why = "a block of a chunk does not verify, although objects are in it".into();
            return Err(Error::Damaged { offset: start, why });
        }
        Ok(())
    }

    fn collect_blocks(
        &self,
        victim: SegmentId,
        bytes: &[u8],
        oldest: u64,
        survivors: &mut Survivors,
        covers: &mut Covers,
    ) -> Result<()> {
        let (id, start) = (self.log.superblock.id, self.log.offset_of(victim));
        let (header, _) = bytes.split_first_chunk().expect("a chunk is larger than its header");
        let header = ChunkHeader::decode(header, id, victim.0).ok().flatten();
        let damaged =
            || Error::Damaged { offset: start, why: "the header of a chunk does not verify".into() };
        let seed = chunk::seed(id, victim.0, header.ok_or_else(damaged)?.generation);
        let mut at = chunk::HEADER_BYTES;
        while let Some(block) = Block::decode(&bytes[at..], seed) {
            self.collect_block(&block, start + at as u64, oldest, survivors, covers);
            at += block.len_bytes();
        }
        Ok(())
    }

    fn collect_block(
        &self,
        block: &Block<'_>,
        offset: u64,
        oldest: u64,
        survivors: &mut Survivors,
        covers: &mut Covers,
    ) {
        if block.role() == Role::Last && oldest < block.version() {
            survivors.commits.push(block.version());
        }
        for entry in block.entries() {
            let all = portions(entry.home.0 / GRAIN, entry.grains);
            let source = match entry.kind {
                Kind::Bytes => Source::Log(((offset + entry.payload as u64) / GRAIN) as u32),
                Kind::Zeros => Source::Zeros,
                Kind::Hole => {
                    let is_old = block.version() <= oldest;
                    all.for_each(|portion| self.collect_hole(&portion, block, is_old, survivors, covers));
                    continue;
                }
                Kind::Commit => {
                    survivors.commits.extend(Some(entry.home.0).filter(|&version| oldest < version));
                    continue;
                }
            };
            all.for_each(|portion| {
                self.collect_portion(&portion, source.plus(portion.before as usize), &mut survivors.runs);
            });
        }
    }

    /// Adds a hole, unless it has nothing to hide: it is as old as all chunks, or there is a cover.
    fn collect_hole(
        &self,
        portion: &Portion,
        block: &Block<'_>,
        is_old: bool,
        survivors: &mut Survivors,
        covers: &mut Covers,
    ) {
        let standing = covers.standing(portion.id, block.version());
        if standing == Standing::Cover {
            // It leaves with its chunk.
            covers.forget(portion.id);
        }
        if is_old || standing == Standing::Superseded {
            return;
        }
        // A hole as large as its partition is kept as a run: it says as much as a cover, and shares its entry
        // with its neighbours.
        let is_whole = portion.end - portion.start == GRAINS && standing == Standing::Uncovered;
        let list = if is_whole { &mut survivors.runs } else { &mut survivors.holes };
        self.collect_portion(portion, Source::Hole, list);
    }

    fn collect_portion(&self, portion: &Portion, source: Source, runs: &mut Vec<Survivor>) {
        // What is found in a partition that somebody changes can be anything, and what is missed is lost with its chunk.
        let mut backoff = Backoff::new();
        let found = runs.len();
        loop {
            let word = self.map.word(portion.id);
            if !word.is_locked() {
                self.runs_of(portion, source, &mut Hint::default(), |run| add(runs, run));
                if self.map.is_unchanged(portion.id, word) {
                    return;
                }
                runs.truncate(found);
            }
            backoff.wait();
        }
    }

    /// Calls `visit` for the runs of a portion that have this source in the map now.
    #[inline]
    pub(super) fn runs_of(
        &self,
        portion: &Portion,
        source: Source,
        hint: &mut Hint,
        mut visit: impl FnMut(Survivor),
    ) {
        let mut at = portion.start;
        while at < portion.end {
            let run = self.map.find(portion.id, at, hint);
            let until = portion.end.min(run.end);
            if run.source == source.plus(at - portion.start) {
                let start = portion.id.start().0 / GRAIN + at as u64;
                visit(Survivor { start, grains: (until - at) as u32, source: run.source });
            }
            at = until;
        }
    }
}
