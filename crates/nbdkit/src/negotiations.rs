//! Clients that have connected and not begun: nbdkit waits for them for ever, and each has a thread and a descriptor.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::SocketAddrAny;

use crate::clients::{Half, Listening};

/// Clients that have not begun, the oldest first.
///
/// Only those of TCP: programs at the other end of a Unix socket have no addresses, and are this user's.
pub struct Negotiations {
    waiting: Mutex<Vec<(SocketAddrAny, Instant)>>,
    has_begun: Condvar,
}

impl Negotiations {
    /// None.
    pub const fn new() -> Self {
        Negotiations { waiting: Mutex::new(Vec::new()), has_begun: Condvar::new() }
    }

    /// A client has connected.
    pub fn begin(&self, peer: SocketAddrAny) {
        if is_of_network(&peer) {
            self.lock().push((peer, Instant::now()));
            self.has_begun.notify_one();
        }
    }

    /// A client has asked for the export.
    pub fn end(&self, peer: &SocketAddrAny) {
        self.lock().retain(|(waiting, _)| waiting != peer);
    }

    /// Ends the connections of clients that do not begin within `patience`, again and again.
    pub fn end_silent(&self, patience: Duration, listening: &Listening) -> ! {
        loop {
            let late = self.late(patience);
            listening.shut_down_clients(Half::Both, |peer| late.contains(peer));
        }
    }

    /// Waits until there are clients that connected `patience` ago, and takes them.
    fn late(&self, patience: Duration) -> Vec<SocketAddrAny> {
        let mut waiting = self.lock();
        loop {
            waiting = match waiting.first() {
                None => self.has_begun.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some((_, since)) => {
                    let left = patience.saturating_sub(since.elapsed());
                    if left.is_zero() {
                        let count = waiting.partition_point(|(_, since)| since.elapsed() >= patience);
                        return waiting.drain(..count).map(|(peer, _)| peer).collect();
                    }
                    self.has_begun.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(SocketAddrAny, Instant)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_of_network(peer: &SocketAddrAny) -> bool {
    std::net::SocketAddr::try_from(peer.clone()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_that_have_not_begun_are_late() {
        let peer = |port: u16| SocketAddrAny::from(std::net::SocketAddr::from(([127, 0, 0, 1], port)));
        let negotiations = Negotiations::new();
        for port in 1..=3 {
            negotiations.begin(peer(port));
        }
        negotiations.end(&peer(2));
        negotiations.end(&peer(9));
        assert_eq!(negotiations.late(Duration::ZERO), [peer(1), peer(3)]);
        assert!(negotiations.lock().is_empty());
    }
}
