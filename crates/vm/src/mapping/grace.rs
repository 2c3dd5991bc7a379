//! Page tables that the kernel has let go of and not freed yet.
//!
//! The kernel frees a dropped page table after a grace period of its read-copy-update: ten or twenty milliseconds
//! later, much more when the machine is busy. They count for the process's memory cgroup until then, and a
//! program that takes two hundred thousand scattered faults a second drops as many tables. So a thread waits
//! for grace periods, and faults that would drop tables beyond a limit wait for that thread.

use std::sync::atomic::{AtomicU64, Ordering};

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_sys::{Backoff, rcu};

use crate::bell::Bell;

/// The least that may wait for the kernel, or small heaps would wait all the time.
const LIMIT_BYTES_MIN: usize = 16 << 20;
/// Share of the budget that may wait: one in this many.
const LIMIT: usize = 8;
/// Looks before a drop goes on at the limit: about a second.
const LOOKS: u32 = 10_000;

/// Page tables between being dropped and being free.
pub(super) struct Grace {
    dropped: AtomicU64,
    freed: AtomicU64,
    limit: u64,
    /// The thread's.
    bell: Bell,
}

impl Grace {
    /// For a heap with `budget_bytes` of RAM.
    pub(super) fn new(budget_bytes: usize) -> Self {
        let limit_bytes = (budget_bytes / LIMIT).max(LIMIT_BYTES_MIN);
        Self {
            dropped: AtomicU64::new(0),
            freed: AtomicU64::new(0),
            limit: (limit_bytes / OS_PAGE_BYTES) as u64,
            bell: Bell::new(),
        }
    }

    fn pending(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed).saturating_sub(self.freed.load(Ordering::Relaxed))
    }

    /// Enough to follow grace periods for.
    fn has_many(&self) -> bool {
        self.pending() > self.limit / 4
    }

    /// Announces that `count` page tables are about to be dropped; waits while too many are pending.
    pub(super) fn drop_in_fault(&self, count: u64) {
        if count == 0 {
            return;
        }
        self.dropped.fetch_add(count, Ordering::Relaxed);
        if self.has_many() {
            self.bell.ring();
        }
        let mut backoff = Backoff::new();
        for _ in 0..LOOKS {
            if self.pending() <= self.limit {
                return;
            }
            backoff.wait();
        }
    }

    /// Wakes the thread, to let it end.
    pub(super) fn close(&self) {
        self.bell.ring();
    }

    /// Everything dropped before `wait` is free when it returns.
    fn pass(&self, wait: impl FnOnce() -> bool) {
        let dropped = self.dropped.load(Ordering::Acquire);
        if !wait() {
            // This kernel does not say: nobody shall wait for it.
            self.freed.store(u64::MAX, Ordering::Relaxed);
            return;
        }
        self.freed.fetch_max(dropped, Ordering::Relaxed);
    }

    /// Follows the kernel's grace periods while page tables are pending, until `is_over`.
    pub(super) fn run(&self, is_over: impl Fn() -> bool) {
        while !is_over() {
            if self.has_many() {
                self.pass(|| rcu::wait_for_grace_period().is_ok());
            } else {
                self.bell.wait(&is_over);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_tables_hold_up_those_who_drop_more() {
        let grace = Grace::new(0);
        grace.drop_in_fault(grace.limit);
        assert_eq!((grace.pending(), grace.bell.is_rung()), (grace.limit, true));
        std::thread::scope(|scope| {
            let more = scope.spawn(|| grace.drop_in_fault(10));
            while grace.pending() < grace.limit + 10 {
                std::thread::yield_now();
            }
            grace.pass(|| true);
            more.join().unwrap();
        });
        assert!(grace.pending() <= 10);
    }

    #[test]
    fn a_kernel_that_does_not_say_holds_nobody_up() {
        let grace = Grace::new(0);
        grace.pass(|| false);
        grace.drop_in_fault(grace.limit * 2);
        assert_eq!(grace.pending(), 0);
    }
}
