//! Survivors on their way to another chunk.
//!
//! The map is searched once for each run: while its partition is locked, which stays so until the map points to the copy. The runs are in
//! the order of their homes, so that what the next ones need can be loaded ahead.

use std::sync::atomic::Ordering;

use aquifer_base::PartitionId;
use aquifer_base::limits::LOG_GRAIN_BYTES;
use aquifer_log::geometry::SegmentId;
use aquifer_map::partitions::{Hint, Portion, Source};

use super::places::Place;
use super::survivors::{ENTRY_BYTES, Run, Survivors};
use crate::block::{self, Role};
use crate::core::Core;
use crate::draft::Draft;
use crate::error::Result;
use crate::log::Purpose;
use crate::session::Session;
use crate::write_set::WriteSet;

const GRAIN: u64 = LOG_GRAIN_BYTES as u64;
/// Bytes that are copied while their partitions are locked.
const GROUP_BYTES: u64 = 16 << 10;
/// Entries that are copied at a time, however small.
const GROUP_ENTRIES: usize = 256;
/// Runs that are looked at, at most, while partitions are locked for a block that has some already.
const GROUP_LOOKS: usize = 1024;
/// Less is left over at the end of a chunk.
pub(super) const FIT_MIN_BYTES: u64 = 512;
/// A run is cut for no less than this many grains at the end of a chunk.
const PART_GRAINS_MIN: u64 = 64;
/// How many runs before it the partition of a run is loaded, and its extents and bytes.
const PARTITION_AHEAD: usize = 24;
const EXTENTS_AHEAD: usize = 12;

/// What of the runs is still to be copied.
struct Rest<'a> {
    survivors: &'a Survivors,
    /// In the order of their homes.
    runs: &'a [Run],
    /// Grains of the first of them that were copied, or are not needed.
    done: u32,
    /// If the pass fills more than it was to: the victim that it finishes. Bytes of the others stay.
    only: Option<usize>,
}

impl Rest<'_> {
    /// Whether the bytes of a run stay where they are.
    fn leaves(&self, run: &Run) -> bool {
        self.only.is_some_and(|only| run.has_bytes() && self.survivors.chunk_of(run) != only)
    }

    /// Begins to load what later runs need.
    #[inline]
    fn prefetch(&self, core: &Core) {
        if let Some(run) = self.runs.get(PARTITION_AHEAD) {
            core.map.prefetch(run.partition());
        }
        if let Some(run) = self.runs.get(EXTENTS_AHEAD) {
            core.map.prefetch_extents(run.partition());
            self.survivors.prefetch(run);
        }
    }
}

/// A block that is being filled.
struct Group<'a> {
    writes: &'a mut WriteSet,
    /// Where the map has each piece.
    hints: &'a mut Vec<Hint>,
    /// Entries for transactions in parts.
    commits: usize,
    /// Bytes that the block may have.
    room: u64,
    /// Whether what is left over of the room is wasted.
    is_last: bool,
}

impl Group<'_> {
    /// Grains that another piece may have.
    fn grains_left(&self) -> u64 {
        let pieces = self.commits + self.writes.pieces().len() + 1;
        let used = block::bytes_max(pieces, self.writes.grains_max());
        self.room.saturating_sub(used) / GRAIN
    }

    /// Adds a part of `run` whose partition is locked, or the first grains of the part; returns how many.
    fn add(&mut self, survivors: &Survivors, run: &Run, part: &Portion, source: Source, hint: Hint) -> usize {
        let (grains, left) = (part.end - part.start, self.grains_left());
        let home = part.id.start().plus_bytes(part.start as u64 * GRAIN);
        if self.writes.pieces().len() >= GROUP_ENTRIES || left == 0 {
            return 0;
        }
        let grains = match source {
            Source::Hole => {
                self.writes.free(home, grains as u32);
                grains
            }
            Source::Zeros => {
                self.writes.allocate(home, grains as u32);
                grains
            }
            Source::Log(_) => {
                let is_cut = grains as u64 > left;
                if is_cut && !self.writes.is_empty() && !(self.is_last && left >= PART_GRAINS_MIN) {
                    return 0;
                }
                let grains = grains.min(left as usize);
                self.writes.append(home, survivors.bytes(run, part.before as usize, grains));
                grains
            }
        };
        self.hints.push(hint);
        grains
    }
}

impl Core {
    /// Copies all that is still needed of `victims`; returns how many bytes of objects that were. If it takes more room than the pass was
    /// promised, because writes have cut what is needed into many runs, all but one victim keep what was not copied until then, and the
    /// second value is false.
    pub(super) fn copy_survivors(&self, place: &mut Place, victims: &[SegmentId]) -> Result<(u64, bool)> {
        if place.survivors.are_none(|chunk| self.log.table.live_bytes(victims[chunk])) {
            return Ok((0, true));
        }
        let mut survivors = std::mem::take(&mut place.survivors);
        radsort::sort_by_key(&mut survivors.runs, |run| run.start);
        // Two passes at the same place of home space would wait for each other again and again.
        let (last, first) = survivors.runs.split_at(survivors.runs.len() / 2 * (place.number % 2));
        let mut rest = Rest { survivors: &survivors, runs: first, done: 0, only: None };
        let (mut copied, mut hints, mut commits) = (0, Vec::new(), &survivors.commits[..]);
        let mut last = Some(last);
        loop {
            if rest.runs.is_empty() {
                rest.runs = last.take().unwrap_or_default();
            }
            if rest.runs.is_empty() && commits.is_empty() {
                break;
            }
            let (with, later) = commits.split_at(commits.len().min(GROUP_ENTRIES));
            if rest.only.is_none() {
                let free = place.promised() as u64 * self.log.block_bytes_max() as u64;
                rest.only = self.victim_that_just_fits(victims, place.session.room() + free);
            }
            copied += self.copy_group(place, &mut rest, with, &mut hints)?;
            commits = later;
        }
        let has_room = rest.only.is_none();
        place.survivors = survivors;
        Ok((copied, has_room))
    }

    /// The victim of which least is needed, if what is left of it may only just fit `room` bytes.
    fn victim_that_just_fits(&self, victims: &[SegmentId], room: u64) -> Option<usize> {
        let live_bytes = |n: usize| u64::from(self.log.table.live_bytes(victims[n]));
        let least = (0..victims.len()).min_by_key(|&n| live_bytes(n))?;
        let bytes_max = live_bytes(least) + live_bytes(least) / GRAIN * ENTRY_BYTES;
        (bytes_max + GROUP_BYTES >= room).then_some(least)
    }

    /// Copies as much as a block has room for, in the order of home addresses, as one transaction that changes nothing.
    fn copy_group(
        &self,
        place: &mut Place,
        rest: &mut Rest<'_>,
        commits: &[u64],
        hints: &mut Vec<Hint>,
    ) -> Result<u64> {
        // What is left of the chunk is used up.
        self.make_cleaners_room(place, FIT_MIN_BYTES + block::bytes_max(commits.len(), 0))?;
        let session = &mut place.session;
        let room = session.room();
        session.draft.begin();
        hints.clear();
        let Draft { writes, view, .. } = &mut session.draft;
        let is_last = room < GROUP_BYTES;
        let mut group = Group { writes, hints, commits: commits.len(), room: room.min(GROUP_BYTES), is_last };
        let (mut is_full, runs) = (false, rest.runs.len());
        while let Some(run) = rest.runs.first().filter(|_| !is_full) {
            if !group.hints.is_empty() && runs - rest.runs.len() >= GROUP_LOOKS {
                break;
            }
            let (id, before) = (run.partition(), group.hints.len());
            view.lock_to_move(&self.map, id);
            is_full = self.add_partition(id, rest, &mut group);
            if group.hints.len() == before {
                view.unlock_last(&self.map);
            }
        }
        let outcome = if writes.is_empty() && commits.is_empty() {
            Ok(0)
        } else {
            session.block.encode(writes, writes.pieces(), commits, Role::Whole);
            self.append_copies(session, hints)
        };
        session.draft.view.unlock_moved(&self.map);
        outcome
    }

    /// Adds what is needed of the runs of a partition, which is locked; true if the group is full before the last of them.
    fn add_partition(&self, id: PartitionId, rest: &mut Rest<'_>, group: &mut Group<'_>) -> bool {
        let mut hint = Hint::default();
        while let Some(run) = rest.runs.first().filter(|run| run.partition() == id) {
            if rest.done == 0 {
                rest.prefetch(self);
            }
            if rest.leaves(run) {
                (rest.runs, rest.done) = (&rest.runs[1..], 0);
                continue;
            }
            let (source, first) = (rest.survivors.source(run), run.first());
            let (start, mut full_at) = (first + rest.done as usize, None);
            let portion = Portion { id, start, end: first + run.grains as usize, before: 0 };
            self.runs_of(&portion, source.plus(rest.done as usize), &mut hint, |mut part, hint| {
                part.before += rest.done;
                let is_open = full_at.is_none();
                let added = if is_open { group.add(rest.survivors, run, &part, source, hint) } else { 0 };
                if is_open && added < part.end - part.start {
                    full_at = Some(part.start + added);
                }
            });
            if let Some(at) = full_at {
                rest.done = (at - first) as u32;
                return true;
            }
            (rest.runs, rest.done) = (&rest.runs[1..], 0);
        }
        false
    }

    fn append_copies(&self, session: &mut Session, hints: &[Hint]) -> Result<u64> {
        debug_assert!(session.has_room());
        let version = self.clock.fetch_add(1, Ordering::AcqRel) + 1;
        let at = session.append(&self.log, version)?;
        let mut hints = hints.iter().copied();
        Ok(self.enter_block_with(session, at, |_| hints.next().unwrap_or_default()))
    }

    /// Makes room for `bytes` in the chunk of a pass, or gives the pass another chunk.
    pub(super) fn make_cleaners_room(&self, place: &mut Place, bytes: u64) -> Result<()> {
        if place.session.room() < bytes {
            let taken = self.log.take(Purpose::Clean)?;
            let id = taken.ok_or_else(|| self.log.full())?;
            self.places.common().take(place);
            let now = || self.clock.load(Ordering::Acquire);
            let full = place.session.go_on_with(id, &self.log, &self.clock, now)?;
            full.iter().for_each(|chunk| self.log.seal(chunk));
        }
        Ok(())
    }
}
