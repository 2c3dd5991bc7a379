//! Atomics, replaced by loom's when the protocol is model-checked.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU64, Ordering};

/// Gives others time while an entry is held by them.
#[cfg(loom)]
pub struct Backoff;

#[cfg(loom)]
impl Backoff {
    pub fn new() -> Self {
        Self
    }

    pub fn wait(&mut self) {
        loom::thread::yield_now();
    }
}

#[cfg(not(loom))]
pub use aquifer_sys::spin::Backoff;
