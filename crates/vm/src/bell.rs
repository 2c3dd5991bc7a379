//! What a thread of the library sleeps on until there is work.

use std::sync::atomic::{AtomicU32, Ordering};

use aquifer_sys::futex;

/// One thread waits, anybody rings.
pub(crate) struct Bell(AtomicU32);

impl Bell {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Wakes the thread, or keeps it from falling asleep. Cheap when it has been rung already. Signal-safe.
    pub(crate) fn ring(&self) {
        if self.0.swap(1, Ordering::AcqRel) == 0 {
            futex::wake(&self.0, 1);
        }
    }

    /// Sleeps until it is rung, or `is_over`.
    pub(crate) fn wait(&self, is_over: impl Fn() -> bool) {
        while self.0.swap(0, Ordering::AcqRel) == 0 && !is_over() {
            // Interrupted or changed meanwhile: the loop looks again.
            let _ = futex::wait(&self.0, 0, None);
        }
    }

    /// Sleeps until it is rung or `is_over`, for `timeout_ns` at most; whether it was rung.
    pub(crate) fn wait_for(&self, timeout_ns: u64, is_over: impl Fn() -> bool) -> bool {
        if self.0.load(Ordering::Acquire) == 0 && !is_over() {
            // Whatever ended it, the word tells.
            let _ = futex::wait(&self.0, 0, Some(timeout_ns));
        }
        self.0.swap(0, Ordering::AcqRel) == 1
    }

    #[cfg(test)]
    pub(crate) fn is_rung(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn who_is_rung_for_wakes_and_who_is_over_does_not_sleep() {
        let (bell, rounds, over) = (Bell::new(), AtomicU32::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    bell.wait(|| over.load(Ordering::SeqCst));
                    rounds.fetch_add(1, Ordering::SeqCst);
                }
            });
            for round in 0..100 {
                bell.ring();
                while rounds.load(Ordering::SeqCst) <= round {
                    std::thread::yield_now();
                }
            }
            over.store(true, Ordering::SeqCst);
            bell.ring();
        });
        bell.wait(|| true);
        assert!(!bell.is_rung());
    }
}
