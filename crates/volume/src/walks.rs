//! Notices when somebody goes through a file in order.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::ahead::PAGES_AT_ONCE;

/// What a walk begins with.
const FIRST_PAGES: u32 = 4;
/// Walks that are followed at once: some for each of many threads.
const FOLLOWED: usize = 32;
/// Pages that were read last, with each of which a walk may begin.
const BEGINNINGS: usize = 32;
/// No page has this number.
const NOWHERE: u64 = u64::MAX;

/// Where some walks through a file are, each in one word: the page that comes next, and how many are read together.
///
/// Threads race for the words; what is lost is a walk that is noticed two pages later.
#[derive(Debug)]
pub struct Walks {
    followed: [AtomicU64; FOLLOWED],
    beginnings: [AtomicU64; BEGINNINGS],
    next_followed: AtomicUsize,
    next_beginning: AtomicUsize,
}

impl Default for Walks {
    fn default() -> Self {
        Walks {
            followed: std::array::from_fn(|_| AtomicU64::new(NOWHERE)),
            beginnings: std::array::from_fn(|_| AtomicU64::new(NOWHERE)),
            next_followed: AtomicUsize::new(0),
            next_beginning: AtomicUsize::new(0),
        }
    }
}

impl Walks {
    /// Notes that a page was asked for that is not in RAM. Says how many of the pages behind it to read as well: more each time that the walk
    /// goes on.
    pub fn note(&self, index: u32) -> u32 {
        for followed in &self.followed {
            let before = followed.load(Ordering::Relaxed);
            let (expected, pages) = ((before >> 32) as u32, before as u32);
            // Some of what comes next may be in RAM already.
            if before != NOWHERE && (expected..=expected.saturating_add(pages / 4)).contains(&index) {
                let pages = (pages * 2).clamp(FIRST_PAGES, PAGES_AT_ONCE - 1);
                followed.store(after(index, pages), Ordering::Relaxed);
                return pages;
            }
        }
        for beginning in &self.beginnings {
            if beginning.load(Ordering::Relaxed) == u64::from(index) {
                beginning.store(NOWHERE, Ordering::Relaxed);
                let nth = self.next_followed.fetch_add(1, Ordering::Relaxed) % FOLLOWED;
                self.followed[nth].store(after(index, FIRST_PAGES), Ordering::Relaxed);
                return FIRST_PAGES;
            }
        }
        let nth = self.next_beginning.fetch_add(1, Ordering::Relaxed) % BEGINNINGS;
        self.beginnings[nth].store(u64::from(index) + 1, Ordering::Relaxed);
        0
    }
}

/// A walk that will have read so many pages behind one.
fn after(index: u32, pages: u32) -> u64 {
    let next = index.saturating_add(pages).saturating_add(1);
    u64::from(next) << 32 | u64::from(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_are_followed_further_and_further() {
        let walks = Walks::default();
        assert_eq!((walks.note(7), walks.note(8)), (0, 4));
        assert_eq!(walks.note(13), 8);
        assert_eq!(walks.note(22), 16);
        assert_eq!(walks.note(42), 32, "a few pages were there");
        assert_eq!(walks.note(84), 0, "too many were there");
    }

    #[test]
    fn walks_are_told_apart_and_from_random_steps() {
        let walks = Walks::default();
        let mut places: Vec<u32> = (0..8).map(|nth| nth * 1_000_000).collect();
        let mut random = 1u32;
        let mut ahead = 0;
        for _ in 0..20 {
            for place in &mut places {
                let pages = walks.note(*place);
                *place += pages + 1;
                ahead += pages;
                for _ in 0..2 {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    assert_eq!(walks.note(100_000_000 + random / 2), 0);
                }
            }
        }
        assert!(ahead > 8 * 10 * (PAGES_AT_ONCE - 1), "{ahead}");
    }
}
