//! Locks of rows: some for all of them.

use std::hash::{BuildHasher, RandomState};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use arrayvec::ArrayVec;

use super::geometry::Row;

/// Locks, and with them rows that can be written at once.
const LOCKS: usize = 256;

/// A thread that reads or writes a row holds its lock. A thread with several takes no other one.
#[derive(Debug)]
pub struct RowLocks {
    locks: Box<[RwLock<()>]>,
    hash: RandomState,
}

impl RowLocks {
    pub fn new() -> RowLocks {
        RowLocks { locks: (0..LOCKS).map(|_| RwLock::default()).collect(), hash: RandomState::new() }
    }

    fn number(&self, row: Row) -> usize {
        (self.hash.hash_one(row) % LOCKS as u64) as usize
    }

    fn of(&self, row: Row) -> &RwLock<()> {
        &self.locks[self.number(row)]
    }

    /// With others who read it.
    pub fn read(&self, row: Row) -> RwLockReadGuard<'_, ()> {
        self.of(row).read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Several alone, at most `MOST`, which are locked in one order everywhere.
    pub fn write_all<const MOST: usize>(
        &self,
        rows: impl Iterator<Item = Row>,
    ) -> ArrayVec<RwLockWriteGuard<'_, ()>, MOST> {
        let mut numbers: ArrayVec<_, MOST> = rows.map(|row| self.number(row)).collect();
        numbers.sort_unstable();
        let locks = numbers.chunk_by(|one, next| one == next).map(|same| &self.locks[same[0]]);
        locks.map(|lock| lock.write().unwrap_or_else(PoisonError::into_inner)).collect()
    }

    /// Alone.
    pub fn write(&self, row: Row) -> RwLockWriteGuard<'_, ()> {
        self.of(row).write().unwrap_or_else(PoisonError::into_inner)
    }
}
