//! Locks of rows: some for all of them.

use std::hash::{BuildHasher, RandomState};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::geometry::Row;

/// Locks, and with them rows that can be written at once.
const LOCKS: usize = 256;

/// A thread that reads or writes a row holds its lock; no thread holds two.
#[derive(Debug)]
pub struct RowLocks {
    locks: Box<[RwLock<()>]>,
    hash: RandomState,
}

impl RowLocks {
    pub fn new() -> RowLocks {
        RowLocks { locks: (0..LOCKS).map(|_| RwLock::default()).collect(), hash: RandomState::new() }
    }

    fn of(&self, row: Row) -> &RwLock<()> {
        &self.locks[(self.hash.hash_one(row) % LOCKS as u64) as usize]
    }

    /// With others who read it.
    pub fn read(&self, row: Row) -> RwLockReadGuard<'_, ()> {
        self.of(row).read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Alone.
    pub fn write(&self, row: Row) -> RwLockWriteGuard<'_, ()> {
        self.of(row).write().unwrap_or_else(PoisonError::into_inner)
    }
}
