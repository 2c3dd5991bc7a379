//! What pages were before they changed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::Result;
use crate::key::PageKey;
use crate::room::{PageRoom, RoomPage};
use crate::word::PageBytes;

/// Fewest copies that may be made at once: enough to notice when they are of use again.
const ALLOWED_MIN: usize = 64;
/// One twin in this many must be of use.
const USEFUL_PART: usize = 4;
/// Pages that a commit copies together.
pub const COPIED_AT_ONCE: usize = 64;

/// Copies of pages: made before a page changes, or kept of what a commit has copied of it anyway.
pub struct Twins {
    made: Arc<PageRoom>,
    /// Most that are made at once.
    allowed: AtomicUsize,
    kept: Arc<PageRoom>,
    /// Pages whose copy was kept, the oldest first; of some it is gone.
    kept_of: Mutex<VecDeque<PageKey>>,
}

impl Twins {
    /// Room for `made` copies that are made, and `kept` that are kept, none of which takes RAM yet.
    ///
    /// # Errors
    /// There is no address space.
    pub fn new(made: usize, kept: usize) -> Result<Self> {
        let allowed = AtomicUsize::new(made);
        let (made, kept) = (PageRoom::new(made)?, PageRoom::new(kept + COPIED_AT_ONCE)?);
        Ok(Twins { made, allowed, kept, kept_of: Mutex::default() })
    }

    /// Copies that were made.
    pub fn made(&self) -> usize {
        self.made.used()
    }

    /// Copies that commits made.
    pub fn kept(&self) -> usize {
        self.kept.used()
    }

    /// A copy whose bytes `fill` brings; `None` if there is no room.
    ///
    /// # Errors
    /// Those of `fill`.
    pub fn make(&self, fill: impl FnOnce(&mut PageBytes) -> Result<()>) -> Result<Option<RoomPage>> {
        if self.made.used() >= self.allowed.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let Ok(mut twin) = self.made.take() else { return Ok(None) };
        fill(&mut twin)?;
        Ok(Some(twin))
    }

    /// Room for a copy that a commit makes, at most [`COPIED_AT_ONCE`] beside those that are kept.
    ///
    /// # Errors
    /// There is none.
    pub fn take(&self) -> Result<RoomPage> {
        self.kept.take()
    }

    /// Whether a copy is one that a commit made.
    pub fn is_kept(&self, twin: &RoomPage) -> bool {
        twin.is_in(&self.kept)
    }

    /// Knows from now on that the page has a copy that a commit made.
    pub fn note_kept(&self, key: PageKey) {
        self.lock().push_back(key);
    }

    /// The page whose copy has been kept longest, if it still is. The caller drops that, or says again that it is kept.
    pub fn oldest_kept(&self) -> Option<PageKey> {
        self.lock().pop_front()
    }

    /// Pages of which nobody looked whether they still have their copy, beyond those that have it.
    pub fn unknown(&self) -> usize {
        self.lock().len().saturating_sub(2 * self.kept.used())
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<PageKey>> {
        self.kept_of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says how many copies a commit compared with their pages, and how many of these changed so little that the page need not be written whole.
    /// Where that is rare, as with arrays that are written from end to end, RAM is better spent on pages. One commit says so at a time.
    pub fn note_use(&self, compared: usize, useful: usize) {
        let (allowed, count) = (self.allowed.load(Ordering::Relaxed), self.made.count());
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
        let twins = Twins::new(4000, 0).expect("room");
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
        assert_eq!(twins.made(), 0, "the place of one that failed is free");
    }
}
