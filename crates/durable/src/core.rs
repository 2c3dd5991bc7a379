//! What a heap and its threads share: the log, the map of it, and what transactions need.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use aquifer_base::limits::{LOG_GRAIN_BYTES, PARTITION_BYTES};
use aquifer_log::geometry::SegmentId;
use aquifer_map::partitions::Partitions;
use aquifer_sys::Backoff;
use aquifer_sys::counter::Counter;

use crate::access::Transactional;
use crate::background::Pulse;
use crate::checkpoint::Checkpoints;
use crate::cleaner::Places;
use crate::durability::Later;
use crate::error::{Error, Result};
use crate::homes::{self, Homes, SizeClass};
use crate::log::{Log, Purpose};
use crate::session::Session;
use crate::sessions::{Apart, Sessions};
use crate::transaction::Transaction;
use crate::tuning::Tuning;

/// More than the map takes for all that sessions write to their chunks.
const MAP_ROOM_MIN: usize = 4 << 30;
/// How often a transaction waits for others before it says that there is no room.
const WAITS_MAX: u32 = 200;

/// All of a heap but its threads.
pub(crate) struct Core {
    pub(crate) log: Log,
    pub(crate) map: Partitions,
    pub(crate) homes: Homes,
    /// The newest version that was given out.
    pub(crate) clock: Apart<AtomicU64>,
    /// Transactions that changed something.
    pub(crate) commits: Counter,
    pub(crate) places: Places,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) pulse: Pulse,
    /// Whether its file is only looked at.
    pub(crate) is_read_only: bool,
    sessions: Sessions<Session>,
    /// If commits do not wait for durability.
    pub(crate) later: Option<Later>,
    /// For the table of areas, to which a transaction adds one that has a session already.
    areas: Mutex<Session>,
}

impl Core {
    /// An empty heap with this log, which may have one to be recovered. `later` if its commits do not wait for durability.
    pub(crate) fn new(log: Log, later: Option<Later>, tuning: &Tuning) -> Result<Self> {
        let refused = |errno: aquifer_sys::Errno| std::io::Error::from_raw_os_error(errno.0);
        let homes = Homes::new(log.home_bytes);
        let map = Partitions::new(log.capacity_bytes)
            .map_err(refused)
            .map_err(Error::io("reserving address space"))?;
        Ok(Self {
            is_read_only: log.persist.is_read_only(),
            log,
            map: map.joining(tuning.joins_extents),
            homes,
            clock: Apart(AtomicU64::new(0)),
            commits: Counter::default(),
            places: Places::default(),
            checkpoints: Checkpoints::default(),
            pulse: Pulse::default(),
            sessions: Sessions::new(|_| Session::new(later.as_ref().map(Later::add_session), tuning)),
            later,
            areas: Mutex::default(),
        })
    }

    /// The first transaction: the root and the table of areas.
    pub(crate) fn format(&self) -> Result<()> {
        let session = self.areas.lock().unwrap_or_else(PoisonError::into_inner);
        let mut transaction = Transaction::begin(self, session);
        transaction.format()?;
        transaction.commit()
    }

    /// Makes an area of home space one for objects of a class.
    pub(crate) fn give_area(&self, area: u32, class: SizeClass) -> Result<()> {
        self.store_class(area, class, |_| ())?;
        // What the last block of a chunk says can be lost unnoticed, and all objects of the area depend on it. So it is said again, before and
        // behind more than a bad block has. Without room for that it is as it was.
        let grains = (PARTITION_BYTES / LOG_GRAIN_BYTES) as u32;
        let put =
            |tx: &mut Transaction<'_>| tx.put(homes::SCRATCH, grains, Some(|bytes: &mut [u8]| bytes.fill(1)));
        let take = |tx: &mut Transaction<'_>| tx.take(homes::SCRATCH, grains);
        for again in [&put as &dyn Fn(&mut Transaction<'_>), &take] {
            if let Err(error @ Error::Io { .. }) = self.store_class(area, class, again) {
                return Err(error);
            }
        }
        self.homes.add_area(area, class);
        Ok(())
    }

    /// Stores the class of an area, and does something `more` in the same transaction.
    fn store_class(&self, area: u32, class: SizeClass, more: impl Fn(&mut Transaction<'_>)) -> Result<()> {
        let mut backoff = Backoff::new();
        loop {
            let session = self.areas.lock().unwrap_or_else(PoisonError::into_inner);
            let mut transaction = Transaction::begin(self, session);
            let stored = transaction.store(homes::class_home(area), &class.0.to_le_bytes());
            more(&mut transaction);
            match stored.and_then(|()| transaction.commit()) {
                Err(Error::Conflict) => backoff.wait(),
                outcome => return outcome,
            }
        }
    }

    /// RAM of the buffers of sessions that no thread has now.
    #[cfg(test)]
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.sessions.idle().map(|session| session.buffer_bytes()).sum()
    }

    /// Gives the free slots of sessions back that no thread has now.
    #[cold]
    pub(crate) fn give_slots_back(&self) {
        self.sessions.idle().for_each(|mut session| session.draft.give_slots_back(&self.homes));
    }

    /// See [`DurableHeap::sync`](crate::DurableHeap::sync).
    pub(crate) fn sync(&self) -> Result<()> {
        self.later.as_ref().map_or(Ok(()), |later| later.sync(&self.log, &self.clock))
    }

    /// How large the file may become.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.log.capacity_bytes
    }

    /// Sees that `session` has room for its block, by cleaning if need be. Nothing is locked.
    #[inline]
    pub(crate) fn make_room(&self, session: &mut Session) -> Result<()> {
        if session.has_room() { Ok(()) } else { self.make_room_in_another_chunk(session) }
    }

    #[cold]
    fn make_room_in_another_chunk(&self, session: &mut Session) -> Result<()> {
        let purpose = self.purpose_of(session.draft.writes.pieces());
        let (mut backoff, mut waits) = (Backoff::new(), 0);
        while !session.has_room() {
            let id = match self.take_chunk(purpose) {
                // What others that are about to end hold is not missing for long; what this one holds can be cleaned.
                Err(error) if error.is_full() && session.end_chunk(&self.log, &self.clock) => continue,
                Err(error) if error.is_full() && waits < WAITS_MAX && self.sessions.are_others_busy() => {
                    waits += 1;
                    backoff.wait();
                    continue;
                }
                taken => taken?,
            };
            let now = || self.clock.load(Ordering::Acquire);
            let full = session.go_on_with(id, &self.log, &self.clock, now)?;
            full.iter().for_each(|chunk| self.log.seal(chunk));
        }
        Ok(())
    }

    /// Ends the chunks of sessions that no thread has now and that have not gone on while `age` others were sealed: they can be cleaned then, and do not
    /// keep what is only needed because of them. Whether there were any.
    pub(crate) fn end_chunks(&self, age: u32) -> bool {
        let mut have_ended = false;
        for mut session in self.sessions.idle().filter(|session| session.age(&self.log) >= age) {
            have_ended |= session.end_chunk(&self.log, &self.clock);
        }
        have_ended
    }

    /// Ends all chunks, because the heap is about to be closed: then damage to the last blocks, too, is told from writes that were under way.
    pub(crate) fn end_all_chunks(&self) {
        self.end_chunks(0);
        self.areas.lock().unwrap_or_else(PoisonError::into_inner).end_chunk(&self.log, &self.clock);
        self.places.common().end_chunks(&self.log, &self.clock, 0);
    }

    /// Refuses to write more if the map of what is written may have no room. What frees goes on.
    fn ensure_map_has_room(&self, purpose: Purpose) -> Result<()> {
        let (room, taken) = (self.map.room_bytes(), self.map.ram_bytes() as u64);
        match purpose {
            Purpose::Write | Purpose::Change if room < MAP_ROOM_MIN => Err(Error::TooLarge {
                what: "the address map of a durable heap",
                bytes: taken + MAP_ROOM_MIN as u64,
                limit: taken + room as u64,
            }),
            _ => Ok(()),
        }
    }

    /// A chunk to fill, by cleaning if need be. Nothing is locked.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::TooLarge`] if the map has no room for what may be in the chunk, [`Error::Io`], also if the disk has no room for
    /// the file to grow.
    #[cold]
    pub(crate) fn take_chunk(&self, purpose: Purpose) -> Result<SegmentId> {
        self.ensure_map_has_room(purpose)?;
        loop {
            if let Some(id) = self.log.take(purpose)? {
                if self.log.is_low() || self.checkpoints.is_due(self.log.seals()) {
                    self.pulse.wake();
                }
                return Ok(id);
            }
            // The heap's thread may have stopped when there was room, or when this one had the last victims.
            self.pulse.wake();
            if let Some(id) = self.take_cleaned(purpose)? {
                return Ok(id);
            }
            if self.log.grow_anyway(purpose)? {
                continue;
            }
            if let Some(id) = self.take_last(purpose)? {
                return Ok(id);
            }
            if !self.checkpoints.abandon(&self.log) && !self.end_chunks(0) {
                return Err(self.log.full());
            }
        }
    }
}

impl Transactional for Core {
    type Transaction<'a> = Transaction<'a>;

    #[inline]
    fn begin(&self) -> Transaction<'_> {
        Transaction::begin(self, self.sessions.take())
    }
}
