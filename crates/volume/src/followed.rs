//! Reads by calls that go through a file in order: what comes next is read before it is asked for.
//!
//! Faults on mapped files come a page at a time, by the thread that needs it, and `walks.rs` follows these. Calls bring many pages at once, and a kernel has
//! several of them on their way that overtake each other.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::ahead::PAGES_AT_ONCE;

/// How far such reads of a file have come. Threads race for it: what is lost is read when it is needed, or asked for twice.
#[derive(Debug, Default)]
pub struct Followed {
    /// The page behind the last one that was read.
    read_to: AtomicU32,
    /// The page behind the last one that was asked for.
    asked_to: AtomicU32,
    /// Reads in order, up to [`STEPS_MIN`].
    steps: AtomicU32,
}

/// Pages by which one of these reads may overtake another: a kernel has several on their way.
const OVERTAKEN_PAGES: u32 = 2 * PAGES_AT_ONCE;
/// Reads in order before anything is asked for.
const STEPS_MIN: u32 = 2;
/// Pages that are on their way at most: several reads, as devices like it.
const AHEAD_PAGES: u32 = 8 * PAGES_AT_ONCE;

impl Followed {
    /// Notes that `pages` are read by a call; says which pages to read before they are asked for: some times [`PAGES_AT_ONCE`], at most `room`.
    pub fn note(&self, pages: Range<u32>, room: u32) -> Range<u32> {
        let read_to = self.read_to.load(Ordering::Relaxed);
        let is_near = pages.start <= read_to.saturating_add(OVERTAKEN_PAGES)
            && read_to <= pages.end.saturating_add(OVERTAKEN_PAGES);
        if !is_near {
            self.read_to.store(pages.end, Ordering::Relaxed);
            self.asked_to.store(pages.end, Ordering::Relaxed);
            self.steps.store(0, Ordering::Relaxed);
            return 0..0;
        }
        if pages.end <= read_to {
            return 0..0;
        }
        self.read_to.store(pages.end, Ordering::Relaxed);
        let steps = self.steps.load(Ordering::Relaxed) + 1;
        self.steps.store(steps.min(STEPS_MIN), Ordering::Relaxed);
        if steps < STEPS_MIN {
            return 0..0;
        }
        let first = self.asked_to.load(Ordering::Relaxed).max(pages.end);
        let end = pages.end.saturating_add(room.min(AHEAD_PAGES));
        let end = first + end.saturating_sub(first) / PAGES_AT_ONCE * PAGES_AT_ONCE;
        self.asked_to.store(end, Ordering::Relaxed);
        first..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: u32 = 1 << 20;

    #[test]
    fn reads_in_order_are_followed_also_if_some_overtake_others() {
        let followed = Followed::default();
        assert!(followed.note(0..32, ROOM).is_empty(), "one read is no walk");
        assert_eq!(followed.note(32..64, ROOM), 64..64 + AHEAD_PAGES);
        let mut asked_to = 64 + AHEAD_PAGES;
        for step in (2..200).step_by(2) {
            for step in [step + 1, step] {
                let ahead = followed.note(step * 32..step * 32 + 32, ROOM);
                assert!(ahead.len().is_multiple_of(PAGES_AT_ONCE as usize));
                assert!(ahead.is_empty() || ahead.start == asked_to, "{ahead:?} at {step}");
                asked_to = asked_to.max(ahead.end);
            }
            assert!(asked_to - (step + 2) * 32 > AHEAD_PAGES - PAGES_AT_ONCE);
        }
        assert!(followed.note(100_000..100_032, ROOM).is_empty(), "elsewhere");
        assert!(followed.note(100_032..100_064, 100).is_empty(), "RAM has no room");
    }

    #[test]
    fn reads_at_random_bring_nothing() {
        let followed = Followed::default();
        let mut random = 1u64;
        let mut asked = 0;
        for _ in 0..100_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let first = (random >> 33) as u32 % (1 << 20);
            asked += followed.note(first..first + 32, ROOM).len();
        }
        assert!(asked < 100_000, "{asked}");
    }
}
