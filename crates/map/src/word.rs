//! The word of a partition: its lock and its version at once.
//!
//! Readers take no lock, but look at the word before and after (a sequence lock; Boehm, "Can Seqlocks Get Along with Programming
//! Language Memory Models?", MSPC 2012). What they copy meanwhile must be atomics, of whatever order.
//!
//! ```text
//! 63..16 version of the last commit | 15..2 moves | 1 locked by one who moves | 0 locked
//! ```

#[cfg(all(test, loom))]
mod loom_tests;

use crate::sync::{AtomicU64, Ordering, fence};

const LOCKED: u64 = 1;
const MOVING: u64 = 2;
const MOVE: u64 = 4;
const VERSION_SHIFT: u32 = 16;
/// Largest version.
pub const VERSION_MAX: u64 = u64::MAX >> VERSION_SHIFT;

/// What a partition's word says. It is another one after each change of the partition's extents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word(u64);

impl Word {
    /// Whether somebody changes the partition's extents now.
    pub const fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    /// Whether somebody commits to the partition now: its version will be another one.
    pub const fn is_committing(self) -> bool {
        self.0 & (LOCKED | MOVING) == LOCKED
    }

    /// Version of the last transaction that wrote to it; 0 if none did.
    pub const fn version(self) -> u64 {
        self.0 >> VERSION_SHIFT
    }
}

/// Where the word is. Zeros are an unlocked one of version 0.
#[repr(transparent)]
pub(crate) struct WordCell(AtomicU64);

impl WordCell {
    /// The word, before what it guards is looked at.
    #[inline]
    pub(crate) fn word(&self) -> Word {
        Word(self.0.load(Ordering::Acquire))
    }

    /// Whether it is still the same, after what it guards was looked at.
    #[inline]
    pub(crate) fn is_unchanged(&self, before: Word) -> bool {
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == before.0
    }

    /// Locks it if it is free, to commit; returns the word before.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<Word> {
        self.try_lock_with(LOCKED)
    }

    /// Locks it if it is free, to move what it guards; returns the word before.
    #[inline]
    pub(crate) fn try_lock_to_move(&self) -> Option<Word> {
        self.try_lock_with(LOCKED | MOVING)
    }

    #[inline]
    fn try_lock_with(&self, bits: u64) -> Option<Word> {
        let before = self.0.load(Ordering::Relaxed);
        if before & LOCKED != 0 {
            return None;
        }
        self.0.compare_exchange(before, before | bits, Ordering::Acquire, Ordering::Relaxed).ok()?;
        // Readers that see anything that is stored from here on see the lock too.
        fence(Ordering::Release);
        Some(Word(before))
    }

    /// Unlocks it, which the caller has locked, with a new version.
    #[inline]
    pub(crate) fn unlock(&self, version: u64) {
        debug_assert!(version <= VERSION_MAX);
        self.0.store(version << VERSION_SHIFT, Ordering::Release);
    }

    /// Unlocks it as it was: nothing that it guards has changed.
    pub(crate) fn unlock_unchanged(&self, before: Word) {
        self.0.store(before.0, Ordering::Release);
    }

    /// Unlocks it with the version that it had, but as another word.
    pub(crate) fn unlock_moved(&self, before: Word) {
        let moves = before.0.wrapping_add(MOVE) & ((1 << VERSION_SHIFT) - 1);
        self.0.store(before.version() << VERSION_SHIFT | moves, Ordering::Release);
    }
}
