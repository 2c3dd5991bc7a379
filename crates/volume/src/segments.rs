//! What is known of each segment: how much of it is still needed, and what may be done with it.

use std::collections::HashSet;

use crate::error::{Result, VolumeError};
use crate::medium::{Geometry, Medium};
use crate::word::{Physical, Word};

/// What may be done with a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Can be written.
    Free,
    /// Is written, or will be next.
    Open,
    /// Full, or failed while it was written. Becomes free, or bad, when nothing in it is needed and an anchor says so.
    Sealed,
    /// Holds anchors.
    Anchors,
    /// Not used any more, or never.
    Bad,
}

/// All segments of a volume. Only the writer has them.
#[derive(Debug)]
pub struct Segments {
    geometry: Geometry,
    /// How many hold anchors.
    anchors: u32,
    units: Vec<u32>,
    states: Vec<State>,
    /// Sequence of the last block in it, 0 if that was before the volume was opened.
    newest: Vec<u64>,
    live_units: u64,
    free: u32,
    /// Segments with something that the cleaner cannot move.
    stuck: HashSet<u32>,
    /// Segments for the log that are not written any more. Some hold something that is needed.
    bad: HashSet<u32>,
    /// Segments taken to be written since somebody looked.
    taken: u32,
    /// Whether recovery found a word that was not counted.
    is_miscounted: bool,
}

impl Segments {
    /// Those of a medium with nothing on it.
    #[must_use]
    pub fn new(medium: &dyn Medium) -> Self {
        let (geometry, anchors) = (medium.geometry(), medium.anchor_segments());
        let state = |segment| match segment {
            _ if segment < anchors => State::Anchors,
            _ if medium.is_bad(segment) => State::Bad,
            _ => State::Free,
        };
        let states: Vec<State> = (0..geometry.segments).map(state).collect();
        let free = states.iter().filter(|state| **state == State::Free).count() as u32;
        let bad = (0..geometry.segments).filter(|&segment| states[segment as usize] == State::Bad).collect();
        let none = vec![0; geometry.segments as usize];
        Segments {
            geometry,
            anchors,
            units: none,
            states,
            newest: vec![0; geometry.segments as usize],
            live_units: 0,
            free,
            stuck: HashSet::new(),
            bad,
            taken: 0,
            is_miscounted: false,
        }
    }

    /// Those of a medium whose anchor says how much of each is needed.
    #[must_use]
    pub fn from_units(medium: &dyn Medium, units: &[u32]) -> Self {
        let mut segments = Self::new(medium);
        for (segment, &units) in units.iter().enumerate() {
            segments.units[segment] = units;
            segments.live_units += u64::from(units);
            if units > 0 && segments.states[segment] != State::Anchors {
                segments.open(segment as u32);
                segments.seal(segment as u32, 0);
            }
        }
        segments
    }

    /// Pages of each.
    #[must_use]
    pub fn pages_per_segment(&self) -> u32 {
        self.geometry.pages_per_segment
    }

    /// How much of each is needed.
    #[must_use]
    pub fn units(&self) -> &[u32] {
        &self.units
    }

    /// What is needed of all.
    #[must_use]
    pub fn live_units(&self) -> u64 {
        self.live_units
    }

    /// Segments that can be written.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Counts what a word needs.
    pub fn add(&mut self, word: Word) {
        word.for_each_share(|at, units| {
            let segment = self.geometry.split(at).0 as usize;
            if let Some(count) = self.units.get_mut(segment) {
                *count = count.saturating_add(units);
                self.live_units += u64::from(units);
            }
        });
    }

    /// No longer counts it.
    ///
    /// # Errors
    /// [`VolumeError::Corrupt`] if it was not counted: then the table names a place more than once, or the anchor has other counts than its table.
    pub fn remove(&mut self, word: Word) -> Result<()> {
        if self.remove_found(word) {
            return Ok(());
        }
        let what = format!("its table names a place that its segments do not count ({word:?})");
        Err(VolumeError::Corrupt(what))
    }

    /// As [`Segments::remove`], of a word that flash had. Says whether it was counted: if not, the node with the word is older than the anchor.
    pub fn remove_found(&mut self, word: Word) -> bool {
        let mut was_counted = true;
        word.for_each_share(|at, units| {
            let segment = self.geometry.split(at).0 as usize;
            if let Some(count) = self.units.get_mut(segment) {
                let removed = units.min(*count);
                was_counted &= removed == units;
                *count -= removed;
                self.live_units -= u64::from(removed);
            }
        });
        self.is_miscounted |= !was_counted;
        was_counted
    }

    /// Whether a word was removed that was not counted.
    #[must_use]
    pub fn is_miscounted(&self) -> bool {
        self.is_miscounted
    }

    /// A free segment, which is open from now on: the one that was erased least often.
    pub fn take_free(&mut self, medium: &dyn Medium) -> Option<u32> {
        let is_free = |segment: &u32| self.states[*segment as usize] == State::Free;
        let segment =
            (0..self.geometry.segments).filter(is_free).min_by_key(|&segment| medium.erases(segment))?;
        self.open(segment);
        self.taken = self.taken.saturating_add(1);
        Some(segment)
    }

    /// Segments taken to be written since [`Segments::forget_taken`].
    #[must_use]
    pub fn taken(&self) -> u32 {
        self.taken
    }

    /// Counts from zero again.
    pub fn forget_taken(&mut self) {
        self.taken = 0;
    }

    /// A free segment that is written now.
    pub fn open(&mut self, segment: u32) {
        if self.states[segment as usize] == State::Free {
            self.free -= 1;
        }
        self.states[segment as usize] = State::Open;
    }

    /// A segment that is full now.
    pub fn seal(&mut self, segment: u32, sequence: u64) {
        self.states[segment as usize] = State::Sealed;
        self.newest[segment as usize] = sequence;
    }

    /// Seals what is free and holds something that is needed: recovery may find pages where damage hides that a head went on there.
    pub fn seal_needed(&mut self) {
        for segment in 0..self.geometry.segments {
            if self.states[segment as usize] == State::Free && self.units[segment as usize] > 0 {
                self.open(segment);
                self.seal(segment, 0);
            }
        }
    }

    /// A segment that failed, and holds nothing.
    pub fn retire(&mut self, segment: u32) {
        if self.states[segment as usize] == State::Free {
            self.free -= 1;
        }
        self.note_bad(segment);
        self.states[segment as usize] = State::Bad;
    }

    /// Says that a segment has failed: nothing is written to it any more.
    pub fn note_bad(&mut self, segment: u32) {
        self.bad.insert(segment);
    }

    /// How many segments can be written for the log, now or later.
    #[must_use]
    pub fn usable(&self) -> u32 {
        self.geometry.segments - self.anchors - self.bad.len() as u32
    }

    /// Those segments.
    pub fn all_usable(&self) -> impl Iterator<Item = u32> + '_ {
        (self.anchors..self.geometry.segments).filter(|segment| !self.bad.contains(segment))
    }

    /// A segment that has failed and can be cleaned.
    #[must_use]
    pub fn failed(&self, anchored: u64) -> Option<u32> {
        let mut sealed = self.bad.iter().copied().filter(|&segment| self.is_sealed(segment, anchored));
        sealed.find(|segment| self.units[*segment as usize] > 0 && !self.is_stuck(*segment))
    }

    /// Sealed segments that can be cleaned: those that hold nothing newer than the last anchor.
    pub fn sealed(&self, anchored: u64) -> impl Iterator<Item = u32> + '_ {
        (0..self.geometry.segments).filter(move |&segment| self.is_sealed(segment, anchored))
    }

    fn is_sealed(&self, segment: u32, anchored: u64) -> bool {
        self.states[segment as usize] == State::Sealed && self.newest[segment as usize] < anchored
    }

    /// Says that the cleaner has left something in a segment.
    pub fn note_stuck(&mut self, segment: u32) {
        self.stuck.insert(segment);
    }

    /// Whether the cleaner has left something in a segment.
    #[must_use]
    pub fn is_stuck(&self, segment: u32) -> bool {
        self.stuck.contains(&segment)
    }

    /// Makes free what nothing is needed of, or bad if it has failed; the caller has just written an anchor that says so. Returns what is free.
    pub fn free_empty(&mut self) -> Vec<u32> {
        let is_empty = |segment: &u32| {
            self.states[*segment as usize] == State::Sealed && self.units[*segment as usize] == 0
        };
        let mut empty: Vec<u32> = (0..self.geometry.segments).filter(is_empty).collect();
        for &segment in &empty {
            self.stuck.remove(&segment);
            self.states[segment as usize] = State::Bad;
        }
        empty.retain(|segment| !self.bad.contains(segment));
        for &segment in &empty {
            self.states[segment as usize] = State::Free;
            self.free += 1;
        }
        empty
    }

    /// Sealed segments of which nothing is needed.
    #[must_use]
    pub fn empty(&self) -> u32 {
        let is_empty = |segment: &usize| self.states[*segment] == State::Sealed && self.units[*segment] == 0;
        (0..self.units.len()).filter(is_empty).count() as u32
    }

    /// The page of a segment.
    #[must_use]
    pub fn page(&self, segment: u32, index: u32) -> Physical {
        self.geometry.page(segment, index)
    }
}
