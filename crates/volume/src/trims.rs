//! Pages that read as zeros although the table does not say so yet.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::block::Trim;
use crate::key::{Ino, PageKey};

/// Trims that the next commit will write, and those that one is writing.
#[derive(Default)]
pub struct Trims {
    /// How many there are of both: mostly none, and then nobody need look.
    count: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pending: OfFiles,
    committing: OfFiles,
}

/// Trims by their file.
#[derive(Default)]
struct OfFiles {
    files: HashMap<Ino, Vec<Trim>>,
    count: usize,
}

impl OfFiles {
    fn of(&self, ino: Ino) -> &[Trim] {
        self.files.get(&ino).map_or(&[], Vec::as_slice)
    }

    fn covers(&self, key: PageKey) -> bool {
        self.of(key.ino()).iter().any(|trim| trim.covers(key))
    }

    /// Adds one, in place of those that it covers.
    fn add(&mut self, trim: Trim) {
        let of_file = self.files.entry(trim.ino).or_default();
        let before = of_file.len();
        of_file.retain(|other| other.first < trim.first || trim.last < other.last);
        of_file.push(trim);
        self.count = self.count + of_file.len() - before;
    }
}

impl Trims {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says how many there are, after a change under the lock.
    fn note(&self, state: &State) {
        self.count.store(state.pending.count + state.committing.count, Ordering::Release);
    }

    /// Adds one. The caller holds the gate open, and takes the pages from the cache afterwards.
    pub fn add(&self, trim: Trim) {
        let mut state = self.lock();
        state.pending.add(trim);
        self.note(&state);
    }

    /// Those of a file.
    pub fn of(&self, ino: Ino) -> Vec<Trim> {
        let state = self.lock();
        [state.pending.of(ino), state.committing.of(ino)].concat()
    }

    /// Whether a page is trimmed.
    pub fn covers(&self, key: PageKey) -> bool {
        self.count.load(Ordering::Acquire) > 0 && {
            let state = self.lock();
            state.pending.covers(key) || state.committing.covers(key)
        }
    }

    /// Whether a commit that is being written trims a page.
    pub fn commit_covers(&self, key: PageKey) -> bool {
        self.count.load(Ordering::Acquire) > 0 && self.lock().committing.covers(key)
    }

    /// How many there are to commit.
    pub fn len(&self) -> usize {
        self.lock().pending.count
    }

    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0 || self.len() == 0
    }

    /// Whether the table knows of all of them.
    pub fn are_applied(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Gives all that there are to a commit. The gate is closed.
    pub fn begin_commit(&self) -> Vec<Trim> {
        let mut state = self.lock();
        debug_assert!(state.committing.count == 0);
        state.committing = std::mem::take(&mut state.pending);
        state.committing.files.values().flatten().copied().collect()
    }

    /// Says that the table knows them now.
    pub fn end_commit(&self) {
        let mut state = self.lock();
        state.committing = OfFiles::default();
        self.note(&state);
    }
}

impl Trim {
    /// Whether a page is trimmed by it.
    #[must_use]
    pub fn covers(&self, key: PageKey) -> bool {
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
        assert!(trims.covers(key) && !trims.commit_covers(key) && !trims.are_applied());
        assert_eq!(trims.begin_commit().len(), 1);
        assert!(trims.covers(key) && trims.commit_covers(key) && trims.is_empty());
        assert!(!trims.are_applied());
        trims.end_commit();
        assert!(trims.are_applied() && !trims.covers(key) && !trims.commit_covers(key));
    }

    #[test]
    fn one_takes_the_place_of_those_that_it_covers() {
        let trims = Trims::default();
        for last in 0..1000 {
            trims.add(Trim { ino: Ino(9), first: 0, last });
        }
        trims.add(Trim { ino: Ino(9), first: 5, last: 2000 });
        trims.add(Trim { ino: Ino(8), first: 5, last: 5 });
        assert_eq!((trims.len(), trims.of(Ino(9)).len()), (3, 2));
        let covers = |ino, index| trims.covers(PageKey::data(Ino(ino), index));
        assert!(covers(9, 0) && covers(9, 2000) && covers(8, 5));
        assert!(!covers(9, 2001) && !covers(8, 4) && !covers(7, 5));
    }
}
