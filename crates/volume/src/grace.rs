//! Waiting for those who still look at what was replaced.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Counts looks, in two periods by turns. A look never waits, so a thread may nest looks. With a lock for
/// reading, the inner look would wait behind a writer that waits for the outer one.
#[derive(Default)]
pub struct Grace {
    period: AtomicUsize,
    looking: [AtomicUsize; 2],
    /// One waits at a time.
    is_waited: AtomicBool,
    waiting: Mutex<()>,
    changed: Condvar,
}

/// Somebody looks until this is dropped.
pub struct Look<'a> {
    grace: &'a Grace,
    period: usize,
}

impl Grace {
    /// Looks: what is not replaced yet stays until this is dropped.
    pub fn look(&self) -> Look<'_> {
        loop {
            let period = self.period.load(Ordering::SeqCst);
            let look = self.enter(period);
            // Else nobody might wait for this one.
            if self.period.load(Ordering::SeqCst) == period {
                return look;
            }
        }
    }

    fn enter(&self, period: usize) -> Look<'_> {
        self.looking[period].fetch_add(1, Ordering::SeqCst);
        Look { grace: self, period }
    }

    /// Waits until all have gone who looked before this call.
    pub fn wait(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let period = self.period.load(Ordering::SeqCst);
        self.period.store(1 - period, Ordering::SeqCst);
        self.is_waited.store(true, Ordering::SeqCst);
        while self.looking[period].load(Ordering::SeqCst) > 0 {
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        self.is_waited.store(false, Ordering::SeqCst);
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        let is_last = self.grace.looking[self.period].fetch_sub(1, Ordering::SeqCst) == 1;
        if is_last && self.grace.is_waited.load(Ordering::SeqCst) {
            // The waiting thread reads the count under this lock: it sleeps already, or reads the count
            // afterwards.
            drop(self.grace.waiting.lock().unwrap_or_else(PoisonError::into_inner));
            self.grace.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_looks_may_look_again_while_somebody_waits() {
        let grace = Arc::new(Grace::default());
        let outer = grace.look();
        let (told, hears) = channel();
        let waiter = {
            let grace = Arc::clone(&grace);
            std::thread::spawn(move || {
                grace.wait();
                told.send(()).expect("somebody hears");
            })
        };
        assert_eq!(hears.recv_timeout(Duration::from_millis(50)), Err(RecvTimeoutError::Timeout));
        let looker = {
            let grace = Arc::clone(&grace);
            let (told, hears) = channel();
            std::thread::spawn(move || {
                drop(grace.look());
                told.send(()).expect("somebody hears");
            });
            hears
        };
        assert_eq!(looker.recv_timeout(Duration::from_secs(60)), Ok(()), "nobody waits to look");
        assert_eq!(hears.try_recv().ok(), None, "the first look is not over");
        drop(outer);
        assert_eq!(hears.recv_timeout(Duration::from_secs(60)), Ok(()));
        waiter.join().expect("the waiter ends");
    }

    #[test]
    fn what_is_replaced_is_seen_by_nobody_after_the_wait() {
        const ROUNDS: u64 = 2000;
        let (grace, current, oldest) = (Grace::default(), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while current.load(Ordering::SeqCst) < ROUNDS {
                        let _look = grace.look();
                        let seen = current.load(Ordering::SeqCst);
                        let _again = grace.look();
                        assert!(oldest.load(Ordering::SeqCst) <= seen, "what was seen is gone");
                    }
                });
            }
            for round in 1..=ROUNDS {
                current.store(round, Ordering::SeqCst);
                grace.wait();
                oldest.store(round, Ordering::SeqCst);
            }
        });
    }
}
