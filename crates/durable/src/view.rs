//! What a transaction has seen, and what it holds: versions and locks of partitions.
//!
//! All that it reads is of one version of the heap (Dice, Shalev and Shavit, "Transactional Locking II", DISC 2006). When it meets a newer
//! one it goes on with that, if nothing that it has read has changed (Riegel, Felber and Fetzer, "A Lazy Snapshot Algorithm
//! with Eager Validation", DISC 2006).

use std::sync::atomic::{AtomicU64, Ordering};

use aquifer_base::PartitionId;
use aquifer_map::partitions::{GRAINS, Partitions, Word};
use aquifer_sys::Backoff;

use crate::chunk::VERSION_MAX;
use crate::error::{Error, Result};
use crate::write_set::Piece;

/// Looks at a partition to which somebody commits before the transaction gives way: more than a commit takes.
const LOOKS: u32 = 1_000;

/// The words of all partitions, the newest version that was given out, and the era of classes (see [`homes`](crate::homes)).
#[derive(Clone, Copy)]
pub(crate) struct Versions<'a> {
    pub(crate) words: &'a Partitions,
    pub(crate) clock: &'a AtomicU64,
    pub(crate) era: &'a AtomicU64,
}

/// The file has no number for another transaction.
#[cold]
fn no_version_left(clock: &AtomicU64) -> Error {
    // However often it is asked.
    clock.store(VERSION_MAX, Ordering::Release);
    Error::Spent
}

/// What one transaction has seen, and holds.
#[derive(Default)]
pub(crate) struct View {
    /// All that it sees is of this version of the heap.
    version: u64,
    /// What it knows of classes is of this era.
    era: u64,
    /// Partitions that were read, and their versions.
    reads: Vec<(PartitionId, u64)>,
    /// Partitions that are locked, and their words before; in order.
    locks: Vec<(PartitionId, Word)>,
}

impl View {
    /// Forgets all but the version that it has come to: the clock is looked at when something newer is met. All that is read is the newest
    /// there is, so nobody can tell.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.reads.clear();
        self.locks.clear();
    }

    /// Knows nothing of the classes of areas yet.
    #[inline]
    pub(crate) fn begin_era(&mut self, era: &AtomicU64) {
        self.era = era.load(Ordering::Acquire);
    }

    /// Checks that no area has lost its class since the transaction began.
    ///
    /// # Errors
    /// [`Error::Conflict`].
    #[inline]
    pub(crate) fn ensure_era(&self, era: &AtomicU64) -> Result<()> {
        if self.era == era.load(Ordering::Acquire) { Ok(()) } else { Err(Error::Conflict) }
    }

    /// What `copy` finds in a partition, when it has found something that is of this view. It may run several times.
    ///
    /// # Errors
    /// [`Error::Conflict`].
    #[inline]
    pub(crate) fn read<T>(
        &mut self,
        versions: Versions<'_>,
        id: PartitionId,
        mut copy: impl FnMut() -> T,
    ) -> Result<T> {
        loop {
            let before = settled(versions.words, id);
            if before.version() > self.version {
                self.extend(versions)?;
                continue;
            }
            let found = copy();
            if versions.words.is_unchanged(id, before) {
                let read = (id, before.version());
                if self.reads.last() != Some(&read) {
                    self.reads.push(read);
                }
                return Ok(found);
            }
        }
    }

    /// Sees the present version of the heap from now on, if all that was read is of it.
    #[cold]
    fn extend(&mut self, versions: Versions<'_>) -> Result<()> {
        let now = versions.clock.load(Ordering::Acquire);
        self.ensure_era(versions.era)?;
        for &(id, version) in &self.reads {
            if settled(versions.words, id).version() != version {
                return Err(Error::Conflict);
            }
        }
        self.version = now;
        Ok(())
    }

    /// Locks the partitions of `pieces`, which are in order: all who hold one and want another do that, so that nobody waits for ever.
    #[inline]
    pub(crate) fn lock(&mut self, words: &Partitions, pieces: &[Piece]) {
        for piece in pieces {
            let (first, last) = (piece.start / GRAINS as u64, (piece.end() - 1) / GRAINS as u64);
            for number in first..=last {
                let id = PartitionId(number as u32);
                if self.locks.last().is_none_or(|&(last, _)| last != id) {
                    self.locks.push((id, lock_one(words, id)));
                }
            }
        }
    }

    /// Takes a new version for what is locked, if all that was read is still the newest, and areas have the classes that they had.
    ///
    /// # Errors
    /// [`Error::Conflict`].
    #[inline]
    pub(crate) fn take_version(&self, versions: Versions<'_>) -> Result<u64> {
        self.ensure_era(versions.era)?;
        let version = versions.clock.fetch_add(1, Ordering::AcqRel) + 1;
        if version > VERSION_MAX {
            return Err(no_version_left(versions.clock));
        }
        // Nobody has committed since it last looked.
        if version != self.version + 1 {
            self.validate(versions.words)?;
        }
        Ok(version)
    }

    /// Checks that no partition that was read has changed. Two transactions that have each locked what the
    /// other has read do not wait long for each other. A partition that the cleaner has locked keeps its
    /// content.
    #[cold]
    fn validate(&self, words: &Partitions) -> Result<()> {
        for &(id, version) in &self.reads {
            let is_ours = self.locks.binary_search_by_key(&id, |&(id, _)| id).is_ok();
            let mut looks = 0;
            while !is_ours && words.word(id).is_committing() && looks < LOOKS {
                std::hint::spin_loop();
                looks += 1;
            }
            let word = words.word(id);
            if word.version() != version || (word.is_committing() && !is_ours) {
                return Err(Error::Conflict);
            }
        }
        Ok(())
    }

    /// Unlocks what it has locked and changed, with the transaction's version.
    #[inline]
    pub(crate) fn unlock(&mut self, words: &Partitions, version: u64) {
        self.version = version;
        for &(id, _) in &self.locks {
            words.unlock(id, version);
        }
        self.locks.clear();
    }

    /// Locks a partition to move bytes of it, unless it is the last one that it has locked, or one before that. For those who lock in
    /// order and have read nothing.
    pub(crate) fn lock_to_move(&mut self, words: &Partitions, id: PartitionId) {
        if self.locks.last().is_some_and(|&(last, _)| last >= id) {
            return;
        }
        self.locks.push((id, wait_for(|| words.try_lock_to_move(id))));
    }

    /// Unlocks what it has locked, and of which it has moved bytes in the log.
    pub(crate) fn unlock_moved(&mut self, words: &Partitions) {
        for (id, before) in self.locks.drain(..) {
            words.unlock_moved(id, before);
        }
    }

    /// Unlocks the partition that it has locked last, and not changed.
    pub(crate) fn unlock_last(&mut self, words: &Partitions) {
        if let Some((id, before)) = self.locks.pop() {
            words.unlock_unchanged(id, before);
        }
    }

    /// Unlocks what it has locked and not changed.
    pub(crate) fn unlock_unchanged(&mut self, words: &Partitions) {
        for (id, word) in self.locks.drain(..) {
            words.unlock_unchanged(id, word);
        }
    }
}

/// Waits until no transaction commits to a partition, and returns its word. The caller holds no lock.
#[inline]
fn settled(words: &Partitions, id: PartitionId) -> Word {
    let word = words.word(id);
    if word.is_locked() { wait_for(|| Some(words.word(id)).filter(|word| !word.is_locked())) } else { word }
}

#[inline]
fn lock_one(words: &Partitions, id: PartitionId) -> Word {
    words.try_lock(id).unwrap_or_else(|| wait_for(|| words.try_lock(id)))
}

#[cold]
fn wait_for(mut look: impl FnMut() -> Option<Word>) -> Word {
    let mut backoff = Backoff::new();
    loop {
        if let Some(word) = look() {
            return word;
        }
        backoff.wait();
    }
}
