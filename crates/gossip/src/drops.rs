//! Datagrams that were dropped: all are counted, and one of each kind is told for each machine.

use std::collections::{HashSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aquifer_remote::control::MEMBERS_MAX;

use crate::seal::{AGE_MAX, Refused};

/// Most sentences that are remembered, so that nobody fills memory with addresses that it makes up.
const SAID_MAX: usize = 1024;
/// Most sentences that wait to be read.
const NEWS_MAX: usize = 64;

/// What was received, sent and dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DropsSeen {
    /// Datagrams that were understood.
    pub received: u64,
    /// Datagrams that were sent.
    pub sent: u64,
    /// That do not open with the cluster's key.
    pub unopened: u64,
    /// That open and make no sense.
    pub malformed: u64,
    /// That are longer than any of this version.
    pub oversize: u64,
    /// That are older than half a minute, or of a clock that is as far from ours.
    pub stale: u64,
    /// That name more donors than are kept.
    pub crowded: u64,
    /// That say they are of this donor's address.
    pub own: u64,
}

impl DropsSeen {
    /// Datagrams that came and were not taken, or not all of what they say.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.unopened + self.malformed + self.oversize + self.stale + self.crowded + self.own
    }
}

/// Why a datagram is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dropped {
    /// It could not be read.
    Refused(Refused),
    /// It names more donors than are kept; those were left out.
    Crowded,
    /// It says that it is of this donor's own address.
    Own,
}

/// Counts and tells.
#[derive(Default)]
pub struct Drops {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    seen: DropsSeen,
    said: HashSet<(IpAddr, &'static str)>,
    news: VecDeque<String>,
}

impl Drops {
    pub fn seen(&self) -> DropsSeen {
        self.lock().seen
    }

    pub fn note_received(&self) {
        self.lock().seen.received += 1;
    }

    pub fn note_sent(&self) {
        self.lock().seen.sent += 1;
    }

    /// One more, from there.
    pub fn note(&self, peer: SocketAddr, why: Dropped) {
        let mut inner = self.lock();
        let seen = &mut inner.seen;
        let (count, kind) = match why {
            Dropped::Refused(Refused::Unopened) => (&mut seen.unopened, "unopened"),
            Dropped::Refused(Refused::Malformed) => (&mut seen.malformed, "malformed"),
            Dropped::Refused(Refused::Oversize) => (&mut seen.oversize, "oversize"),
            Dropped::Refused(Refused::Stale(_)) => (&mut seen.stale, "stale"),
            Dropped::Crowded => (&mut seen.crowded, "crowded"),
            Dropped::Own => (&mut seen.own, "own"),
        };
        *count += 1;
        let ip = peer.ip().to_canonical();
        if inner.said.len() < SAID_MAX && inner.said.insert((ip, kind)) {
            inner.tell(sentence(peer, why));
        }
    }

    pub fn tell(&self, sentence: String) {
        self.lock().tell(sentence);
    }

    /// What was told since the last time.
    pub fn take_news(&self) -> Vec<String> {
        self.lock().news.drain(..).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn tell(&mut self, sentence: String) {
        if self.news.len() == NEWS_MAX {
            self.news.pop_front();
        }
        self.news.push_back(sentence);
    }
}

fn sentence(peer: SocketAddr, why: Dropped) -> String {
    let why = match why {
        Dropped::Refused(Refused::Unopened) => {
            "sends what does not open with this cluster's key: give its donor a --cluster folder of the same cluster".into()
        }
        Dropped::Refused(Refused::Malformed) => {
            "sends what is no gossip of this version: install the same version on both".into()
        }
        Dropped::Refused(Refused::Oversize) => {
            "sends longer datagrams than gossip of this version: install the same version on both".into()
        }
        Dropped::Refused(Refused::Stale(ahead_s)) => {
            let direction = if ahead_s < 0 { "behind" } else { "ahead of" };
            format!(
                "has a clock {} s {direction} ours, more than {} s are not believed: synchronise the clocks (chrony, systemd-timesyncd); if they are, somebody sends old datagrams again",
                ahead_s.unsigned_abs(),
                AGE_MAX.as_secs()
            )
        }
        Dropped::Crowded => format!("names more donors than are kept, {MEMBERS_MAX}: make several clusters of them"),
        Dropped::Own => "says that it is at this donor's address: let each donor listen at an address of its own; if it does, somebody sends back what it heard".into(),
    };
    format!("gossip: {peer} {why}; such datagrams are dropped")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_counted_and_one_is_told() {
        let drops = Drops::default();
        let peer = |last| SocketAddr::from(([10, 0, 0, last], 7447));
        for _ in 0..5 {
            drops.note(peer(1), Dropped::Refused(Refused::Unopened));
            drops.note(peer(2), Dropped::Refused(Refused::Unopened));
            drops.note(peer(1), Dropped::Refused(Refused::Stale(-95)));
        }
        assert_eq!((drops.seen().unopened, drops.seen().stale, drops.seen().dropped()), (10, 5, 15));
        let news = drops.take_news();
        assert_eq!(news.len(), 3, "{news:?}");
        assert!(
            news[2].contains("95 s behind ours") && news[2].contains("synchronise the clocks"),
            "{news:?}"
        );
        assert_eq!(drops.take_news(), Vec::<String>::new());
    }

    #[test]
    fn addresses_that_are_made_up_fill_nothing() {
        let drops = Drops::default();
        for nth in 0..10_000_u16 {
            let [high, low] = nth.to_be_bytes();
            drops.note(SocketAddr::from(([10, 0, high, low], 1)), Dropped::Refused(Refused::Malformed));
        }
        assert_eq!(drops.seen().malformed, 10_000);
        assert_eq!(drops.lock().said.len(), SAID_MAX);
        assert_eq!(drops.take_news().len(), NEWS_MAX);
    }
}
