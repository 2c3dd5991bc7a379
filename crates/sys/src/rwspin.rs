//! A reader-writer spin lock for memory that fault handlers read.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

use crate::spin::{Backoff, debug_assert_blocked};

const WRITER: u32 = 1 << 31;

/// Many readers or one writer, waiting by [`Backoff`].
///
/// Fault handlers only read. A writer must not fault on managed memory while it holds the lock.
pub struct RwSpinLock<T> {
    state: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the lock hands out `&T` to many threads or `&mut T` to one; T is sent along with the latter.
unsafe impl<T: Send> Send for RwSpinLock<T> {}
// SAFETY: as above; sharing the lock shares T between readers.
unsafe impl<T: Send + Sync> Sync for RwSpinLock<T> {}

impl<T> RwSpinLock<T> {
    /// An unlocked lock.
    pub const fn new(value: T) -> Self {
        Self { state: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// Waits until no writer holds the lock.
    pub fn read(&self) -> ReadGuard<'_, T> {
        debug_assert_blocked();
        let mut backoff = Backoff::new();
        loop {
            let state = self.state.load(Ordering::Relaxed);
            if state & WRITER == 0
                && self
                    .state
                    .compare_exchange_weak(state, state + 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return ReadGuard { lock: self };
            }
            backoff.wait();
        }
    }

    /// Waits until nobody holds the lock.
    pub fn write(&self) -> WriteGuard<'_, T> {
        debug_assert_blocked();
        let mut backoff = Backoff::new();
        while self.state.compare_exchange_weak(0, WRITER, Ordering::Acquire, Ordering::Relaxed).is_err() {
            backoff.wait();
        }
        WriteGuard { lock: self }
    }
}

/// Shared access.
pub struct ReadGuard<'a, T> {
    lock: &'a RwSpinLock<T>,
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the reader count is above zero, so no writer has the value.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> Drop for ReadGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.state.fetch_sub(1, Ordering::Release);
    }
}

/// Exclusive access.
pub struct WriteGuard<'a, T> {
    lock: &'a RwSpinLock<T>,
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the writer bit is ours.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the writer bit is ours, and the guard is borrowed uniquely.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for WriteGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.state.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_exclude_each_other_and_readers() {
        let pair = RwSpinLock::new((0u64, 0u64));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let mut guard = pair.write();
                        guard.0 += 1;
                        guard.1 += 1;
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..10_000 {
                    let guard = pair.read();
                    assert_eq!(guard.0, guard.1);
                }
            });
        });
        assert_eq!(pair.read().0, 20_000);
    }
}
