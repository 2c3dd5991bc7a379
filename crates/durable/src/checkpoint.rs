//! Checkpoints: the map as it was, so that opening the heap need not read all of the log. They save time and nothing else: without one, or with
//! one that is damaged, recovery reads every chunk.
//!
//! A checkpoint is written beside commits and cleaning, into chunks of its own:
//!
//! 1. While the cleaner is at rest: take the newest version `opened`, and the list of the chunks that are sealed. What their blocks say
//!    is in the map.
//! 2. Copy the partitions one after the other, each when nobody has locked it. A transaction holds its locks from before it takes its
//!    version until it is in the map, so that all up to `opened` are in the copies, and of each partition all up to its own version.
//! 3. Make durable what is in the copies, then write the last chunk of the checkpoint: now it counts. The one before is given up.
//!
//! Recovery puts the copies into the map, and then of the blocks in other chunks what is newer than the partition's version. What the
//! cleaner has copied is there twice then; both are the same bytes. The holes that recovery needs are newer than `opened`: while a
//! checkpoint counts, the cleaner keeps them as if its chunks held transactions of that age.

mod header;
mod record;
mod writer;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aquifer_log::geometry::SegmentId;

use crate::core::Core;
use crate::error::Result;
use crate::log::Log;
pub use header::{DamagedPart, HEADER_BYTES, Header};
pub use record::{Record, Records};
use writer::Writer;

/// The newest checkpoint, and when there is another one.
#[derive(Default)]
pub(crate) struct Checkpoints {
    newest: Mutex<Newest>,
    /// Chunks that were sealed when it was begun.
    begun_at: AtomicU32,
    /// After how many more another one is written; 0 for never.
    interval: AtomicU32,
    /// Nobody wants the one that recovery has found.
    is_unwanted: AtomicBool,
}

#[derive(Default)]
struct Newest {
    /// How many there have been.
    number: u64,
    /// Its chunks.
    chunks: Vec<SegmentId>,
    /// It has all that was committed up to this version.
    opened: u64,
}

impl Checkpoints {
    fn newest(&self) -> MutexGuard<'_, Newest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over what recovery has found: how many there have been, and the newest, if it counts.
    pub(crate) fn restore(&self, number: u64, chunks: Vec<SegmentId>, opened: u64) {
        *self.newest() = Newest { number, chunks, opened };
    }

    /// Nobody wants the newest: it is given up as soon as all that it has spared recovery was verified.
    pub(crate) fn abandon_later(&self, log: &Log) {
        self.is_unwanted.store(true, Ordering::Relaxed);
        self.abandon_unwanted(log);
    }

    /// Gives the newest up if nobody wants it and it has spared recovery nothing that was not verified. Not for passes of the cleaner, for which
    /// who writes a checkpoint waits.
    pub(crate) fn abandon_unwanted(&self, log: &Log) {
        if self.is_unwanted.load(Ordering::Relaxed) && log.unread.is_empty() {
            self.is_unwanted.store(false, Ordering::Relaxed);
            self.abandon(log);
        }
    }

    /// Gives the newest to the cleaner, because nobody wants it or its room is needed; false if there is none, or it is all that is left of
    /// a block: then recovery without it would take that for one that was never written.
    pub(crate) fn abandon(&self, log: &Log) -> bool {
        log.unread.all().into_iter().for_each(|id| _ = log.verify(id));
        if !log.unread.is_empty() {
            return false;
        }
        let mut newest = self.newest();
        let (opened, had_some) = (newest.opened, !newest.chunks.is_empty());
        newest.chunks.drain(..).for_each(|id| log.abandon_apart(id, opened));
        had_some
    }

    /// Sets the number of chunks after which the next checkpoint is due.
    pub(crate) fn set_interval(&self, chunks: u32) {
        self.interval.store(chunks, Ordering::Relaxed);
    }

    /// Whether it is time for another one.
    pub(crate) fn is_due(&self, seals: u32) -> bool {
        let interval = self.interval.load(Ordering::Relaxed);
        interval > 0 && seals.wrapping_sub(self.begun_at.load(Ordering::Relaxed)) >= interval
    }

    /// Whether the newest has all that was committed up to `version`.
    pub(crate) fn is_of(&self, version: u64) -> bool {
        let newest = self.newest();
        !newest.chunks.is_empty() && newest.opened == version
    }
}

impl Core {
    /// See [`DurableHeap::checkpoint`](crate::DurableHeap::checkpoint).
    pub(crate) fn checkpoint(&self) -> Result<bool> {
        let mut newest = self.checkpoints.newest();
        // If there is no room, it is tried again when as much was written once more.
        self.checkpoints.begun_at.store(self.log.seals(), Ordering::Relaxed);
        let Some(mut writer) = Writer::begin(self, newest.number + 1)? else { return Ok(false) };
        let outcome = writer.write().and_then(|is_whole| if is_whole { writer.finish() } else { Ok(false) });
        if !matches!(outcome, Ok(true)) {
            let given_up = writer.give_up();
            return outcome.and_then(|counts| given_up.map(|()| counts));
        }
        newest.opened = writer.opened();
        let before = std::mem::replace(&mut newest.chunks, writer.chunks());
        newest.number += 1;
        self.checkpoints.is_unwanted.store(false, Ordering::Relaxed);
        before.into_iter().try_for_each(|id| self.log.release_apart(id))?;
        Ok(true)
    }
}
