//! Waiting without the standard library: a spin lock and a back-off.

use core::cell::UnsafeCell;
use core::hint::spin_loop;
use core::ops::{Deref, DerefMut};
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::futex::timespec_from_ns;

/// Spins before the processor is given to somebody else: about a microsecond.
const SPINS_BEFORE_YIELD: u32 = 100;

static ARE_FAULTS_RESOLVED: AtomicBool = AtomicBool::new(false);

/// To be called before handlers of this process resolve faults: from then on, builds with debug assertions refuse spin locks to threads
/// whose signals are not blocked.
pub fn faults_are_resolved() {
    ARE_FAULTS_RESOLVED.store(true, Ordering::Relaxed);
}

/// A handler that interrupts who holds a spin lock may fault, and its fault wait for that lock for ever.
pub(crate) fn debug_assert_blocked() {
    debug_assert!(
        !ARE_FAULTS_RESOLVED.load(Ordering::Relaxed) || crate::signal::are_blocked(),
        "a spin lock is taken while signals may come in"
    );
}

/// A lock for a few instructions, usable in a fault handler.
///
/// The holder must have its signals blocked ([`crate::SignalsBlocked`]) or be in the fault handler
/// itself: a handler that interrupts the holder on its own thread would wait for ever. The holder
/// must not touch managed memory for the same reason, and must not block, since waiters burn a
/// processor.
pub struct SpinLock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the lock hands the value to one thread at a time, which is all that moving it between
// threads asks for; no reference to it outlives a guard.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    /// A free lock around `value`.
    pub const fn new(value: T) -> SpinLock<T> {
        SpinLock { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Waits for the lock.
    ///
    /// # Context
    /// Spins, then yields the processor. Signal-safe under the conditions of the type.
    pub fn lock(&self) -> SpinLockGuard<'_, T> {
        let mut spins = 0;
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            while self.held.load(Ordering::Relaxed) {
                pause(spins);
                spins += 1;
            }
        }
    }

    /// The lock, if it is free now.
    pub fn try_lock(&self) -> Option<SpinLockGuard<'_, T>> {
        debug_assert_blocked();
        self.held
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
            .then(|| SpinLockGuard { lock: self })
    }
}

/// The lock is held for as long as this lives.
pub struct SpinLockGuard<'a, T> {
    lock: &'a SpinLock<T>,
}

// SAFETY: a shared guard gives out `&T` only, which may cross threads when `T: Sync`. Without this
// line the guard would be `Sync` for every `T: Send`, because the lock is.
unsafe impl<T: Sync> Sync for SpinLockGuard<'_, T> {}

impl<T> Deref for SpinLockGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock, so no other reference to the value exists.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for SpinLockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and the guard itself is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for SpinLockGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.held.store(false, Ordering::Release);
    }
}

/// One step of waiting for something that takes a few instructions.
fn pause(spins: u32) {
    if spins < SPINS_BEFORE_YIELD { spin_loop() } else { yield_processor() }
}

/// Lets another thread run.
pub(crate) fn yield_processor() {
    // SAFETY: the call takes no argument and touches no memory.
    unsafe { libc::sched_yield() };
}

/// Waiting for another thread's I/O, which takes tens of microseconds: first spins, then yields,
/// then sleeps in growing steps of 20 to 100 microseconds.
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    step: u32,
}

impl Backoff {
    const YIELDS: u32 = 10;
    const SLEEP_NS_MIN: u64 = 20_000;
    const SLEEP_NS_MAX: u64 = 100_000;

    /// A back-off that has not waited yet.
    pub const fn new() -> Backoff {
        Backoff { step: 0 }
    }

    /// Starts again with spinning; for use after progress.
    pub fn reset(&mut self) {
        self.step = 0;
    }

    /// Waits a little, longer each time. The caller looks at its condition between the calls.
    ///
    /// # Context
    /// May sleep up to about 100 microseconds. Signal-safe.
    pub fn wait(&mut self) {
        match self.step.checked_sub(SPINS_BEFORE_YIELD + Self::YIELDS) {
            None => pause(self.step),
            Some(sleeps) => sleep((Self::SLEEP_NS_MIN * (1 + u64::from(sleeps))).min(Self::SLEEP_NS_MAX)),
        }
        self.step = self.step.saturating_add(1);
    }
}

fn sleep(ns: u64) {
    let time = timespec_from_ns(ns);
    // SAFETY: the kernel reads `time` and is given no place for the remaining time. A sleep cut
    // short by a signal is as good as a whole one.
    unsafe { libc::nanosleep(&time, ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time() {
        const THREADS: u64 = 4;
        const ROUNDS: u64 = 20_000;
        let lock = SpinLock::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| (0..ROUNDS).for_each(|_| *lock.lock() += 1));
            }
        });
        assert_eq!(*lock.lock(), THREADS * ROUNDS);
    }

    #[test]
    fn a_held_lock_refuses() {
        let lock = SpinLock::new(());
        let guard = lock.try_lock().expect("free");
        assert!(lock.try_lock().is_none());
        drop(guard);
        assert!(lock.try_lock().is_some());
    }

    #[test]
    fn the_back_off_lets_the_other_thread_finish() {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut work = Backoff::new();
                (0..200).for_each(|_| work.wait());
                done.store(true, Ordering::Release);
            });
            let mut backoff = Backoff::new();
            while !done.load(Ordering::Acquire) {
                backoff.wait();
            }
        });
    }
}
