//! Notices when somebody goes through a file in order.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::ahead::PAGES_AT_ONCE;

/// What a walk begins with.
const FIRST_PAGES: u32 = 4;
/// Walks that are followed at once: some for each of many threads.
const FOLLOWED: usize = 32;
/// Pages that were read last, with each of which a walk may begin.
const BEGINNINGS: usize = 32;
/// A walk ends when this many absent pages were asked for since its last step. Random accesses meet a
/// followed run by chance sooner or later, and a longer run more often than a shorter one.
const PATIENCE: u32 = 4096;
/// No page has this number.
const NOWHERE: u64 = u64::MAX;
/// Bits of the count of steps that a walk has.
const COUNT_BITS: u32 = 24;

/// Where some walks through a file are, each in one word: the page at which its next run begins (32 bits), whether that run was asked for before the walk
/// comes to it (1 bit), its length less one (7 bits), and when the walk went on, in pages that were not in RAM (24 bits).
///
/// Threads race for the words; what is lost is a walk that is noticed two pages later.
#[derive(Debug)]
pub struct Walks {
    followed: [AtomicU64; FOLLOWED],
    beginnings: [AtomicU64; BEGINNINGS],
    next_followed: AtomicUsize,
    next_beginning: AtomicUsize,
    /// Pages that were asked for and were not in RAM.
    steps: AtomicU32,
}

impl Default for Walks {
    fn default() -> Self {
        Walks {
            followed: std::array::from_fn(|_| AtomicU64::new(NOWHERE)),
            beginnings: std::array::from_fn(|_| AtomicU64::new(NOWHERE)),
            next_followed: AtomicUsize::new(0),
            next_beginning: AtomicUsize::new(0),
            steps: AtomicU32::new(0),
        }
    }
}

/// Shortest run behind which the next one is asked for while the program goes through it.
const ASKED_MIN: u32 = 16;

/// Most runs of a walk that are on their way at once.
const AHEAD_MAX: u32 = 4;

/// What to read for a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Pages from the one that was asked for on.
    pub pages: u32,
    /// Pages behind these, to be read while the program goes through them. 0 for none.
    pub next: u32,
    /// Runs of this length behind these that may be on their way at once.
    pub ahead: u32,
    /// Whether these pages are yet to be read: nobody asked for them before the walk came to them.
    pub is_absent: bool,
}

impl Walks {
    /// Notes that a page was asked for; says what to read if a walk comes there now. What is there already is the run that was asked for before.
    /// Runs are so short that two of each walk fit into `room` pages. `is_absent` says whether the page is not in RAM; it is asked for walks alone.
    pub fn follow(&self, index: u32, room: u32, is_absent: impl FnOnce() -> bool) -> Option<Run> {
        let steps = self.steps.load(Ordering::Relaxed);
        let found = self.followed.iter().find(|followed| {
            let walk = Walk::from_word(followed.load(Ordering::Relaxed), steps);
            // Some of what comes next may be in RAM already.
            (walk.first..=walk.first.saturating_add(walk.pages / 4)).contains(&index) && walk.is_alive()
        })?;
        let Walk { first, pages, is_asked, .. } = Walk::from_word(found.load(Ordering::Relaxed), steps);
        let is_absent = is_absent();
        if is_absent {
            self.steps.store(steps.wrapping_add(1), Ordering::Relaxed);
        } else if index != first || !is_asked {
            return None;
        }
        let is_alive =
            |followed: &&AtomicU64| Walk::from_word(followed.load(Ordering::Relaxed), steps).is_alive();
        let alive = self.followed.iter().filter(is_alive).count() as u32;
        let longest = (room / (2 * alive.max(1))).clamp(FIRST_PAGES, PAGES_AT_ONCE);
        let is_asked = pages.min(longest) >= ASKED_MIN;
        // A device is at its best with several reads on their way.
        let ahead = (room / (4 * alive.max(1)) / longest).clamp(1, AHEAD_MAX);
        let next =
            Walk { first: index.saturating_add(pages), pages: (pages * 2).min(longest), is_asked, age: 0 };
        found.store(next.to_word(steps), Ordering::Relaxed);
        Some(Run { pages, next: if is_asked { next.pages } else { 0 }, ahead, is_absent })
    }

    /// Notes that a page was read that no walk came to; says how many of the pages behind it to read as well.
    pub fn begin(&self, index: u32) -> u32 {
        let steps = self.steps.load(Ordering::Relaxed).wrapping_add(1);
        self.steps.store(steps, Ordering::Relaxed);
        for beginning in &self.beginnings {
            if beginning.load(Ordering::Relaxed) == u64::from(index) {
                beginning.store(NOWHERE, Ordering::Relaxed);
                let nth = self.next_followed.fetch_add(1, Ordering::Relaxed) % FOLLOWED;
                let first = index.saturating_add(1 + FIRST_PAGES);
                let next = Walk { first, pages: 2 * FIRST_PAGES, is_asked: false, age: 0 };
                self.followed[nth].store(next.to_word(steps), Ordering::Relaxed);
                return FIRST_PAGES;
            }
        }
        let nth = self.next_beginning.fetch_add(1, Ordering::Relaxed) % BEGINNINGS;
        self.beginnings[nth].store(u64::from(index) + 1, Ordering::Relaxed);
        0
    }
}

/// A walk, as its word says.
struct Walk {
    first: u32,
    pages: u32,
    is_asked: bool,
    age: u32,
}

impl Walk {
    fn from_word(word: u64, steps: u32) -> Walk {
        let low = word as u32;
        Walk {
            first: (word >> 32) as u32,
            pages: (low >> COUNT_BITS & 0x7F) + 1,
            is_asked: low >> 31 != 0,
            age: if word == NOWHERE { PATIENCE } else { steps.wrapping_sub(low) % (1 << COUNT_BITS) },
        }
    }

    fn to_word(&self, steps: u32) -> u64 {
        let count = steps % (1 << COUNT_BITS);
        let low = u32::from(self.is_asked) << 31 | (self.pages - 1) << COUNT_BITS | count;
        u64::from(self.first) << 32 | u64::from(low)
    }

    fn is_alive(&self) -> bool {
        self.age < PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Room for all that walks want.
    const ROOM: u32 = 1 << 20;

    fn pages(run: Option<Run>) -> Option<(u32, u32)> {
        run.map(|run| (run.pages, run.next))
    }

    #[test]
    fn walks_are_followed_further_and_further() {
        let walks = Walks::default();
        assert_eq!((walks.begin(7), walks.begin(8)), (0, 4));
        assert_eq!((walks.follow(12, ROOM, || true), walks.follow(13, ROOM, || false)), (None, None));
        assert_eq!(pages(walks.follow(13, ROOM, || true)), Some((8, 0)));
        assert_eq!(pages(walks.follow(21, ROOM, || true)), Some((16, 32)));
        assert_eq!(pages(walks.follow(37, ROOM, || false)), Some((32, 64)), "was asked for");
        assert_eq!(pages(walks.follow(72, ROOM, || true)), Some((64, 128)), "a few pages were there");
        assert_eq!(walks.follow(170, ROOM, || true), None, "too many were there");
        assert_eq!(pages(walks.follow(136, ROOM, || false)), Some((128, 128)));
        assert_eq!(pages(walks.follow(264, 40, || false)), Some((128, 20)), "there is less room now");
        assert_eq!(
            pages(walks.follow(392, 20, || false)),
            Some((20, 0)),
            "so little that it is not worth it"
        );
    }

    #[test]
    fn walks_are_told_apart_and_from_random_steps() {
        let walks = Walks::default();
        let mut places: Vec<u32> = (0..8).map(|nth| nth * 1_000_000).collect();
        let mut random = 1u32;
        let (mut ahead, mut longest) = (0, 0);
        for _ in 0..40 {
            for place in &mut places {
                let run = walks.follow(*place, 800, || true).map(|run| run.pages);
                let pages = run.unwrap_or_else(|| 1 + walks.begin(*place));
                *place += pages;
                ahead += pages;
                longest = longest.max(pages);
                for _ in 0..2 {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let elsewhere = 100_000_000 + random / 2;
                    assert_eq!((walks.follow(elsewhere, 800, || true), walks.begin(elsewhere)), (None, 0));
                }
            }
        }
        assert!(ahead > 8 * 35 * 50, "{ahead}");
        // While there were fewer walks there was room for longer runs.
        assert!(longest <= PAGES_AT_ONCE);
        assert!(
            places.iter().all(|place| walks.follow(*place, 800, || true).is_some_and(|run| run.pages == 50))
        );
    }

    #[test]
    fn random_steps_bring_little_more_than_themselves() {
        const PAGES: u64 = 1 << 18;
        let walks = Walks::default();
        let (mut random, mut ahead) = (1u64, 0);
        let steps = 2_000_000u32;
        for _ in 0..steps {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let index = ((random >> 33) % PAGES) as u32;
            let run = walks.follow(index, ROOM, || true);
            ahead += run.map_or_else(|| walks.begin(index), |run| run.pages - 1 + run.next);
        }
        assert!(ahead < steps / 500, "{ahead} pages more");
    }
}
