//! A fixed number of things that faults take in turns.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

use aquifer_sys::Backoff;
use aquifer_sys::counter::{STRIPES, stripe};

/// One of the things, with cache lines of its own.
#[repr(align(64))]
struct Item<T> {
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

/// Things reserved at start. A thread that finds none waits until another one gives one back.
pub(crate) struct Pool<T> {
    items: Box<[Item<T>]>,
}

// SAFETY: an item is used only by the thread that set its `is_taken`.
unsafe impl<T: Send> Sync for Pool<T> {}

impl<T> Pool<T> {
    /// A pool of `items`.
    ///
    /// # Panics
    /// If there are none.
    pub(crate) fn new(values: impl IntoIterator<Item = T>) -> Self {
        let item = |value| Item { is_taken: AtomicBool::new(false), value: UnsafeCell::new(value) };
        let items: Box<[_]> = values.into_iter().map(item).collect();
        assert!(!items.is_empty());
        Self { items }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Takes one, waiting if all are in use.
    pub(crate) fn take_in_fault(&self) -> PoolGuard<'_, T> {
        let mut backoff = Backoff::new();
        let first = stripe() * self.items.len() / STRIPES;
        loop {
            let (behind, from) = self.items.split_at(first);
            for item in from.iter().chain(behind) {
                if !item.is_taken.load(Ordering::Relaxed) && !item.is_taken.swap(true, Ordering::Acquire) {
                    return PoolGuard { item };
                }
            }
            backoff.wait();
        }
    }
}

/// An item in use.
pub(crate) struct PoolGuard<'a, T> {
    item: &'a Item<T>,
}

impl<T> Deref for PoolGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: we set `is_taken`, so nobody else has this item.
        unsafe { &*self.item.value.get() }
    }
}

impl<T> DerefMut for PoolGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`, and the guard is borrowed uniquely.
        unsafe { &mut *self.item.value.get() }
    }
}

impl<T> Drop for PoolGuard<'_, T> {
    fn drop(&mut self) {
        self.item.is_taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn each_is_given_to_one_at_a_time() {
        for count in [1, 3, 64] {
            let pool = Pool::new(vec![0usize; count]);
            let mut taken: Vec<_> = (0..count).map(|_| pool.take_in_fault()).collect();
            assert!(pool.items.iter().all(|item| item.is_taken.load(Ordering::Relaxed)));
            taken.iter_mut().enumerate().for_each(|(n, item)| **item = n);
            assert!(taken.iter().enumerate().all(|(n, item)| **item == n));
            drop(taken);
            assert!(!pool.items.iter().any(|item| item.is_taken.load(Ordering::Relaxed)));
        }
    }

    #[test]
    fn who_finds_none_waits() {
        let (pool, inside) = (Pool::new([0u64, 0]), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let mut item = pool.take_in_fault();
                        assert!(inside.fetch_add(1, Ordering::SeqCst) < 2);
                        let before = *item;
                        std::thread::yield_now();
                        *item = before + 1;
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        let (one, other) = (pool.take_in_fault(), pool.take_in_fault());
        assert_eq!(*one + *other, 3000);
    }
}
