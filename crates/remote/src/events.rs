//! What happened of late, with its times, in memory of fixed size.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Events that are kept; older ones make room.
pub const EVENTS_KEPT: usize = 1024;

/// A ring of the last events.
///
/// The lock is held for a copy of one event, or of all when somebody looks; nothing is allocated, written or waited for meanwhile.
#[derive(Debug)]
pub struct Events<E> {
    began: Instant,
    ring: Mutex<Ring<E>>,
}

#[derive(Debug)]
struct Ring<E> {
    /// Events so far; the number of the next one.
    noted: u64,
    /// The event with number n is at n modulo the length.
    kept: Vec<Entry<E>>,
}

/// An event and when it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<E> {
    /// Counted from 0. A number that is missing was overwritten.
    pub number: u64,
    /// Since the ring was made.
    pub after: Duration,
    /// Since 1970, by the machine's clock.
    pub unix: Duration,
    /// What happened.
    pub event: E,
}

impl<E: Copy> Events<E> {
    /// Takes all its memory.
    fn new() -> Events<E> {
        let ring = Ring { noted: 0, kept: Vec::with_capacity(EVENTS_KEPT) };
        Events { began: Instant::now(), ring: Mutex::new(ring) }
    }

    /// Notes an event.
    ///
    /// # Context
    /// Allocates nothing; may wait for somebody who looks.
    pub fn note(&self, event: E) {
        let mut ring = self.lock();
        let after = self.began.elapsed();
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let entry = Entry { number: ring.noted, after, unix, event };
        ring.noted += 1;
        let at = (entry.number % EVENTS_KEPT as u64) as usize;
        match ring.kept.get_mut(at) {
            Some(oldest) => *oldest = entry,
            None => ring.kept.push(entry),
        }
    }

    /// Those with this number and later ones, as far as they are kept, in their order.
    #[must_use]
    pub fn since(&self, number: u64) -> Vec<Entry<E>> {
        let mut entries = Vec::with_capacity(EVENTS_KEPT);
        entries.extend_from_slice(&self.lock().kept);
        entries.retain(|entry| entry.number >= number);
        entries.sort_unstable_by_key(|entry| entry.number);
        entries
    }

    /// RAM that it takes.
    #[must_use]
    pub fn ram_bytes(&self) -> usize {
        EVENTS_KEPT * size_of::<Entry<E>>()
    }

    fn lock(&self) -> MutexGuard<'_, Ring<E>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Copy> Default for Events<E> {
    fn default() -> Events<E> {
        Events::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept_in_order() {
        let events = Events::default();
        let all = EVENTS_KEPT as u64 + 10;
        (0..all).for_each(|n| events.note(n));
        let kept = events.since(0);
        assert_eq!(kept.len(), EVENTS_KEPT);
        assert!(kept.iter().zip(10..all).all(|(entry, n)| (entry.number, entry.event) == (n, n)));
        assert!(kept.is_sorted_by_key(|entry| entry.after));
    }

    #[test]
    fn who_looks_again_sees_what_is_new() {
        let events = Events::default();
        assert_eq!(events.since(0), []);
        ['a', 'b', 'c'].into_iter().for_each(|event| events.note(event));
        let new: Vec<_> = events.since(1).iter().map(|entry| entry.event).collect();
        assert_eq!(new, ['b', 'c']);
        assert_eq!(events.since(3), []);
    }

    #[test]
    fn its_memory_stays_what_it_was() {
        let events = Events::default();
        let place = |events: &Events<u64>| events.lock().kept.as_ptr();
        let before = place(&events);
        (0..3 * EVENTS_KEPT as u64).for_each(|n| events.note(n));
        assert_eq!(place(&events), before);
        assert!(events.ram_bytes() >= EVENTS_KEPT * size_of::<u64>());
    }

    #[test]
    fn many_threads_lose_no_event() {
        let events = Events::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..200).for_each(|n| events.note(n)));
            }
        });
        let numbers: Vec<_> = events.since(0).iter().map(|entry| entry.number).collect();
        assert_eq!(numbers, (0..800).collect::<Vec<_>>());
    }
}
