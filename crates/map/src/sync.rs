//! Atomics, replaced by loom's when the protocol is model-checked.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Gives others time while an entry is held by them.
///
/// Two threads that wait could go on taking turns for ever before the holder's turn comes. What comes after a
/// few rounds of that is therefore run, but not varied any more.
#[cfg(loom)]
#[derive(Default)]
pub struct Backoff {
    rounds: u32,
}

#[cfg(loom)]
impl Backoff {
    const ROUNDS: u32 = 3;

    pub fn new() -> Self {
        Self::default()
    }

    pub fn wait(&mut self) {
        self.rounds += 1;
        if self.rounds > Self::ROUNDS {
            loom::skip_branch();
        }
        loom::thread::yield_now();
    }
}

#[cfg(not(loom))]
pub use aquifer_sys::spin::Backoff;
