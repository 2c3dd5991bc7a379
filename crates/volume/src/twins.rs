//! What pages were before they changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::Result;
use crate::room::{PageRoom, RoomPage};
use crate::word::PageBytes;

/// Fewest copies that may be made at once: enough to notice when they are of use again.
const ALLOWED_MIN: usize = 64;
/// One twin in this many must be of use.
const USEFUL_PART: usize = 4;

/// Copies of pages.
pub struct Twins {
    room: Arc<PageRoom>,
    /// Most that there are at once.
    allowed: AtomicUsize,
}

impl Twins {
    /// Room for `count` copies, none of which takes RAM yet.
    ///
    /// # Errors
    /// There is no address space.
    pub fn new(count: usize) -> Result<Self> {
        Ok(Twins { room: PageRoom::new(count)?, allowed: AtomicUsize::new(count) })
    }

    /// Copies.
    pub fn used(&self) -> usize {
        self.room.used()
    }

    /// A copy whose bytes `fill` brings; `None` if there is no room.
    ///
    /// # Errors
    /// Those of `fill`.
    pub fn make(&self, fill: impl FnOnce(&mut PageBytes) -> Result<()>) -> Result<Option<RoomPage>> {
        if self.used() >= self.allowed.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let Ok(mut twin) = self.room.take() else { return Ok(None) };
        fill(&mut twin)?;
        Ok(Some(twin))
    }

    /// Says how many copies a commit compared with their pages, and how many of these changed so little that the page need not be written whole.
    /// Where that is rare, as with arrays that are written from end to end, RAM is better spent on pages. One commit says so at a time.
    pub fn note_use(&self, compared: usize, useful: usize) {
        let (allowed, count) = (self.allowed.load(Ordering::Relaxed), self.room.count());
        if useful * USEFUL_PART >= compared {
            self.allowed.store(allowed.saturating_mul(4).min(count), Ordering::Relaxed);
        } else if compared >= ALLOWED_MIN / 2 {
            self.allowed.store((allowed / 4).max(ALLOWED_MIN).min(count), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::VolumeError;

    #[test]
    fn copies_that_are_of_no_use_become_few_until_they_are() {
        let count_now = |twins: &Twins| {
            let made = || twins.make(|_| Ok(())).expect("made");
            std::iter::from_fn(made).collect::<Vec<_>>().len()
        };
        let twins = Twins::new(4000).expect("room");
        assert_eq!(count_now(&twins), 4000);
        twins.note_use(1000, 900);
        assert_eq!(count_now(&twins), 4000);
        for _ in 0..5 {
            twins.note_use(1000, 10);
        }
        assert_eq!(count_now(&twins), ALLOWED_MIN);
        for _ in 0..5 {
            twins.note_use(ALLOWED_MIN, ALLOWED_MIN / 2);
        }
        assert_eq!(count_now(&twins), 4000);
        assert!(twins.make(|_| Err(VolumeError::NoSpace)).is_err());
        assert_eq!(twins.used(), 0, "the place of one that failed is free");
    }
}
