//! Holes that must be kept: which partitions get a cover, and the covers.

use std::sync::atomic::Ordering;

use aquifer_base::PartitionId;
use aquifer_base::limits::LOG_GRAIN_BYTES;
use aquifer_map::partitions::{GRAINS, Hint, Portion, Source};

use super::copy::FIT_MIN_BYTES;
use super::covers::Cover;
use super::places::Place;
use super::survivors::Survivors;
use crate::block::Role;
use crate::core::Core;
use crate::draft::Draft;
use crate::error::Result;
use crate::session::Session;

const GRAIN: u64 = LOG_GRAIN_BYTES as u64;
/// What an entry for a hole takes, if it is in the same partition as the one before it.
const HOLE_BYTES: u64 = 4;
/// What a cover takes beside its holes: a longer gap, and its share of the block's header.
const COVER_BYTES: u64 = 4;
/// Partitions that are covered by one block. It fits any chunk, however many holes they have.
const GROUP_PARTITIONS: usize = 16;

/// All of a partition.
fn whole(id: PartitionId) -> Portion {
    Portion { id, start: 0, end: GRAINS, before: 0 }
}

impl Core {
    /// Chooses partitions whose holes are all written again, in place of those that were collected; returns them, in order. Of the
    /// others, the collected ones are copied.
    ///
    /// A cover that is not larger than what it replaces costs nothing. Others make room only later, when older holes are found, so they get
    /// a part of what the pass gains, and no more than it may fill: `filled` chunks.
    pub(super) fn choose_covered(
        &self,
        survivors: &mut Survivors,
        victims: usize,
        filled: usize,
    ) -> Vec<PartitionId> {
        let (room, copied) = (self.log.block_bytes_max() as u64, survivors.copied_bytes());
        let gained = (victims as u64 * room).saturating_sub(copied);
        let mut left = (gained / 2).min((filled as u64 * room * 7 / 8).saturating_sub(copied));
        let Survivors { runs, holes, .. } = survivors;
        holes.sort_unstable_by_key(|hole| hole.start);
        holes.dedup_by_key(|hole| (hole.start, hole.grains));
        let mut covered = Vec::new();
        for of_partition in holes.chunk_by(|a, b| a.partition() == b.partition()) {
            let id = of_partition[0].partition();
            let cover = COVER_BYTES + HOLE_BYTES * self.count_holes(id);
            let more = cover.saturating_sub(HOLE_BYTES * of_partition.len() as u64);
            if more <= left {
                left -= more;
                covered.push(id);
            } else {
                runs.extend(of_partition);
            }
        }
        covered
    }

    /// How many holes a partition has, about: somebody may be changing it.
    fn count_holes(&self, id: PartitionId) -> u64 {
        let mut count = 0;
        self.runs_of(&whole(id), Source::Hole, &mut Hint::default(), |_, _| count += 1);
        count
    }

    /// Writes covers of partitions, which are in order.
    pub(super) fn write_covers(&self, place: &mut Place, ids: &[PartitionId]) -> Result<()> {
        ids.chunks(GROUP_PARTITIONS).try_for_each(|group| self.cover_group(place, group))
    }

    fn cover_group(&self, place: &mut Place, group: &[PartitionId]) -> Result<()> {
        let mut bytes = FIT_MIN_BYTES;
        loop {
            self.make_cleaners_room(place, bytes)?;
            let session = &mut place.session;
            let with_holes = self.lock_and_encode_holes(session, group);
            let outcome = match session.has_room() {
                _ if with_holes.is_empty() => Some(Ok(())),
                true => Some(self.append_covers(session, &with_holes)),
                false => None,
            };
            // The map says it already.
            session.draft.view.unlock_unchanged(&self.map);
            if let Some(outcome) = outcome {
                return outcome;
            }
            bytes = session.block.len() as u64;
        }
    }

    /// Locks partitions, and makes a block of their holes; returns those that have some.
    fn lock_and_encode_holes(&self, session: &mut Session, group: &[PartitionId]) -> Vec<PartitionId> {
        session.draft.begin();
        let Draft { writes, view, .. } = &mut session.draft;
        group.iter().for_each(|&id| view.lock_to_move(&self.map, id));
        let add = |&id: &PartitionId| {
            let before = writes.pieces().len();
            self.runs_of(&whole(id), Source::Hole, &mut Hint::default(), |hole, _| {
                let home = id.start().plus_bytes(hole.start as u64 * GRAIN);
                writes.free(home, (hole.end - hole.start) as u32);
            });
            writes.pieces().len() > before
        };
        let with_holes = group.iter().copied().filter(add).collect();
        session.block.encode(writes, writes.pieces(), &[], Role::Whole);
        with_holes
    }

    fn append_covers(&self, session: &mut Session, ids: &[PartitionId]) -> Result<()> {
        let version = self.clock.fetch_add(1, Ordering::AcqRel) + 1;
        session.append(&self.log, version)?;
        let chunk = session.chunk().expect("appended to it").id;
        let bytes = (session.block.len() / ids.len()) as u32;
        let mut common = self.places.common();
        ids.iter().for_each(|&id| common.covers.insert(id, Cover { version, chunk, bytes }));
        Ok(())
    }
}
