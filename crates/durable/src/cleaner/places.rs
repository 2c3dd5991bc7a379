//! Which threads clean now, and what they share.
//!
//! A pass has a place, of which there are some: the thread of the heap cleans, and transactions that find no chunk help it. When all
//! places are taken, a transaction waits until a chunk is free, or a pass ends.
//!
//! Passes have different victims. Each is promised the chunks that it can fill, so that two that have begun both end.

use std::collections::HashSet;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::AtomicU64;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use aquifer_log::geometry::SegmentId;

use super::covers::Covers;
use super::survivors::Survivors;
use crate::log::Log;
use crate::session::Session;

/// What one pass at a time needs.
#[derive(Default)]
pub(super) struct Place {
    pub(super) session: Session,
    pub(super) survivors: Survivors,
    /// How many places there were before it.
    pub(super) number: usize,
    /// The chunks that the pass cleans.
    pub(super) victims: Vec<SegmentId>,
    /// Free chunks that it was promised.
    pub(super) filled: usize,
    /// Of them, those that it may still take.
    promised: usize,
}

impl Place {
    /// Free chunks that the pass may still take.
    pub(super) fn promised(&self) -> usize {
        self.promised
    }
}

/// What all passes share.
#[derive(Default)]
pub(crate) struct Common {
    pub(super) covers: Covers,
    /// Chunks that are not what was written there. They stay as they are.
    pub(super) damaged: HashSet<SegmentId>,
    /// Chunks that were cleaned.
    pub(super) cleaned: u64,
    pub(super) copied_bytes: u64,
    /// Victims of the passes under way.
    pub(super) victims: HashSet<SegmentId>,
    /// Free chunks that these may still take.
    promised: usize,
    /// Places that no pass has.
    idle: Vec<Place>,
    /// Places that there are.
    places: usize,
    /// Places that are taken.
    passes: usize,
    /// How often a chunk became free, or a pass ended.
    turns: u64,
    /// Threads that wait for a turn or a place.
    waiting: usize,
}

/// Chunks of places that no pass has are ended when this number of others were sealed since they were opened.
const IDLE_AGE: u32 = 64;

impl Common {
    /// Threads that wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many chunks a pass that begins now may copy: 0 if it must fill less than that. `None` if other passes need all room that there is.
    pub(super) fn chunks_for_pass(&mut self, log: &Log, clock: &AtomicU64) -> Option<usize> {
        // What they keep back would not be cleaned, and frees be kept because of it.
        self.end_chunks(log, clock, IDLE_AGE);
        let (passes, left) = log.passes();
        let free = left.saturating_sub(self.promised);
        (free > 0 || self.promised == 0).then(|| passes.filled_by_one().min(free).saturating_sub(1))
    }

    /// Ends the chunks of places that no pass has, of which `age` others were sealed since they were opened.
    pub(crate) fn end_chunks(&mut self, log: &Log, clock: &AtomicU64, age: u32) {
        for place in self.idle.iter_mut().filter(|place| place.session.age(log) >= age) {
            place.session.end_chunk(log, clock);
        }
    }

    /// A pass begins that copies up to `chunks` out of victims.
    pub(super) fn begin(&mut self, place: &mut Place, victims: Vec<SegmentId>, chunks: usize) {
        self.end(place);
        self.victims.extend(&victims);
        place.victims = victims;
        (place.filled, place.promised) = (chunks + 1, chunks + 1);
        self.promised += place.promised;
    }

    /// A pass has ended, however that came.
    pub(super) fn end(&mut self, place: &mut Place) {
        place.victims.drain(..).for_each(|victim| {
            self.victims.remove(&victim);
        });
        self.promised -= std::mem::take(&mut place.promised);
    }

    /// A pass has taken one of the chunks that it was promised.
    pub(super) fn take(&mut self, place: &mut Place) {
        let taken = place.promised.min(1);
        place.promised -= taken;
        self.promised -= taken;
    }
}

/// The places.
#[derive(Default)]
pub(crate) struct Places {
    common: Mutex<Common>,
    turned: Condvar,
    /// Held for reading by passes.
    rest: RwLock<()>,
}

/// A place that a thread has.
pub(super) struct Taken<'a> {
    places: &'a Places,
    /// There until it is dropped.
    place: Option<Place>,
    _working: RwLockReadGuard<'a, ()>,
}

impl Places {
    /// What all passes share.
    pub(crate) fn common(&self) -> MutexGuard<'_, Common> {
        self.common.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the passes under way; others begin when the guard is dropped.
    pub(super) fn at_rest(&self) -> RwLockWriteGuard<'_, ()> {
        self.rest.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place, unless as many passes as may be are under way.
    pub(super) fn try_take(&self, log: &Log) -> Option<Taken<'_>> {
        self.take_from(self.common(), log)
    }

    /// A place; waits for one.
    pub(super) fn take(&self, log: &Log) -> Taken<'_> {
        let common = self.wait_while(|common| common.passes >= log.passes().0.count);
        self.take_from(common, log).expect("there is one")
    }

    fn take_from<'a>(&'a self, common: MutexGuard<'a, Common>, log: &Log) -> Option<Taken<'a>> {
        let is_free = common.passes < log.passes().0.count;
        is_free.then(|| self.take_one(common))
    }

    fn take_one<'a>(&'a self, mut common: MutexGuard<'a, Common>) -> Taken<'a> {
        common.passes += 1;
        let place = common.idle.pop().unwrap_or_else(|| {
            common.places += 1;
            Place { number: common.places - 1, ..Place::default() }
        });
        drop(common);
        let _working = self.rest.read().unwrap_or_else(PoisonError::into_inner);
        Taken { places: self, place: Some(place), _working }
    }

    /// A place more than there may be.
    #[cfg(test)]
    pub(super) fn take_another(&self) -> Taken<'_> {
        self.take_one(self.common())
    }

    /// How often a chunk became free, or a pass ended.
    pub(super) fn turns(&self) -> u64 {
        self.common().turns
    }

    /// Waits until there was another turn than `turns`; false, without waiting, if no pass is under way that could bring it.
    pub(super) fn wait_past(&self, turns: u64) -> bool {
        self.wait_while(|common| common.turns == turns && common.passes > 0).turns != turns
    }

    /// Waits until no pass is promised any chunks; none begins while the guard is there.
    pub(super) fn when_nothing_is_promised(&self) -> MutexGuard<'_, Common> {
        self.wait_while(|common| common.promised > 0)
    }

    fn wait_while(&self, mut is_wanted: impl FnMut(&Common) -> bool) -> MutexGuard<'_, Common> {
        let mut common = self.common();
        common.waiting += 1;
        let waited = self.turned.wait_while(common, |common| is_wanted(common));
        common = waited.unwrap_or_else(PoisonError::into_inner);
        common.waiting -= 1;
        common
    }

    /// Has those look that wait.
    fn wake(&self, common: &Common) {
        if common.waiting > 0 {
            self.turned.notify_all();
        }
    }

    /// A chunk became free.
    pub(super) fn turn(&self) {
        let mut common = self.common();
        common.turns += 1;
        self.wake(&common);
    }
}

impl Deref for Taken<'_> {
    type Target = Place;

    fn deref(&self) -> &Place {
        self.place.as_ref().expect("not dropped yet")
    }
}

impl DerefMut for Taken<'_> {
    fn deref_mut(&mut self) -> &mut Place {
        self.place.as_mut().expect("not dropped yet")
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut common = self.places.common();
        common.passes -= 1;
        if let Some(mut place) = self.place.take() {
            // A thread that found nothing to clean wakes no others that would find the same.
            common.turns += u64::from(!place.victims.is_empty());
            common.end(&mut place);
            common.idle.push(place);
        }
        self.places.wake(&common);
    }
}
