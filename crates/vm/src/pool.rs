//! A fixed number of things that faults take in turns.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};

use aquifer_sys::Backoff;

/// Things reserved at start, at most 64. Who finds none waits until another gives one back.
pub(crate) struct Pool<T> {
    items: Box<[UnsafeCell<T>]>,
    /// Bit n is set while item n is free.
    free: AtomicU64,
}

// SAFETY: an item is used only by the thread that cleared its bit in `free`.
unsafe impl<T: Send> Sync for Pool<T> {}

impl<T> Pool<T> {
    /// A pool of `items`.
    ///
    /// # Panics
    /// If there are none or more than 64.
    pub(crate) fn new(items: impl IntoIterator<Item = T>) -> Self {
        let items: Box<[_]> = items.into_iter().map(UnsafeCell::new).collect();
        assert!((1..=64).contains(&items.len()));
        let free = AtomicU64::new(u64::MAX >> (64 - items.len()));
        Self { items, free }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Takes one, waiting if all are in use.
    pub(crate) fn take_in_fault(&self) -> PoolGuard<'_, T> {
        let mut backoff = Backoff::new();
        loop {
            let free = self.free.load(Ordering::Relaxed);
            if free == 0 {
                backoff.wait();
                continue;
            }
            let index = free.trailing_zeros();
            let taken = free & !(1 << index);
            if self.free.compare_exchange_weak(free, taken, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return PoolGuard { pool: self, index };
            }
        }
    }
}

/// An item in use.
pub(crate) struct PoolGuard<'a, T> {
    pool: &'a Pool<T>,
    index: u32,
}

impl<T> Deref for PoolGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: our bit in `free` is clear, so nobody else has this item.
        unsafe { &*self.pool.items[self.index as usize].get() }
    }
}

impl<T> DerefMut for PoolGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`, and the guard is borrowed uniquely.
        unsafe { &mut *self.pool.items[self.index as usize].get() }
    }
}

impl<T> Drop for PoolGuard<'_, T> {
    fn drop(&mut self) {
        self.pool.free.fetch_or(1 << self.index, Ordering::Release);
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
            assert_eq!(pool.free.load(Ordering::Relaxed), 0);
            taken.iter_mut().enumerate().for_each(|(n, item)| **item = n);
            assert!(taken.iter().enumerate().all(|(n, item)| **item == n));
            drop(taken);
            assert_eq!(pool.free.load(Ordering::Relaxed).count_ones() as usize, count);
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
