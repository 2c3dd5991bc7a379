//! When a commit is durable.
//!
//! | | a commit returns when it is | a crash of the machine loses |
//! |---|---|---|
//! | [`Durability::Sync`] | durable | nothing that has returned |
//! | [`Durability::Group`] | visible; a thread makes all durable at intervals | the commits of the last interval, and of the time that it takes |
//! | [`Durability::Relaxed`] | visible; durable after [`DurableHeap::sync`](crate::DurableHeap::sync) | the commits since then |
//!
//! What is left is a prefix of the commits in each case. After a sync that failed, of a thread or of a call, nobody knows what is durable: all
//! later commits and syncs fail with its error; what is there can be read. A crash of the process alone loses nothing on a disk or in tmpfs, but what
//! recovery finds behind the floor it drops all the same.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aquifer_sys::Backoff;

use crate::error::Result;
use crate::log::Log;
use crate::record::{NO_FLOOR, Record};

/// When a commit is durable.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Durability {
    /// When it returns.
    #[default]
    Sync,
    /// About so long after it has returned.
    Group(Duration),
    /// After the next call of [`DurableHeap::sync`](crate::DurableHeap::sync), or when the heap is closed.
    Relaxed,
}

/// Nobody commits.
const IDLE: u64 = u64::MAX;

/// What a session has appended that is not durable yet.
pub(crate) struct Unsynced {
    /// While it commits, a version that is older than its transaction's.
    older: AtomicU64,
    ranges: Mutex<Vec<(u64, u64)>>,
    /// Held from before ranges are taken until they are durable: who finds none must not take them for durable.
    syncing: Mutex<()>,
}

impl Unsynced {
    fn ranges(&self) -> MutexGuard<'_, Vec<(u64, u64)>> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn syncing(&self) -> MutexGuard<'_, ()> {
        self.syncing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A commit begins, before it takes its version.
    pub(crate) fn begin(&self, clock: &AtomicU64) {
        self.older.store(clock.load(Ordering::Acquire), Ordering::Release);
    }

    /// All that it has appended is in the ranges.
    pub(crate) fn end(&self) {
        self.older.store(IDLE, Ordering::Release);
    }

    /// Adds what was appended.
    pub(crate) fn add(&self, offset: u64, len: u64) {
        let mut ranges = self.ranges();
        match ranges.last_mut() {
            Some((start, before)) if *start + *before == offset => *before += len,
            _ => ranges.push((offset, len)),
        }
    }

    /// Makes durable what was added.
    pub(crate) fn sync(&self, log: &Log) -> Result<()> {
        let _alone = self.syncing();
        log.persist.sync(&self.take())
    }

    fn take(&self) -> Vec<(u64, u64)> {
        std::mem::take(&mut *self.ranges())
    }

    /// Waits until no transaction up to `version` is being appended.
    fn wait_for(&self, version: u64) {
        let mut backoff = Backoff::new();
        while self.older.load(Ordering::Acquire) < version {
            backoff.wait();
        }
    }
}

/// What all sessions of a heap whose commits do not wait have in common.
pub(crate) struct Later {
    sessions: Mutex<Vec<Arc<Unsynced>>>,
    floor: Mutex<Record>,
}

impl Later {
    pub(crate) fn new(floor: Record) -> Self {
        Self { sessions: Mutex::default(), floor: Mutex::new(floor) }
    }

    /// The part of a new session.
    pub(crate) fn add_session(&self) -> Arc<Unsynced> {
        let unsynced = Arc::new(Unsynced {
            older: AtomicU64::new(IDLE),
            ranges: Mutex::default(),
            syncing: Mutex::default(),
        });
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&unsynced));
        unsynced
    }

    /// Makes all durable that has committed before this call.
    pub(crate) fn sync(&self, log: &Log, clock: &AtomicU64) -> Result<()> {
        let mut floor = self.floor.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = clock.load(Ordering::Acquire);
        if floor.value != NO_FLOOR && floor.value >= newest {
            return Ok(());
        }
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        // Before `syncing` is held: a session that appends a long transaction may be about to wait for it.
        sessions.iter().for_each(|session| session.wait_for(newest));
        let _alone: Vec<_> = sessions.iter().map(|session| session.syncing()).collect();
        let ranges: Vec<_> = sessions.iter().flat_map(|session| session.take()).collect();
        log.persist.sync(&ranges)?;
        floor.write(&*log.persist, log.superblock.id, newest)
    }
}
