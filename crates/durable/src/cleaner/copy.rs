//! Survivors on their way to another chunk.

use std::sync::atomic::Ordering;

use aquifer_base::HomeAddress;
use aquifer_base::limits::LOG_GRAIN_BYTES;
use aquifer_map::partitions::{Source, portions};

use super::survivors::{Survivor, Survivors};
use crate::block::{self, Role};
use crate::core::Core;
use crate::draft::Draft;
use crate::error::{Error, Result};
use crate::log::Purpose;
use crate::session::Session;

const GRAIN: u64 = LOG_GRAIN_BYTES as u64;
/// Bytes that are copied while their partitions are locked.
const GROUP_BYTES: u64 = 16 << 10;
/// Entries that are copied at a time, however small.
const GROUP_ENTRIES: usize = 256;
/// Less is left over at the end of a chunk.
pub(super) const FIT_MIN_BYTES: u64 = 512;

/// Bytes that the block of a group has at most. Holes and zeros may overlap, and then make more pieces.
fn bytes_max(entries: usize, bytes: u64) -> u64 {
    block::bytes_max(2 * entries, bytes / GRAIN)
}

/// How many of the first survivors fit a block of `room` bytes, one at least, and how large their block is at most.
fn group(survivors: &[Survivor], commits: usize, room: u64) -> (usize, u64) {
    let (mut count, mut bytes) = (0, 0);
    for survivor in survivors.iter().take(GROUP_ENTRIES) {
        let more = bytes + survivor.bytes();
        if count > 0 && bytes_max(commits + count + 1, more) > room {
            break;
        }
        (count, bytes) = (count + 1, more);
    }
    (count, bytes_max(commits + count, bytes))
}

impl Core {
    /// Copies all that is still needed; returns how many bytes of objects that were.
    pub(super) fn copy_survivors(&self, session: &mut Session, survivors: &mut Survivors) -> Result<u64> {
        survivors.runs.sort_unstable_by_key(|survivor| survivor.start);
        let (mut rest, mut commits) = (&survivors.runs[..], &survivors.commits[..]);
        let mut copied = 0;
        while !rest.is_empty() || !commits.is_empty() {
            // What is left of the chunk is used up.
            let room = Some(session.room()).filter(|&room| room >= FIT_MIN_BYTES).unwrap_or(GROUP_BYTES);
            let (with, later) = commits.split_at(commits.len().min(GROUP_ENTRIES));
            let (count, bytes_max) = group(rest, with.len(), room.min(GROUP_BYTES));
            let (group, others) = rest.split_at(count);
            copied += self.copy_group(session, group, with, bytes_max)?;
            (rest, commits) = (others, later);
        }
        Ok(copied)
    }

    /// Copies a group, in the order of home addresses, as one transaction that changes nothing. `bytes` is what its block will have at
    /// most, unless somebody overwrites parts of many runs just now.
    fn copy_group(
        &self,
        session: &mut Session,
        group: &[Survivor],
        commits: &[u64],
        mut bytes: u64,
    ) -> Result<u64> {
        loop {
            self.make_cleaners_room(session, bytes)?;
            self.lock_and_encode(session, group, commits);
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
            bytes = 2 * session.block.len() as u64;
        }
    }

    fn lock_and_encode(&self, session: &mut Session, group: &[Survivor], commits: &[u64]) {
        session.draft.begin();
        for survivor in group {
            for portion in portions(survivor.start, survivor.grains) {
                session.draft.view.lock_to_move(&self.map, portion.id);
            }
        }
        group.iter().for_each(|survivor| self.add_if_needed(&mut session.draft, survivor));
        let writes = &session.draft.writes;
        session.block.encode(writes, writes.pieces(), commits, Role::Whole);
    }

    /// Adds what of a survivor is still where it was to what is written.
    fn add_if_needed(&self, draft: &mut Draft, survivor: &Survivor) {
        let Draft { writes, hints, .. } = draft;
        for portion in portions(survivor.start, survivor.grains) {
            let source = survivor.source.plus(portion.before as usize);
            let hint = hints.of(survivor.start + u64::from(portion.before));
            self.runs_of(&portion, source, hint, |run| {
                let home = HomeAddress(run.start * GRAIN);
                match run.source {
                    Source::Hole => writes.free(home, run.grains),
                    Source::Zeros => writes.allocate(home, run.grains),
                    Source::Log(grain) => writes.write_from(home, run.grains, |out| {
                        self.log.persist.read(u64::from(grain) * GRAIN, out);
                    }),
                }
            });
        }
    }

    fn append_copies(&self, session: &mut Session) -> Result<u64> {
        let version = self.clock.fetch_add(1, Ordering::AcqRel) + 1;
        let at = session.append(&self.log, version)?;
        Ok(self.enter_block(session, at))
    }

    /// Makes room for `bytes` in the session's chunk, or gives the session another chunk.
    pub(super) fn make_cleaners_room(&self, session: &mut Session, bytes: u64) -> Result<()> {
        if session.room() < bytes {
            let taken = self.log.take(Purpose::Clean)?;
            let id = taken.ok_or(Error::Full { capacity_bytes: self.capacity_bytes() })?;
            let full = session.go_on_with(id, &self.log, self.clock.load(Ordering::Acquire))?;
            full.iter().for_each(|chunk| self.log.seal(chunk));
        }
        Ok(())
    }
}
