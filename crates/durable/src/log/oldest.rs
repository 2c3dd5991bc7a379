//! How old chunks in use are: what older frees hide is in none of them.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use aquifer_log::geometry::SegmentId;
use aquifer_log::segment::State;

use super::Log;
use crate::error::Result;

/// The oldest versions that chunks in use were opened at.
pub(crate) struct Oldest {
    first: u64,
    of: Option<SegmentId>,
    second: u64,
}

impl Oldest {
    fn add(&mut self, id: SegmentId, opened: u64) {
        if opened < self.first {
            (self.first, self.of, self.second) = (opened, Some(id), self.first);
        } else {
            self.second = self.second.min(opened);
        }
    }

    /// A chunk that is not the oldest one was opened at this version.
    fn bound(&mut self, opened: u64) {
        self.first = self.first.min(opened);
        self.second = self.second.min(opened);
    }

    /// Which chunk in use was opened first.
    pub(crate) fn of(&self) -> Option<SegmentId> {
        self.of
    }

    /// The oldest version that a chunk in use but `except` was opened at: no other one has older transactions.
    pub(crate) fn but(&self, except: SegmentId) -> u64 {
        if self.of == Some(except) { self.second } else { self.first }
    }
}

impl Log {
    /// Counts a chunk that was taken as in use, and as older than all others until it is open: what it will be opened at is read from the clock
    /// after that, or is older.
    pub(crate) fn reserve(&self, id: SegmentId) {
        self.opened[id.0 as usize].store(0, Ordering::Relaxed);
        self.table.set_state(id, State::Open);
        // Before the clock is read; with the fence of `oldest`.
        fence(Ordering::SeqCst);
    }

    /// What chunks in use were opened at, those included that are opened meanwhile, and no more than what `clock` says before.
    pub(crate) fn oldest(&self, clock: &AtomicU64) -> Oldest {
        let now = clock.load(Ordering::Acquire);
        let mut oldest = Oldest { first: now, of: None, second: now };
        for round in 0..2 {
            for id in [State::Open, State::Sealed].into_iter().flat_map(|state| self.table.in_state(state)) {
                let opened = self.opened[id.0 as usize].load(Ordering::Acquire);
                match round {
                    0 => oldest.add(id, opened),
                    _ if oldest.of != Some(id) => oldest.bound(opened),
                    _ => {}
                }
            }
            // A thread that reserves a chunk after the first round reads a clock that is no older than what that round has found. The second round
            // finds the chunks that were reserved before.
            fence(Ordering::SeqCst);
        }
        oldest
    }

    /// No chunk counts that was opened before this version.
    pub(crate) fn durable_oldest(&self) -> u64 {
        self.durable_oldest.lock().unwrap_or_else(PoisonError::into_inner).value
    }

    /// Lets no chunk count any more that was opened before `version`. What is needed of those that there are is durable elsewhere.
    ///
    /// # Errors
    /// The device refused.
    ///
    /// # Durability
    /// Durable when this returns.
    pub(crate) fn raise_oldest(&self, version: u64) -> Result<()> {
        let mut oldest = self.durable_oldest.lock().unwrap_or_else(PoisonError::into_inner);
        if oldest.value >= version {
            return Ok(());
        }
        oldest.write(&*self.persist, self.superblock.id, version)
    }
}
