//! What is still needed of the chunks that are cleaned.

use aquifer_base::limits::LOG_GRAIN_BYTES;
use aquifer_log::geometry::SegmentId;
use aquifer_map::partitions::{Hint, Portion, Source, portions};
use aquifer_sys::Backoff;

use crate::block::{Block, Entry, Kind, Role};
use crate::checkpoint;
use crate::chunk::{self, ChunkHeader};
use crate::core::Core;
use crate::error::{Error, Result};

const GRAIN: u64 = LOG_GRAIN_BYTES as u64;
/// Bytes of a run at most; longer ones are copied piece by piece.
const RUN_BYTES: u64 = 2 << 10;

/// A run of home space that was still needed when it was looked at.
#[derive(Clone, Copy)]
pub(super) struct Survivor {
    /// First grain of home space.
    pub(super) start: u64,
    pub(super) grains: u32,
    pub(super) source: Source,
}

impl Survivor {
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
    /// Transactions in parts that have committed, of which there may be parts elsewhere.
    pub(super) commits: Vec<u64>,
    chunk: Vec<u8>,
}

impl Survivors {
    pub(super) fn clear(&mut self) {
        self.runs.clear();
        self.commits.clear();
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
    /// Adds what the map still points to in a chunk, and its holes.
    pub(super) fn collect(&self, victim: SegmentId, survivors: &mut Survivors) -> Result<()> {
        self.log.verify(victim)?;
        let (id, start) = (self.log.superblock.id, self.log.offset_of(victim));
        let Survivors { runs, commits, chunk: bytes } = survivors;
        bytes.resize(self.log.superblock.chunk_bytes as usize, 0);
        self.log.persist.read(start, bytes);
        if checkpoint::Header::is_in(bytes) {
            return Ok(());
        }
        let (header, _) = bytes.split_first_chunk().expect("a chunk is larger than its header");
        let damaged = |why: &str| Error::Damaged { offset: start, why: why.into() };
        let header = ChunkHeader::decode(header, id, victim.0).ok().flatten();
        let header = header.ok_or_else(|| damaged("the header of a chunk does not verify"))?;
        let seed = chunk::seed(id, victim.0, header.generation);
        let (oldest, first) = (self.log.oldest(victim), runs.len());
        let mut at = chunk::HEADER_BYTES;
        while let Some(block) = Block::decode(&bytes[at..], seed) {
            if block.role() == Role::Last && oldest < block.version() {
                commits.push(block.version());
            }
            for entry in block.entries() {
                let source = match entry.kind {
                    Kind::Bytes => Source::Log(((start + (at + entry.payload) as u64) / GRAIN) as u32),
                    Kind::Zeros => Source::Zeros,
                    Kind::Hole if oldest < block.version() => Source::Hole,
                    Kind::Commit if oldest < entry.home.0 => {
                        commits.push(entry.home.0);
                        continue;
                    }
                    Kind::Hole | Kind::Commit => continue,
                };
                self.collect_entry(&entry, source, runs);
            }
            at += block.len_bytes();
        }
        let live: u64 = runs[first..].iter().map(Survivor::bytes).sum();
        if live < u64::from(self.log.table.live_bytes(victim)) {
            return Err(damaged("a block of a chunk does not verify, although objects are in it"));
        }
        Ok(())
    }

    fn collect_entry(&self, entry: &Entry, source: Source, runs: &mut Vec<Survivor>) {
        for portion in portions(entry.home.0 / GRAIN, entry.grains) {
            let source = source.plus(portion.before as usize);
            // What is found in a partition that somebody changes can be anything, and what is missed is lost with its chunk.
            let mut backoff = Backoff::new();
            let found = runs.len();
            loop {
                let word = self.map.word(portion.id);
                if !word.is_locked() {
                    self.runs_of(&portion, source, &mut Hint::default(), |run| add(runs, run));
                    if self.map.is_unchanged(portion.id, word) {
                        break;
                    }
                    runs.truncate(found);
                }
                backoff.wait();
            }
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
