//! Pages that read as zeros although the table does not say so yet.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::block::Trim;
use crate::key::PageKey;

/// Trims that the next commit will write, and those that one is writing.
#[derive(Default)]
pub struct Trims {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pending: Vec<Trim>,
    committing: Vec<Trim>,
}

impl Trims {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one. The caller holds the gate open, and has taken the pages from the cache.
    pub fn add(&self, trim: Trim) {
        self.lock().pending.push(trim);
    }

    /// Whether a page is trimmed.
    pub fn covers(&self, key: PageKey) -> bool {
        let state = self.lock();
        state.pending.iter().chain(&state.committing).any(|trim| trim.covers(key))
    }

    /// Whether a commit that is being written trims a page.
    pub fn commit_covers(&self, key: PageKey) -> bool {
        self.lock().committing.iter().any(|trim| trim.covers(key))
    }

    /// How many there are to commit.
    pub fn len(&self) -> usize {
        self.lock().pending.len()
    }

    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.lock().pending.is_empty()
    }

    /// Gives all that there are to a commit. The gate is closed.
    pub fn begin_commit(&self) -> Vec<Trim> {
        let mut state = self.lock();
        debug_assert!(state.committing.is_empty());
        state.committing = std::mem::take(&mut state.pending);
        state.committing.clone()
    }

    /// Says that the table knows them now.
    pub fn end_commit(&self) {
        self.lock().committing.clear();
    }
}

impl Trim {
    fn covers(&self, key: PageKey) -> bool {
        key.level() == 0 && key.ino() == self.ino && (self.first..=self.last).contains(&key.index())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Ino;

    #[test]
    fn what_a_commit_is_writing_still_reads_as_zeros() {
        let (trims, key) = (Trims::default(), PageKey::data(Ino(9), 5));
        trims.add(Trim { ino: Ino(9), first: 4, last: 6 });
        assert!(trims.covers(key) && !trims.commit_covers(key));
        assert_eq!(trims.begin_commit().len(), 1);
        assert!(trims.covers(key) && trims.commit_covers(key) && trims.is_empty());
        trims.end_commit();
        assert!(!trims.covers(key) && !trims.commit_covers(key));
    }
}
