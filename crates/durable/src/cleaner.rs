//! Copies what is still needed out of chunks, and frees them.
//!
//! 1. Choose the chunks whose cleaning is worth most, by free space gained and age (Rosenblum and Ousterhout 1992, section 3.6; Rumble,
//!    Kejriwal and Ousterhout, "Log-structured Memory for DRAM-based Storage", FAST 2014).
//! 2. Collect the entries of their blocks ([`survivors`]), and sort them by home address.
//! 3. Ask the map, in that order and under the partitions' locks, what of them is needed. Append it in blocks that share their headers, as
//!    transactions that change nothing; point the map there ([`copy`]). What was written piece by piece meets its neighbours again.
//! 4. Say that no chunk counts any more that is older than all others now, if one of these was the oldest ([`record`](crate::record)).
//! 5. Take the chunks' headers away durably, then use the chunks again.
//!
//! Several threads can clean at the same time, each its own victims ([`places`]).
//!
//! **Frees.** A hole in a block keeps older versions of its bytes from being found by recovery. It is kept until they
//! are allocated again, or until every chunk in use was opened after it: then there are no older versions, also not in a chunk whose header was taken
//! away and is there again, because the write was lost. What is kept is copied like bytes,
//! or as a part of all holes of its partition, after which older ones are needed no more ([`covers`], [`holes`]). The same goes for the last
//! part of a transaction in parts: it is kept as an entry while there can be other parts.

mod copy;
mod covers;
mod holes;
mod places;
mod survivors;

use std::sync::RwLockWriteGuard;
use std::sync::atomic::Ordering;

use aquifer_log::geometry::SegmentId;
use aquifer_log::segment::State;
use aquifer_log::victim::{CostBenefit, Greedy, VictimPolicy};

use crate::chunk::VERSION_MAX;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::log::{Oldest, Purpose};
pub(crate) use places::Places;
use places::{Common, Place};

/// Chunks that are cleaned together.
const VICTIMS_MAX: usize = 16;
/// Bytes of the chunks that are cleaned together; two at least.
const VICTIM_BYTES_MAX: usize = 64 << 20;
/// What a pass must gain to be worth it, as a share of a chunk: one in this many.
const GAIN_MIN: u64 = 64;
/// The last versions are not the cleaner's, which does not look at each that it takes.
const VERSIONS_KEPT: u64 = 1 << 20;
/// Fuller chunks are not worth their cleaning.
const UTILISATION_MAX: f64 = 0.98;

/// What cleaning has done since the heap was opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Cleaned {
    /// Chunks.
    pub chunks: u64,
    /// Bytes of objects that were copied.
    pub copied_bytes: u64,
    /// Chunks that are not what was written there, and were left as they are.
    pub damaged_chunks: u64,
}

impl Core {
    /// Keeps the cleaner at rest. Waits for the passes under way.
    pub(crate) fn cleaner(&self) -> RwLockWriteGuard<'_, ()> {
        self.places.at_rest()
    }

    /// What cleaning has done.
    pub(crate) fn cleaned(&self) -> Cleaned {
        let common = self.places.common();
        let damaged_chunks = common.damaged.len() as u64;
        Cleaned { chunks: common.cleaned, copied_bytes: common.copied_bytes, damaged_chunks }
    }

    /// See [`DurableHeap::clean`](crate::DurableHeap::clean).
    pub(crate) fn clean(&self) -> Result<bool> {
        self.checkpoints.abandon_unwanted(&self.log);
        self.clean_at(&mut self.places.take(&self.log))
    }

    /// A chunk, after cleaning if there is none; `None` if that gained no room.
    pub(crate) fn take_cleaned(&self, purpose: Purpose) -> Result<Option<SegmentId>> {
        loop {
            let turns = self.places.turns();
            // Others may have cleaned while this one waited for them.
            if let Some(id) = self.log.take(purpose)? {
                return Ok(Some(id));
            }
            self.checkpoints.abandon_unwanted(&self.log);
            let Some(mut place) = self.places.try_take(&self.log) else {
                self.places.wait_past(turns);
                continue;
            };
            let has_gained = self.clean_at(&mut place)?;
            drop(place);
            if has_gained {
                continue;
            }
            let turns = self.places.turns();
            if let Some(id) = self.log.take(purpose)? {
                return Ok(Some(id));
            }
            // What other passes are about to gain is not missing for long.
            if !self.places.wait_past(turns) {
                return Ok(None);
            }
        }
    }

    /// A chunk of those that are kept for passes, if cleaning gains nothing and there are some. No pass is promised them.
    pub(crate) fn take_last(&self, purpose: Purpose) -> Result<Option<SegmentId>> {
        let _none_begins = self.places.when_nothing_is_promised();
        self.log.take_last(purpose)
    }

    /// What both passes gain counts together: one could undo the other for ever.
    fn clean_at(&self, place: &mut Place) -> Result<bool> {
        let gain_min = self.gain_min() as i64;
        let gained = self.clean_by(&CostBenefit, place)?;
        if gained >= gain_min {
            return Ok(true);
        }
        // What the better policy chooses may be old and nearly full; the emptiest chunks gain something if anything does.
        Ok(gained + self.clean_by(&Greedy, place)? >= gain_min)
    }

    /// Returns how many bytes of room that gains; it can be less than none.
    fn clean_by(&self, policy: &dyn VictimPolicy, place: &mut Place) -> Result<i64> {
        if self.clock.load(Ordering::Relaxed) > VERSION_MAX - VERSIONS_KEPT {
            return Ok(0);
        }
        if !self.choose_victims(policy, place) {
            return Ok(0);
        }
        // A victim may have been sealed since then, with frees that are newer than what it was compared with.
        let oldest = self.log.oldest(&self.clock);
        let victims = self.collect_all(place, &oldest)?;
        if victims.is_empty() {
            return Ok(0);
        }
        let filled = place.filled;
        let covered = self.choose_covered(&mut place.survivors, victims.len(), filled);
        let room = self.log.block_bytes_max() as u64;
        let (opened, left) = (place.session.opened, place.session.room());
        let (copied_bytes, has_room) = self.copy_survivors(place, &victims)?;
        self.write_covers(place, &covered)?;
        // What is behind the floor does not count, so that the copies must be below it before there are no others.
        self.sync()?;
        let released = self.release_all(&victims, has_room, &oldest)?;
        self.places.common().copied_bytes += copied_bytes;
        // With what is left over at the ends of chunks.
        let used = (place.session.opened - opened) * room + left - place.session.room();
        Ok((released as u64 * room) as i64 - used as i64)
    }

    /// Releases the victims that have nothing any more, of which frees were left out that are as old as `oldest`; returns how many. If the pass had room for
    /// all of them, the others are damaged.
    fn release_all(&self, victims: &[SegmentId], has_room: bool, oldest: &Oldest) -> Result<usize> {
        let is_empty = |&&victim: &&SegmentId| self.log.table.live_bytes(victim) == 0;
        let (empty, others): (Vec<_>, Vec<_>) = victims.iter().partition(is_empty);
        // Holes of the oldest chunk alone can be older than all others. What they hide must not count again, whatever becomes of the headers that are taken away now
        // or were before.
        if let Some(victim) = oldest.of().filter(|victim| empty.contains(victim)) {
            self.log.raise_oldest(oldest.but(victim))?;
        }
        for &victim in &empty {
            self.log.release(victim)?;
            self.places.turn();
        }
        let mut common = self.places.common();
        common.cleaned += empty.len() as u64;
        if has_room {
            common.damaged.extend(others);
        }
        Ok(empty.len())
    }

    /// Collects what is needed of the victims, and leaves out the last ones if holes make that too much; returns the others.
    fn collect_all(&self, place: &mut Place, oldest: &Oldest) -> Result<Vec<SegmentId>> {
        let Place { survivors, victims, filled, .. } = place;
        survivors.clear(self.log.superblock.chunk_bytes);
        let chunk_bytes = u64::from(self.log.superblock.chunk_bytes);
        // The last victim may take more than its bytes; half of a chunk is left for that.
        let most = (*filled as u64 - 1) * chunk_bytes - if *filled > 2 { chunk_bytes / 2 } else { 0 };
        let mut collected = Vec::new();
        for &victim in &*victims {
            let before = survivors.counts();
            match self.collect(victim, oldest.but(victim), survivors) {
                Ok(()) => collected.push(victim),
                Err(Error::Damaged { .. }) => {
                    survivors.truncate(before);
                    self.places.common().damaged.insert(victim);
                }
                Err(error) => return Err(error),
            }
            if survivors.copied_bytes() > most {
                break;
            }
        }
        Ok(collected)
    }

    fn gain_min(&self) -> u64 {
        u64::from(self.log.superblock.chunk_bytes) / GAIN_MIN
    }

    /// Begins a pass: chooses the chunks that are worth most, with so little in them that copying it leaves room; false if that is too
    /// little.
    fn choose_victims(&self, policy: &dyn VictimPolicy, place: &mut Place) -> bool {
        let mut common = self.places.common();
        common.end(place);
        let Some(chunks) = common.chunks_for_pass(&self.log, &self.clock) else { return false };
        let victims = self.victims(policy, &common, chunks);
        let are_any = !victims.is_empty();
        if are_any {
            common.begin(place, victims, chunks);
        }
        are_any
    }

    fn victims(&self, policy: &dyn VictimPolicy, common: &Common, chunks: usize) -> Vec<SegmentId> {
        let Common { covers, damaged, victims: others, .. } = common;
        let (table, room) = (&self.log.table, self.log.block_bytes_max() as f64);
        let (now, oldest) = (self.log.seals(), self.log.oldest(&self.clock));
        let chunk_bytes = u64::from(self.log.superblock.chunk_bytes);
        let needed =
            |id: SegmentId| u64::from(table.live_bytes(id)) + covers.needed_bytes(id, oldest.but(id));
        let mut candidates: Vec<_> = table
            .in_state(State::Sealed)
            .filter(|id| !damaged.contains(id) && !others.contains(id))
            .map(|id| (id, needed(id) as f64 / room))
            .filter(|&(_, utilisation)| utilisation < UTILISATION_MAX)
            .map(|(id, utilisation)| (id, policy.worth(utilisation, now.wrapping_sub(table.sealed_at(id)))))
            .collect();
        candidates.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut victims = Vec::new();
        let (mut copied, mut gained) = (0, 0);
        let most = (VICTIM_BYTES_MAX / chunk_bytes as usize).clamp(2, VICTIMS_MAX);
        for (id, _) in candidates.into_iter().take(most) {
            let live = needed(id);
            if copied + live > chunks as u64 * chunk_bytes {
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
}

#[cfg(test)]
mod tests;
