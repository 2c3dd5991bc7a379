//! Whether a client gets on with what it began.
//!
//! A connection may be idle for as long as it likes. A client that stops in the middle of a message keeps its place only
//! until another client needs it: a network that was away for a while costs nobody a connection for nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What a connection waits for its client to do, and since when.
#[derive(Debug)]
pub struct Pace {
    created: Instant,
    /// The client's options are over.
    is_in_transmission: AtomicBool,
    receiving: Since,
    sending: Since,
    is_sent_away: AtomicBool,
}

/// Nanoseconds after `created` at which a wait began, and one more; 0 while there is none.
type Since = AtomicU64;

/// A wait for the client, which ends when this is dropped.
#[derive(Debug)]
pub struct Waiting<'a>(&'a Since);

impl Pace {
    pub fn new() -> Self {
        Pace {
            created: Instant::now(),
            is_in_transmission: AtomicBool::new(false),
            receiving: Since::new(0),
            sending: Since::new(0),
            is_sent_away: AtomicBool::new(false),
        }
    }

    /// Marks the end of the client's options.
    pub fn begin_transmission(&self) {
        self.is_in_transmission.store(true, Relaxed);
    }

    /// Whether the client's options are over.
    pub fn is_in_transmission(&self) -> bool {
        self.is_in_transmission.load(Relaxed)
    }

    /// Begins to wait for the rest of a message. One thread at a time receives.
    pub fn receiving(&self) -> Waiting<'_> {
        self.waiting(&self.receiving)
    }

    /// Begins to wait until the client has taken a reply. One thread at a time sends.
    pub fn sending(&self) -> Waiting<'_> {
        self.waiting(&self.sending)
    }

    fn waiting<'a>(&self, since: &'a Since) -> Waiting<'a> {
        since.store(self.now(), Relaxed);
        Waiting(since)
    }

    /// Whether a wait for the client has lasted for `stall_max`.
    pub fn is_stalled(&self, stall_max: Duration) -> bool {
        let now = self.now();
        [&self.receiving, &self.sending].iter().any(|since| match since.load(Relaxed) {
            0 => false,
            began => u128::from(now.saturating_sub(began)) >= stall_max.as_nanos(),
        })
    }

    /// Marks that the connection has to end for another one.
    pub fn send_away(&self) {
        self.is_sent_away.store(true, Relaxed);
    }

    /// Whether the connection has to end for another one.
    pub fn is_sent_away(&self) -> bool {
        self.is_sent_away.load(Relaxed)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.created.elapsed().as_nanos()).unwrap_or(u64::MAX).saturating_add(1)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wait_can_last_too_long() {
        let pace = Pace::new();
        assert!(!pace.is_stalled(Duration::ZERO));
        let waits = [Pace::receiving, Pace::sending];
        for wait in waits {
            let waiting = wait(&pace);
            assert!(pace.is_stalled(Duration::ZERO) && !pace.is_stalled(Duration::MAX));
            drop(waiting);
            assert!(!pace.is_stalled(Duration::ZERO));
        }
    }
}
