//! Copies what is still needed out of chunks, and frees them.
//!
//! 1. Choose the chunks whose cleaning is worth most, by free space gained and age (Rosenblum and Ousterhout 1992, section 3.6; Rumble,
//!    Kejriwal and Ousterhout, "Log-structured Memory for DRAM-based Storage", FAST 2014).
//! 2. Collect from their blocks what the map still points to, oldest first.
//! 3. Append it in blocks that share their headers, as transactions that change nothing; point the map there.
//! 4. Take the chunks' headers away durably, then use the chunks again.
//!
//! **Frees.** A hole in a block keeps older versions of its bytes from being found by recovery. It is copied like bytes until they
//! are allocated again, or until every chunk in use was opened after it: then there are no older versions. The same goes for the last part
//! of a transaction in parts: it is kept as an entry while there can be other parts.

use std::sync::{MutexGuard, PoisonError};

use aquifer_base::limits::LOG_GRAIN_BYTES;
use aquifer_log::geometry::SegmentId;
use aquifer_log::segment::State;
use aquifer_log::victim::{CostBenefit, Greedy, VictimPolicy};
use aquifer_map::partitions::{Hint, Source, portions};

use aquifer_sys::Backoff;
use std::sync::atomic::Ordering;

use crate::block::{self, Block, Kind, Role};
use crate::chunk::{self, ChunkHeader};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::log::{CLEANED_MAX, Purpose};
use crate::session::Session;
use aquifer_base::HomeAddress;

const GRAIN: u64 = LOG_GRAIN_BYTES as u64;
/// Chunks that are cleaned together, so that survivors of one age meet.
const VICTIMS_MAX: usize = 16;
/// Live bytes that a pass copies, in chunks; with their entries and what is left over at the end of a chunk they are more.
const COPIED_MAX: u64 = CLEANED_MAX as u64 - 1;
/// What a pass must gain to be worth it, as a share of a chunk: one in this many.
const GAIN_MIN: u64 = 64;
/// Fuller chunks are not worth their cleaning.
const UTILISATION_MAX: f64 = 0.98;
/// Bytes that are copied while their partitions are locked.
const GROUP_BYTES: u64 = 16 << 10;
/// Less is left over at the end of a chunk.
const FIT_MIN_BYTES: u64 = 512;
/// Bytes of a run at most; longer ones are copied piece by piece.
const RUN_BYTES: u64 = 2 << 10;
/// Entries that are copied at a time, however small.
const GROUP_ENTRIES: usize = 256;

/// What a pass needs, and what all of them did.
#[derive(Default)]
pub(crate) struct Cleaner {
    session: Session,
    bytes: Vec<u8>,
    survivors: Vec<Survivor>,
    /// Transactions in parts that have committed, of which there may be parts elsewhere.
    commits: Vec<u64>,
    cleaned: u64,
    copied_bytes: u64,
}

/// A run of a victim that may still be needed.
#[derive(Clone, Copy)]
struct Survivor {
    version: u64,
    /// First grain of home space.
    start: u64,
    grains: u32,
    source: Source,
}

/// What cleaning has done since the heap was opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Cleaned {
    /// Chunks.
    pub chunks: u64,
    /// Bytes of objects that were copied.
    pub copied_bytes: u64,
}

/// The same in pieces of [`RUN_BYTES`].
fn pieces_of(survivor: Survivor) -> impl Iterator<Item = Survivor> {
    let most = match survivor.source {
        Source::Log(_) => (RUN_BYTES / GRAIN) as u32,
        Source::Zeros | Source::Hole => u32::MAX,
    };
    (0..survivor.grains.div_ceil(most)).map(move |n| Survivor {
        start: survivor.start + u64::from(n * most),
        grains: most.min(survivor.grains - n * most),
        source: survivor.source.plus((n * most) as usize),
        ..survivor
    })
}

/// How many of the first survivors fit a block of `bytes`; one at least.
fn group_len(survivors: &[Survivor], bytes: u64) -> usize {
    let mut grains = 0;
    let fitting = survivors.iter().take(GROUP_ENTRIES).enumerate().take_while(|(n, survivor)| {
        grains += if matches!(survivor.source, Source::Zeros | Source::Hole) {
            0
        } else {
            u64::from(survivor.grains)
        };
        block::bytes_max(n + 1, grains) <= bytes
    });
    fitting.count().max(1).min(survivors.len())
}

impl Core {
    fn cleaner(&self) -> MutexGuard<'_, Cleaner> {
        self.cleaner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What cleaning has done.
    pub(crate) fn cleaned(&self) -> Cleaned {
        let cleaner = self.cleaner();
        Cleaned { chunks: cleaner.cleaned, copied_bytes: cleaner.copied_bytes }
    }

    /// See [`DurableHeap::clean`](crate::DurableHeap::clean).
    pub(crate) fn clean(&self) -> Result<bool> {
        self.clean_with(&mut self.cleaner())
    }

    /// A chunk, after cleaning if there is none; `None` if that gained no room.
    pub(crate) fn take_cleaned(&self, purpose: Purpose) -> Result<Option<SegmentId>> {
        let mut cleaner = self.cleaner();
        loop {
            // Others may have cleaned while this one waited for them.
            if let Some(id) = self.log.take(purpose)? {
                return Ok(Some(id));
            }
            if !self.clean_with(&mut cleaner)? {
                return Ok(None);
            }
        }
    }

    fn clean_with(&self, cleaner: &mut Cleaner) -> Result<bool> {
        // What the better policy chooses may be old and nearly full; the emptiest chunks gain something if anything does.
        Ok(self.clean_by(&CostBenefit, cleaner)? || self.clean_by(&Greedy, cleaner)?)
    }

    fn clean_by(&self, policy: &dyn VictimPolicy, cleaner: &mut Cleaner) -> Result<bool> {
        let victims = self.victims(policy);
        if victims.is_empty() {
            return Ok(false);
        }
        cleaner.survivors.clear();
        cleaner.commits.clear();
        for &victim in &victims {
            self.collect(victim, cleaner)?;
        }
        let room = self.log.block_bytes_max() as u64;
        let (opened, left) = (cleaner.session.opened, cleaner.session.room());
        self.copy_survivors(cleaner)?;
        for &victim in &victims {
            self.log.release(victim)?;
        }
        cleaner.cleaned += victims.len() as u64;
        // With what is left over at the ends of chunks.
        let used = (cleaner.session.opened - opened) * room + left - cleaner.session.room();
        Ok(used + self.gain_min() <= victims.len() as u64 * room)
    }

    fn gain_min(&self) -> u64 {
        u64::from(self.log.superblock.chunk_bytes) / GAIN_MIN
    }

    /// Chunks that are worth most, with so little in them that copying it leaves room; none if that is too little.
    fn victims(&self, policy: &dyn VictimPolicy) -> Vec<SegmentId> {
        let (table, room) = (&self.log.table, self.log.block_bytes_max() as f64);
        let now = self.log.seals();
        let mut candidates: Vec<_> = table
            .in_state(State::Sealed)
            .map(|id| (id, f64::from(table.live_bytes(id)) / room))
            .filter(|&(_, utilisation)| utilisation < UTILISATION_MAX)
            .map(|(id, utilisation)| (id, policy.worth(utilisation, now.wrapping_sub(table.sealed_at(id)))))
            .collect();
        candidates.sort_by(|a, b| b.1.total_cmp(&a.1));
        let most = COPIED_MAX * u64::from(self.log.superblock.chunk_bytes);
        let mut victims = Vec::new();
        let (mut copied, mut gained) = (0, 0);
        for (id, _) in candidates.into_iter().take(VICTIMS_MAX) {
            let live = u64::from(table.live_bytes(id));
            if copied + live > most {
                break;
            }
            copied += live;
            gained += room as u64 - live;
            victims.push(id);
        }
        if gained < self.gain_min() {
            victims.clear();
        }
        victims
    }

    /// Adds what the map still points to in a chunk, and its holes.
    fn collect(&self, victim: SegmentId, cleaner: &mut Cleaner) -> Result<()> {
        let (id, start) = (self.log.superblock.id, self.log.offset_of(victim));
        let Cleaner { bytes, survivors, commits, .. } = cleaner;
        bytes.resize(self.log.superblock.chunk_bytes as usize, 0);
        self.log.persist.read(start, bytes);
        let (header, _) = bytes.split_first_chunk().expect("a chunk is larger than its header");
        let damaged = |why: &str| Error::Damaged { offset: start, why: why.into() };
        let header = ChunkHeader::decode(header, id, victim.0).ok().flatten();
        let header = header.ok_or_else(|| damaged("the header of a chunk does not verify"))?;
        let seed = chunk::seed(id, victim.0, header.generation);
        let oldest = self.log.oldest(victim);
        let (mut at, mut live) = (chunk::HEADER_BYTES, 0);
        while let Some(block) = Block::decode(&bytes[at..], seed) {
            if block.role() == Role::Last && oldest < block.version() {
                commits.push(block.version());
            }
            for entry in block.entries() {
                let payload = (start + (at + entry.payload) as u64) / GRAIN;
                let source = match entry.kind {
                    Kind::Bytes => Source::Log(payload as u32),
                    Kind::Zeros => Source::Zeros,
                    Kind::Hole if oldest < block.version() => Source::Hole,
                    Kind::Commit if oldest < entry.home.0 => {
                        commits.push(entry.home.0);
                        continue;
                    }
                    Kind::Hole | Kind::Commit => continue,
                };
                let first = entry.home.0 / GRAIN;
                self.for_each_settled_run(first, entry.grains, source, &mut |start, grains, source| {
                    if let Source::Log(_) = source {
                        live += u64::from(grains) * GRAIN;
                    }
                    let version = block.version();
                    survivors.extend(pieces_of(Survivor { version, start, grains, source }));
                });
            }
            at += block.len_bytes();
        }
        if live < u64::from(self.log.table.live_bytes(victim)) {
            return Err(damaged("a block of a chunk does not verify, although objects are in it"));
        }
        Ok(())
    }

    /// Calls `visit` for the parts of a run of home space that have this source in the map now.
    fn for_each_run(&self, start: u64, grains: u32, source: Source, visit: &mut dyn FnMut(u64, u32, Source)) {
        let mut hint = Hint::default();
        for portion in portions(start, grains) {
            let mut at = portion.start;
            while at < portion.end {
                let run = self.map.find(portion.id, at, &mut hint);
                let until = portion.end.min(run.end);
                let before = portion.before as usize + at - portion.start;
                if run.source == source.plus(before) {
                    visit(start + before as u64, (until - at) as u32, run.source);
                }
                at = until;
            }
        }
    }

    /// As [`Self::for_each_run`], but waits for those who commit, because what is missed would be lost with its chunk: what is found
    /// in a partition that somebody changes can be anything.
    fn for_each_settled_run(
        &self,
        start: u64,
        grains: u32,
        source: Source,
        visit: &mut dyn FnMut(u64, u32, Source),
    ) {
        let mut runs = Vec::new();
        for portion in portions(start, grains) {
            let (first, before) = (start + u64::from(portion.before), portion.before as usize);
            let grains = (portion.end - portion.start) as u32;
            let mut backoff = Backoff::new();
            loop {
                let word = self.map.word(portion.id);
                runs.clear();
                self.for_each_run(first, grains, source.plus(before), &mut |start, grains, source| {
                    runs.push((start, grains, source));
                });
                if !word.is_locked() && self.map.is_unchanged(portion.id, word) {
                    break;
                }
                backoff.wait();
            }
            runs.iter().for_each(|&(start, grains, source)| visit(start, grains, source));
        }
    }

    fn copy_survivors(&self, cleaner: &mut Cleaner) -> Result<()> {
        let mut survivors = std::mem::take(&mut cleaner.survivors);
        survivors.sort_unstable_by_key(|survivor| survivor.version);
        let mut rest = &mut survivors[..];
        let mut commits = std::mem::take(&mut cleaner.commits);
        while !rest.is_empty() || !commits.is_empty() {
            // What is left of the chunk is used up.
            let room = Some(cleaner.session.room()).filter(|&room| room >= FIT_MIN_BYTES);
            let count = group_len(rest, room.unwrap_or(GROUP_BYTES).min(GROUP_BYTES));
            let (group, others) = rest.split_at_mut(count);
            group.sort_unstable_by_key(|survivor| survivor.start);
            let with = commits.len().min(GROUP_ENTRIES);
            let copied = self.copy_group(&mut cleaner.session, group, &commits[..with])?;
            commits.drain(..with);
            cleaner.copied_bytes += copied;
            rest = others;
        }
        cleaner.survivors = survivors;
        Ok(())
    }

    /// Copies a group, in the order of home addresses, as one transaction that changes nothing.
    fn copy_group(&self, session: &mut Session, group: &[Survivor], commits: &[u64]) -> Result<u64> {
        session.draft.begin(self);
        self.encode_group(session, group, commits);
        loop {
            self.make_cleaners_room(session)?;
            self.lock_group(session, group);
            // Some of it may have changed since. It is seldom more: what is looked at without locks can be anything.
            self.encode_group(session, group, commits);
            let is_empty = session.draft.writes.is_empty() && commits.is_empty();
            let outcome = match session.has_room() {
                _ if is_empty => Some(Ok(0)),
                true => Some(self.append_copies(session)),
                false => None,
            };
            session.draft.view.unlock_moved(&self.map);
            if let Some(outcome) = outcome {
                return outcome;
            }
        }
    }

    /// Locks the partitions of a group, which is in the order of home addresses; parts of it may overlap.
    fn lock_group(&self, session: &mut Session, group: &[Survivor]) {
        for survivor in group {
            for portion in portions(survivor.start, survivor.grains) {
                session.draft.view.lock_or_wait(&self.map, portion.id);
            }
        }
    }

    /// Makes a block of what of the group is still where it was.
    fn encode_group(&self, session: &mut Session, group: &[Survivor], commits: &[u64]) {
        session.draft.writes.clear();
        self.fill(session, group);
        let writes = &session.draft.writes;
        session.block.encode(writes, writes.pieces(), commits, Role::Whole);
    }

    fn append_copies(&self, session: &mut Session) -> Result<u64> {
        let version = self.clock.fetch_add(1, Ordering::AcqRel) + 1;
        let at = session.append(&self.log, version)?;
        Ok(self.enter_block(session, at))
    }

    /// Puts into the write set what of the group is still where it was.
    fn fill(&self, session: &mut Session, group: &[Survivor]) {
        let writes = &mut session.draft.writes;
        let mut bytes = Vec::new();
        for survivor in group {
            self.for_each_run(
                survivor.start,
                survivor.grains,
                survivor.source,
                &mut |start, grains, source| {
                    let home = HomeAddress(start * GRAIN);
                    match source {
                        Source::Hole => writes.free(home, grains),
                        Source::Zeros => writes.allocate(home, grains),
                        Source::Log(grain) => {
                            bytes.resize(grains as usize * GRAIN as usize, 0);
                            self.log.persist.read(u64::from(grain) * GRAIN, &mut bytes);
                            writes.write(home, &bytes);
                        }
                    }
                },
            );
        }
    }

    fn make_cleaners_room(&self, session: &mut Session) -> Result<()> {
        while !session.has_room() {
            let taken = self.log.take(Purpose::Clean)?;
            let id = taken.ok_or(Error::Full { capacity_bytes: self.capacity_bytes() })?;
            let full = session.go_on_with(id, &self.log, self.clock.load(Ordering::Acquire))?;
            full.iter().for_each(|chunk| self.log.seal(chunk));
        }
        Ok(())
    }
}
