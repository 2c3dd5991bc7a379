//! Donors that are named at the start, and how they are found by name.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use crate::id::plain;

/// Most seeds that are asked in one round.
const ASKED_MAX: usize = 3;
/// Most addresses of one name that are asked.
const ADDRESSES_MAX: usize = 4;
/// Rounds after which names are looked up again, as long as no donor answers there.
const LOOKED_UP_EVERY: u32 = 5;

/// One of them: where it is, as far as that is known.
struct Seed {
    /// If it is not an address itself.
    name: Option<String>,
    addresses: Vec<SocketAddr>,
}

/// Looks up a name, which may take minutes.
type Resolver = fn(&str) -> Vec<SocketAddr>;

/// All of them.
pub(crate) struct Seeds {
    seeds: Vec<Seed>,
    resolver: Resolver,
    /// Whether names may mean other machines.
    may_be_far: bool,
    /// Of the seed that is asked next.
    next: usize,
    rounds: u32,
    found: Receiver<(usize, Vec<SocketAddr>)>,
    finds: Sender<(usize, Vec<SocketAddr>)>,
    /// Looks names up, which may take minutes, and ends.
    lookup: Option<JoinHandle<()>>,
}

impl Seeds {
    pub fn new(names: &[String], may_be_far: bool) -> Seeds {
        Seeds::with(names, may_be_far, |name| {
            name.to_socket_addrs().map(Iterator::collect).unwrap_or_default()
        })
    }

    fn with(names: &[String], may_be_far: bool, resolver: Resolver) -> Seeds {
        let seed = |name: &String| match name.parse::<SocketAddr>() {
            Ok(address) => Seed { name: None, addresses: vec![plain(address)] },
            Err(_) => Seed { name: Some(name.clone()), addresses: Vec::new() },
        };
        let (finds, found) = channel();
        let seeds = names.iter().map(seed).collect();
        Seeds { seeds, resolver, may_be_far, next: 0, rounds: 0, found, finds, lookup: None }
    }

    /// Where some of the seeds are at which no donor is alive: in turns, so that each is asked again and again.
    pub fn round(&mut self, is_alive: impl Fn(SocketAddr) -> bool) -> Vec<SocketAddr> {
        while let Ok((nth, addresses)) = self.found.try_recv() {
            self.seeds[nth].addresses = addresses;
        }
        let is_there = |seed: &Seed| seed.addresses.iter().any(|address| is_alive(*address));
        let missing: Vec<_> = (0..self.seeds.len()).filter(|nth| !is_there(&self.seeds[*nth])).collect();
        if self.rounds.is_multiple_of(LOOKED_UP_EVERY) {
            self.look_up(&missing);
        }
        self.rounds = self.rounds.wrapping_add(1);
        let turn = missing.partition_point(|nth| *nth < self.next);
        let asked: Vec<_> = missing[turn..].iter().chain(&missing[..turn]).take(ASKED_MAX).copied().collect();
        self.next = asked.last().map_or(0, |last| last + 1);
        asked.into_iter().flat_map(|nth| self.seeds[nth].addresses.clone()).collect()
    }

    /// Looks names up in a thread that ends by itself, unless one still does.
    fn look_up(&mut self, missing: &[usize]) {
        let name = |nth: &usize| Some((*nth, self.seeds[*nth].name.clone()?));
        let names: Vec<_> = missing.iter().filter_map(name).collect();
        if names.is_empty() || self.lookup.as_ref().is_some_and(|lookup| !lookup.is_finished()) {
            return;
        }
        let (finds, resolver, may_be_far) = (self.finds.clone(), self.resolver, self.may_be_far);
        let look_up = move || {
            for (nth, name) in names {
                let may_be = |address: &SocketAddr| may_be_far || address.ip().is_loopback();
                let found = resolver(&name).into_iter().filter(may_be).map(plain);
                let found: Vec<_> = found.take(ADDRESSES_MAX).collect();
                // A name that nobody knows may be known later; one that nobody knows any more may be a failure of the lookup.
                if !found.is_empty() && finds.send((nth, found)).is_err() {
                    return;
                }
            }
        };
        // Without a thread names are looked up when there is one.
        self.lookup = thread::Builder::new().name("aq-gossip-names".into()).spawn(look_up).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU16, Ordering};

    use super::*;

    #[test]
    fn all_seeds_have_their_turn_until_they_are_alive() {
        let names: Vec<_> = (1..=7).map(|port| format!("127.0.0.1:{port}")).collect();
        let mut seeds = Seeds::new(&names, false);
        let mut ports = |alive: &[u16]| -> Vec<u16> {
            let asked = seeds.round(|address| alive.contains(&address.port()));
            asked.iter().map(SocketAddr::port).collect()
        };
        assert_eq!(ports(&[]), [1, 2, 3]);
        assert_eq!(ports(&[5]), [4, 6, 7]);
        assert_eq!(ports(&[]), [1, 2, 3]);
        assert_eq!(ports(&[1, 2, 3, 4, 5, 6, 7]), [0; 0]);
        assert_eq!(ports(&[1, 2, 4, 5, 6, 7]), [3]);
    }

    /// Rounds until the next lookup, which has ended then. What is asked after it.
    fn after_lookup(seeds: &mut Seeds, is_alive: fn(SocketAddr) -> bool) -> Vec<SocketAddr> {
        for _ in 0..LOOKED_UP_EVERY {
            seeds.round(is_alive);
            seeds.lookup.take().map(JoinHandle::join).transpose().expect("it ends");
        }
        seeds.round(is_alive)
    }

    #[test]
    fn names_are_looked_up_again_and_again_until_a_donor_is_there() {
        static LOOKUPS: AtomicU16 = AtomicU16::new(0);
        let resolver: Resolver = |name| match (name, LOOKUPS.fetch_add(1, Ordering::Relaxed)) {
            // Nobody knows the name at first, and it means another machine each time.
            (_, 0) => Vec::new(),
            (_, nth) => vec![SocketAddr::from(([127, 0, 0, 1], nth)), SocketAddr::from(([10, 0, 0, 1], nth))],
        };
        let mut seeds = Seeds::with(&["alpha:7447".into()], false, resolver);
        let port = |found: Vec<SocketAddr>| found.iter().map(SocketAddr::port).collect::<Vec<_>>();
        assert_eq!(port(after_lookup(&mut seeds, |_| false)), [0; 0]);
        let first = port(after_lookup(&mut seeds, |_| false));
        assert_eq!(first.len(), 1, "what is not of this machine is left out");
        assert!(port(after_lookup(&mut seeds, |_| false)) > first);
        // Where a donor is alive nothing is looked up.
        assert_eq!(port(after_lookup(&mut seeds, |_| true)), [0; 0]);
        let before = LOOKUPS.load(Ordering::Relaxed);
        after_lookup(&mut seeds, |_| true);
        assert_eq!(LOOKUPS.load(Ordering::Relaxed), before);
    }

    #[test]
    fn the_system_looks_names_up() {
        let mut seeds = Seeds::new(&["no.such.host.invalid:1".into(), "localhost:2".into()], false);
        let found = after_lookup(&mut seeds, |_| false);
        assert!(!found.is_empty() && found.iter().all(|address| address.ip().is_loopback()), "{found:?}");
    }
}
