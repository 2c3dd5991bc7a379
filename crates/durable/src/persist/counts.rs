//! What a memory was asked for.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Threads that count without disturbing others; all later ones share the last place.
const PLACES: usize = 64;
const LINE_BYTES: u64 = 64;

/// What a memory was asked for.
pub struct Counts {
    places: Box<[Place; PLACES]>,
}

/// The counts of one thread, on cache lines of their own.
#[derive(Default)]
#[repr(align(128))]
struct Place {
    fences: AtomicU64,
    bytes: AtomicU64,
    lines: AtomicU64,
}

impl Default for Counts {
    fn default() -> Self {
        Self { places: Box::new(std::array::from_fn(|_| Place::default())) }
    }
}

/// The place of this thread.
#[inline]
fn place() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static PLACE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    PLACE.with(|place| {
        if place.get() == usize::MAX {
            place.set(THREADS.fetch_add(1, Ordering::Relaxed).min(PLACES - 1));
        }
        place.get()
    })
}

/// Adds to a count that only this thread changes, or any if it is shared.
#[inline]
fn add(count: &AtomicU64, number: u64, is_shared: bool) {
    if is_shared {
        count.fetch_add(number, Ordering::Relaxed);
    } else {
        count.store(count.load(Ordering::Relaxed) + number, Ordering::Relaxed);
    }
}

impl Counts {
    /// A wait for durability.
    #[inline]
    pub(crate) fn add_fence(&self) {
        let place = place();
        add(&self.places[place].fences, 1, place == PLACES - 1);
    }

    /// A range that was written.
    #[inline]
    pub(crate) fn add_range(&self, offset: u64, len: usize) {
        let place = place();
        let (counts, is_shared) = (&self.places[place], place == PLACES - 1);
        let end = offset + len as u64;
        add(&counts.bytes, len as u64, is_shared);
        add(&counts.lines, end.div_ceil(LINE_BYTES) - offset / LINE_BYTES, is_shared);
    }

    fn sum(&self, count: impl Fn(&Place) -> &AtomicU64) -> u64 {
        self.places.iter().map(|place| count(place).load(Ordering::Relaxed)).sum()
    }

    /// Waits for durability.
    pub fn fences(&self) -> u64 {
        self.sum(|place| &place.fences)
    }

    /// Bytes persisted.
    pub fn bytes(&self) -> u64 {
        self.sum(|place| &place.bytes)
    }

    /// Lines of 64 bytes that were written, wholly or in part: what a memory that writes whole lines has to do. A line counts again in each
    /// wait for durability.
    pub fn lines(&self) -> u64 {
        self.sum(|place| &place.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_are_counted() {
        let counts = Counts::default();
        std::thread::scope(|scope| {
            for _ in 0..PLACES + 20 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        counts.add_range(60, 8);
                        counts.add_fence();
                    }
                });
            }
        });
        let threads = PLACES as u64 + 20;
        assert_eq!((counts.fences(), counts.bytes()), (500 * threads, 4000 * threads));
        assert_eq!(counts.lines(), 1000 * threads);
    }
}
