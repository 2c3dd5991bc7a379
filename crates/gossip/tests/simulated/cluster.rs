//! A cluster in virtual time: datagrams are lost and late by chance, and the chances are the same in each run.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use aquifer_gossip::node::{Node, NodeOptions};
use aquifer_gossip::{About, Dropped, Peer};
use aquifer_remote::control::Offer;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Pause between two rounds, as by default.
pub const INTERVAL: Duration = Duration::from_secs(1);
const GONE_FOR: Duration = Duration::from_secs(600);
const LATE_US_MAX: u64 = 2_000;
const BEGAN: u64 = 1_764_000_000_000;

/// Something that happens at `at`, after what was put off before it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: Duration,
    number: u64,
    node: usize,
    /// A message for the node; without one, something is due there.
    message: Option<Vec<u8>>,
}

struct Place {
    node: Option<Node>,
    seeds: Vec<usize>,
    /// When it is looked at next.
    wakes: Duration,
    next_round: Duration,
    began: u64,
}

/// Donors, by name. A name is also a donor's domain.
pub struct Cluster {
    pub now: Duration,
    /// Of a hundred datagrams, as many are lost.
    pub lost_percent: u32,
    /// Where the cluster is cut: donors on either side do not reach the other.
    pub cut: Option<usize>,
    places: Vec<Place>,
    names: BTreeMap<String, usize>,
    events: BinaryHeap<Reverse<Event>>,
    number: u64,
    random: SmallRng,
}

fn at(nth: usize) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from_bits(0x0A00_0001 + nth as u32), 7447))
}

pub fn name(nth: usize) -> String {
    format!("donor-{nth}")
}

impl Cluster {
    pub fn new(random: u64) -> Cluster {
        Cluster {
            now: Duration::ZERO,
            lost_percent: 0,
            cut: None,
            places: Vec::new(),
            names: BTreeMap::new(),
            events: BinaryHeap::new(),
            number: 0,
            random: SmallRng::seed_from_u64(random),
        }
    }

    /// `count` donors that begin within one interval; each knows the names of `seeds`.
    pub fn of(count: usize, seeds: &[&str], lost_percent: u32) -> Cluster {
        let mut cluster = Cluster { lost_percent, ..Cluster::new(count as u64) };
        for nth in 0..count {
            cluster.join(&name(nth), seeds);
            cluster.run(INTERVAL / count as u32);
        }
        cluster
    }

    /// Lets a donor begin, or begin again at its address.
    pub fn join(&mut self, name: &str, seeds: &[&str]) {
        self.join_late(name, seeds, 0);
    }

    /// The same, with a clock that is late.
    pub fn join_late(&mut self, name: &str, seeds: &[&str], late_ms: u64) {
        let nth = self.place(name);
        let seeds: Vec<_> = seeds.iter().map(|seed| self.place(seed)).filter(|seed| *seed != nth).collect();
        let began = BEGAN + self.now.as_millis() as u64 - late_ms;
        let options = NodeOptions {
            at: at(nth),
            began,
            about: About { address: at(nth), domain: name.into(), version: 2 },
            offer: Offer { free_slabs: 1, slabs: 1 << 20 },
            interval: INTERVAL,
            gone_for: GONE_FOR,
            random: self.random.random(),
        };
        let node = Some(Node::new(options, self.now));
        self.places[nth] = Place { node, seeds, wakes: Duration::MAX, next_round: self.now, began };
        self.wake(nth);
    }

    fn place(&mut self, name: &str) -> usize {
        let next = self.places.len();
        let nth = *self.names.entry(name.into()).or_insert(next);
        if nth == next {
            let wakes = Duration::MAX;
            self.places.push(Place { node: None, seeds: vec![], wakes, next_round: wakes, began: 0 });
        }
        nth
    }

    /// Lets all donors forget whom they were told to ask.
    pub fn forget_seeds(&mut self) {
        self.places.iter_mut().for_each(|place| place.seeds.clear());
    }

    /// Takes a donor away without a word.
    pub fn kill(&mut self, name: &str) {
        let nth = self.place(name);
        self.places[nth].node = None;
    }

    /// Lets a donor take leave.
    pub fn leave(&mut self, name: &str) {
        let nth = self.place(name);
        let now = self.now;
        self.node(nth).leave(now);
        self.send(nth);
        self.places[nth].node = None;
    }

    pub fn set_free(&mut self, name: &str, free_slabs: u64) {
        let nth = self.place(name);
        self.node(nth).set_offer(Offer { free_slabs, slabs: 1 << 20 });
    }

    fn node(&mut self, nth: usize) -> &mut Node {
        self.places[nth].node.as_mut().expect("a donor that is there")
    }

    /// What each donor that is there knows of `name`.
    pub fn known(&self, name: &str) -> Vec<Option<Peer>> {
        let known = |node: &Node| node.peers().into_iter().find(|peer| peer.member.domain == name);
        self.there().map(known).collect()
    }

    /// The message with which `from` asks `to` for donors.
    pub fn announcement(&mut self, from: &str, to: &str) -> Vec<u8> {
        let (nth, to, now) = (self.place(from), at(self.place(to)), self.now);
        self.node(nth).announce(now, to);
        let sends = self.node(nth).take_sends();
        sends.into_iter().find(|(other, _)| *other == to).expect("it asks").1
    }

    /// Lets a donor hear a message.
    pub fn hear(&mut self, name: &str, message: &[u8]) -> Result<(), Dropped> {
        let (nth, now) = (self.place(name), self.now);
        let heard = self.node(nth).receive(now, message);
        self.send(nth);
        self.wake(nth);
        heard
    }

    /// Donors that are there.
    fn there(&self) -> impl Iterator<Item = &Node> {
        self.places.iter().filter_map(|place| place.node.as_ref())
    }

    pub fn is_alive_for_all(&self, name: &str) -> bool {
        let at = at(self.names[name]);
        self.places
            .iter()
            .enumerate()
            .filter_map(|(nth, place)| Some((nth, place.node.as_ref()?)))
            .all(|(nth, node)| nth == self.names[name] || node.is_alive(at))
    }

    pub fn is_alive_for_any(&self, name: &str) -> bool {
        let at = at(self.names[name]);
        self.there().any(|node| node.is_alive(at))
    }

    /// Whether each donor that is there knows each other one as alive, and nobody else.
    pub fn is_whole(&self) -> bool {
        let there: Vec<_> = (0..self.places.len()).filter(|nth| self.places[*nth].node.is_some()).collect();
        self.places.iter().enumerate().all(|(nth, place)| {
            let Some(node) = &place.node else { return true };
            node.alive() == there.len()
                && there.iter().all(|other| *other == nth || node.is_alive(at(*other)))
        })
    }

    /// Donors that had to begin anew because others took them for gone.
    pub fn wrongly_gone(&self) -> usize {
        let renewed = |place: &&Place| place.node.as_ref().is_some_and(|node| node.began() != place.began);
        self.places.iter().filter(renewed).count()
    }

    /// Lets time pass.
    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.events.peek().is_some_and(|Reverse(event)| event.at <= end) {
            let Some(Reverse(event)) = self.events.pop() else { break };
            self.now = event.at;
            self.happen(event);
        }
        self.now = end;
    }

    /// Lets time pass until something is so. In how many intervals it was.
    pub fn until(&mut self, what: &str, rounds_max: u32, is_so: impl Fn(&Cluster) -> bool) -> u32 {
        for rounds in 0..=rounds_max {
            if is_so(self) {
                println!("{what}: after {rounds} intervals");
                return rounds;
            }
            self.run(INTERVAL);
        }
        panic!("not within {rounds_max} intervals: {what}");
    }

    fn happen(&mut self, event: Event) {
        let (now, place) = (self.now, &mut self.places[event.node]);
        let Some(node) = &mut place.node else { return };
        match event.message {
            Some(message) => node.receive(now, &message).expect("messages of donors are understood"),
            None if place.wakes != event.at => return,
            None => {
                place.wakes = Duration::MAX;
                node.advance(now);
                if now >= place.next_round {
                    place.next_round = now + INTERVAL;
                    for seed in place.seeds.iter().map(|seed| at(*seed)) {
                        if !node.is_alive(seed) {
                            node.announce(now, seed);
                        }
                    }
                }
            }
        }
        self.send(event.node);
        self.wake(event.node);
    }

    fn send(&mut self, from: usize) {
        for (to, message) in self.node(from).take_sends() {
            let SocketAddr::V4(to) = to else { panic!("{to} is of another cluster") };
            let to = (to.ip().to_bits() - 0x0A00_0001) as usize;
            let is_cut = self.cut.is_some_and(|cut| (from < cut) != (to < cut));
            if is_cut || self.random.random_range(0..100) < self.lost_percent {
                continue;
            }
            let at = self.now + Duration::from_micros(self.random.random_range(50..LATE_US_MAX));
            self.push(at, to, Some(message));
        }
    }

    fn wake(&mut self, nth: usize) {
        let place = &mut self.places[nth];
        let Some(node) = &place.node else { return };
        let due = node.due().unwrap_or(Duration::MAX).min(place.next_round).max(self.now);
        if due < place.wakes {
            place.wakes = due;
            self.push(due, nth, None);
        }
    }

    fn push(&mut self, at: Duration, node: usize, message: Option<Vec<u8>>) {
        self.number += 1;
        self.events.push(Reverse(Event { at, number: self.number, node, message }));
    }
}
