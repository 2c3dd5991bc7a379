//! Sessions of a heap: each transaction has one to itself.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use aquifer_sys::counter::STRIPES;
use aquifer_sys::stripe;

/// Transactions at a time; others wait.
pub(crate) const SESSIONS: usize = 64;

/// On cache lines of its own.
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

impl<T> Deref for Apart<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Sessions that threads take in turn, each its own again if that is free.
pub(crate) struct Sessions<T>(Box<[Apart<Mutex<T>>]>);

impl<T> Sessions<T> {
    /// Each is made with its number.
    pub(crate) fn new(make: impl FnMut(usize) -> T) -> Self {
        Self((0..SESSIONS).map(make).map(|session| Apart(Mutex::new(session))).collect())
    }

    /// Sessions that no thread has now, one after the other.
    pub(crate) fn idle(&self) -> impl Iterator<Item = MutexGuard<'_, T>> {
        self.0.iter().filter_map(|session| match session.try_lock() {
            Ok(session) => Some(session),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        })
    }

    /// Whether more than one is taken.
    pub(crate) fn are_others_busy(&self) -> bool {
        SESSIONS - self.idle().count() > 1
    }

    /// Takes a session that no other thread has; waits if all are taken.
    #[inline]
    pub(crate) fn take(&self) -> MutexGuard<'_, T> {
        let first = stripe() * SESSIONS / STRIPES;
        let (behind, from) = self.0.split_at(first);
        for session in from.iter().chain(behind) {
            match session.try_lock() {
                Ok(session) => return session,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        self.0[first].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
