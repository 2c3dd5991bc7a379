//! Copies what is still needed out of chunks, and frees them.
//!
//! 1. Choose the chunks whose cleaning is worth most, by free space gained and age (Rosenblum and Ousterhout 1992, section 3.6; Rumble,
//!    Kejriwal and Ousterhout, "Log-structured Memory for DRAM-based Storage", FAST 2014).
//! 2. Collect from their blocks what the map still points to ([`survivors`]).
//! 3. Append it in the order of home addresses, in blocks that share their headers, as transactions that change nothing; point the map
//!    there ([`copy`]). What was written piece by piece meets its neighbours again.
//! 4. Take the chunks' headers away durably, then use the chunks again.
//!
//! **Frees.** A hole in a block keeps older versions of its bytes from being found by recovery. It is kept until they
//! are allocated again, or until every chunk in use was opened after it: then there are no older versions. What is kept is copied like bytes,
//! or as a part of all holes of its partition, after which older ones are needed no more ([`covers`], [`holes`]). The same goes for the last
//! part of a transaction in parts: it is kept as an entry while there can be other parts.

mod copy;
mod covers;
mod holes;
mod survivors;

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use aquifer_log::geometry::SegmentId;
use aquifer_log::segment::State;
use aquifer_log::victim::{CostBenefit, Greedy, VictimPolicy};

use crate::chunk::VERSION_MAX;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::log::{CLEANED_MAX, Oldest, Purpose};
use crate::session::Session;
use covers::Covers;
use survivors::Survivors;

/// Chunks that are cleaned together.
const VICTIMS_MAX: usize = 16;
/// Live bytes that a pass copies, in chunks; with their entries and what is left over at the end of a chunk they are more.
const COPIED_MAX: u64 = CLEANED_MAX as u64 - 1;
/// What a pass must gain to be worth it, as a share of a chunk: one in this many.
const GAIN_MIN: u64 = 64;
/// The last versions are not the cleaner's, which does not look at each that it takes.
const VERSIONS_KEPT: u64 = 1 << 20;
/// Fuller chunks are not worth their cleaning.
const UTILISATION_MAX: f64 = 0.98;

/// What a pass needs, and what all of them did.
#[derive(Default)]
pub(crate) struct Cleaner {
    session: Session,
    survivors: Survivors,
    covers: Covers,
    /// Chunks that are not what was written there. They stay as they are.
    damaged: HashSet<SegmentId>,
    cleaned: u64,
    copied_bytes: u64,
}

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
    /// What the cleaner needs; it is at rest meanwhile.
    pub(crate) fn cleaner(&self) -> MutexGuard<'_, Cleaner> {
        self.cleaner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What cleaning has done.
    pub(crate) fn cleaned(&self) -> Cleaned {
        let cleaner = self.cleaner();
        let damaged_chunks = cleaner.damaged.len() as u64;
        Cleaned { chunks: cleaner.cleaned, copied_bytes: cleaner.copied_bytes, damaged_chunks }
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

    /// What both passes gain counts together: one could undo the other for ever.
    fn clean_with(&self, cleaner: &mut Cleaner) -> Result<bool> {
        let gain_min = self.gain_min() as i64;
        let gained = self.clean_by(&CostBenefit, cleaner)?;
        if gained >= gain_min {
            return Ok(true);
        }
        // What the better policy chooses may be old and nearly full; the emptiest chunks gain something if anything does.
        Ok(gained + self.clean_by(&Greedy, cleaner)? >= gain_min)
    }

    /// Returns how many bytes of room that gains; it can be less than none.
    fn clean_by(&self, policy: &dyn VictimPolicy, cleaner: &mut Cleaner) -> Result<i64> {
        if self.clock.load(Ordering::Relaxed) > VERSION_MAX - VERSIONS_KEPT {
            return Ok(0);
        }
        let oldest = self.log.oldest();
        let mut victims = self.victims(policy, cleaner, &oldest);
        if victims.is_empty() {
            return Ok(0);
        }
        // A victim may have been sealed since then, with frees that are newer than what it was compared with.
        self.collect_all(&mut victims, cleaner, &self.log.oldest())?;
        if victims.is_empty() {
            return Ok(0);
        }
        let Cleaner { session, survivors, covers, .. } = cleaner;
        let covered = self.choose_covered(survivors, victims.len());
        let room = self.log.block_bytes_max() as u64;
        let (opened, left) = (session.opened, session.room());
        cleaner.copied_bytes += self.copy_survivors(session, survivors)?;
        self.write_covers(session, &covered, covers)?;
        // What is behind the floor does not count, so that the copies must be below it before there are no others.
        self.sync()?;
        let (empty, damaged): (Vec<_>, Vec<_>) =
            victims.iter().partition(|&&victim| self.log.table.live_bytes(victim) == 0);
        empty.iter().try_for_each(|&victim| self.log.release(victim))?;
        cleaner.cleaned += empty.len() as u64;
        cleaner.damaged.extend(damaged);
        // With what is left over at the ends of chunks.
        let used = (cleaner.session.opened - opened) * room + left - cleaner.session.room();
        Ok((empty.len() as u64 * room) as i64 - used as i64)
    }

    /// Collects what is needed of the victims, and leaves out the last ones if holes make that too much.
    fn collect_all(
        &self,
        victims: &mut Vec<SegmentId>,
        cleaner: &mut Cleaner,
        oldest: &Oldest,
    ) -> Result<()> {
        let Cleaner { survivors, covers, damaged, .. } = cleaner;
        survivors.clear(self.log.superblock.chunk_bytes);
        let mut collected = Vec::new();
        for &victim in &*victims {
            let before = survivors.counts();
            match self.collect(victim, oldest.but(victim), survivors, covers) {
                Ok(()) => collected.push(victim),
                Err(Error::Damaged { .. }) => {
                    survivors.truncate(before);
                    damaged.insert(victim);
                }
                Err(error) => return Err(error),
            }
            if survivors.copied_bytes() > self.copied_max() {
                break;
            }
        }
        *victims = collected;
        Ok(())
    }

    fn copied_max(&self) -> u64 {
        COPIED_MAX * u64::from(self.log.superblock.chunk_bytes)
    }

    fn gain_min(&self) -> u64 {
        u64::from(self.log.superblock.chunk_bytes) / GAIN_MIN
    }

    /// Chunks that are worth most, with so little in them that copying it leaves room; none if that is too little.
    fn victims(&self, policy: &dyn VictimPolicy, cleaner: &Cleaner, oldest: &Oldest) -> Vec<SegmentId> {
        let Cleaner { covers, damaged, .. } = cleaner;
        let (table, room) = (&self.log.table, self.log.block_bytes_max() as f64);
        let now = self.log.seals();
        let needed =
            |id: SegmentId| u64::from(table.live_bytes(id)) + covers.needed_bytes(id, oldest.but(id));
        let mut candidates: Vec<_> = table
            .in_state(State::Sealed)
            .filter(|id| !damaged.contains(id))
            .map(|id| (id, needed(id) as f64 / room))
            .filter(|&(_, utilisation)| utilisation < UTILISATION_MAX)
            .map(|(id, utilisation)| (id, policy.worth(utilisation, now.wrapping_sub(table.sealed_at(id)))))
            .collect();
        candidates.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut victims = Vec::new();
        let (mut copied, mut gained) = (0, 0);
        for (id, _) in candidates.into_iter().take(VICTIMS_MAX) {
            let live = needed(id);
            if copied + live > self.copied_max() {
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
