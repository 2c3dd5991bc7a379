//! Which writes there were, as far as a reader must know to tell right bytes from wrong ones.
//!
//! **Versions.** Every write of an object has a number of its own: filling object `n` is write `n`, and threads take the
//! numbers from the number of objects on in batches. So the words of an object are right if their versions are its own number or
//! one that was handed out ([`Ledger::could_be`]). Which of these is the last nobody knows: 8 bytes for each object
//! would take a sixteenth of the data from the RAM that is measured.
//!
//! **Watched objects.** Of some objects, at most [`WATCHED_MAX`] and spread over all, the last version is known. A
//! thread that writes or reads one holds its lock meanwhile, so all its words must be of exactly that version: a lost write, one that
//! was put back, and half a write show there.
//!
//! Proven is that each word is of its object and place and was written by this process. Not proven, but for watched
//! objects, is that it was written last.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::contents::VERSIONS;
use crate::payload::Payload;

/// Watched objects at most: 64 KiB of RAM.
pub const WATCHED_MAX: u64 = 4096;
/// One object of this many is watched where there are few.
const SPACING_MIN: u64 = 16;
/// Versions that a thread takes at a time, so that threads seldom meet at the counter.
const TAKEN_TOGETHER: u64 = 4096;
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The writes of one array of objects.
#[derive(Debug)]
pub struct Ledger {
    peer: String,
    payload: Payload,
    /// Objects, all of which are filled before anything is read.
    count: u64,
    /// The next version that nobody has.
    next: AtomicU64,
    /// One object of `1 << spacing_log2` in a row is watched.
    spacing_log2: u32,
    /// The last version of each watched object.
    watched: Vec<Mutex<u64>>,
}

impl Ledger {
    /// For `count` objects of `peer`, which errors name.
    pub fn new(peer: impl Into<String>, count: u64) -> Self {
        let spacing = count.div_ceil(WATCHED_MAX).next_power_of_two().max(SPACING_MIN);
        let mut ledger = Self::unwatched(peer, count);
        ledger.spacing_log2 = spacing.trailing_zeros();
        ledger.watched = (0..count.div_ceil(spacing)).map(|row| Mutex::new(ledger.watched_in(row))).collect();
        ledger
    }

    /// The same without watched objects.
    pub fn unwatched(peer: impl Into<String>, count: u64) -> Self {
        assert!(count < VERSIONS / 2, "{count} objects leave no versions for writes");
        let (peer, payload, next) = (peer.into(), Payload::Random, AtomicU64::new(count));
        Self { peer, payload, count, next, spacing_log2: SPACING_MIN.trailing_zeros(), watched: Vec::new() }
    }

    /// The same for objects that look like `payload`.
    #[must_use]
    pub fn holding(mut self, payload: Payload) -> Self {
        self.payload = payload;
        self
    }

    /// What the objects look like.
    #[inline]
    pub fn payload(&self) -> Payload {
        self.payload
    }

    /// Whose objects they are.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// A thread's way to versions.
    pub fn versions(&self) -> Versions<'_> {
        Versions { ledger: self, next: 0, end: 0 }
    }

    /// A version that no writer has yet, as a bound; it may be outdated.
    #[inline]
    pub fn bound(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// The same, not outdated for any word that the calling thread has read.
    #[cold]
    pub fn new_bound(&self) -> u64 {
        // Together with the fence in `Versions::take`, which is between a writer's versions and its words.
        fence(Ordering::Acquire);
        self.bound()
    }

    /// Whether a word of object `number` may have this version: that of the fill, or one that was handed out, which is below `bound`.
    #[inline]
    pub fn could_be(&self, version: u64, number: u64, bound: u64) -> bool {
        version == number || version.wrapping_sub(self.count) < bound - self.count
    }

    /// The last version of object `number` if it is watched. The object is the caller's meanwhile.
    #[inline]
    pub fn watch(&self, number: u64) -> Option<MutexGuard<'_, u64>> {
        let row = number >> self.spacing_log2;
        if self.watched_in(row) != number {
            return None;
        }
        let version = self.watched.get(row as usize)?;
        Some(version.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The numbers of all watched objects.
    pub fn watched(&self) -> impl Iterator<Item = u64> {
        let rows = 0..self.watched.len() as u64;
        rows.map(|row| self.watched_in(row)).filter(|&number| number < self.count)
    }

    /// The watched object of a row: at another place in each, because hot objects and leaves have places of their own.
    #[inline]
    fn watched_in(&self, row: u64) -> u64 {
        let place = row.wrapping_add(1).wrapping_mul(SPREAD) >> (64 - self.spacing_log2);
        row << self.spacing_log2 | place
    }
}

/// Versions for the writes of one thread.
#[derive(Debug)]
pub struct Versions<'a> {
    ledger: &'a Ledger,
    next: u64,
    end: u64,
}

impl Versions<'_> {
    /// Returns a version that no other write has.
    #[inline]
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        if self.next == self.end {
            self.take();
        }
        self.next += 1;
        self.next - 1
    }

    #[cold]
    fn take(&mut self) {
        self.next = self.ledger.next.fetch_add(TAKEN_TOGETHER, Ordering::Relaxed);
        self.end = self.next + TAKEN_TOGETHER;
        assert!(self.end <= VERSIONS, "a run has fewer than 2^40 writes");
        // A thread that sees a word of these versions, and then fences, sees the counter beyond them.
        fence(Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn versions_are_given_once() {
        let ledger = Ledger::new("test", 1000);
        let (mut one, mut other) = (ledger.versions(), ledger.versions());
        let mut seen: BTreeSet<u64> = (0..10_000).map(|_| one.next()).collect();
        seen.extend((0..10_000).map(|_| other.next()));
        assert_eq!((seen.len(), seen.first()), (20_000, Some(&1000)));
        assert!(seen.last() < Some(&ledger.bound()));
    }

    #[test]
    fn only_versions_that_were_handed_out_could_be() {
        let ledger = Ledger::new("test", 1000);
        let could_be = |version| ledger.could_be(version, 7, ledger.new_bound());
        assert_eq!([6, 7, 8, 999, 1000].map(could_be), [false, true, false, false, false]);
        let written = ledger.versions().next();
        assert!(could_be(written) && !could_be(u64::MAX) && !could_be(ledger.bound()));
    }

    #[test]
    fn watched_objects_are_spread_over_all() {
        for (count, least, most) in
            [(8, 0, 1), (100, 5, 7), (256, 16, 16), (8192, 512, 512), (33 << 20, 2048, 4224)]
        {
            let ledger = Ledger::new("test", count);
            let watched: Vec<u64> = ledger.watched().collect();
            assert!((least..=most).contains(&watched.len()), "{} of {count}", watched.len());
            assert!(watched.is_sorted() && watched.iter().all(|&number| number < count));
            for &number in &watched {
                assert_eq!(ledger.watch(number).as_deref(), Some(&number), "the version of the fill");
            }
            let places: BTreeSet<u64> = watched.iter().map(|number| number % 16).collect();
            assert!(watched.len() < 256 || places.len() == 16);
            let found = (0..count.min(10_000)).filter(|&number| ledger.watch(number).is_some());
            assert!(found.eq(watched.iter().copied().filter(|&number| number < 10_000)));
        }
        assert!((0..1000).all(|number| Ledger::unwatched("test", 1000).watch(number).is_none()));
    }
}
