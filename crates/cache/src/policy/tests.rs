//! What every policy promises, and the exact order of each.

mod hammer;
mod model;
mod order;
mod slots;

use super::{Clock, Lru, Offer, Policy, Position, S3Fifo, Sieve};
use slots::FakeSlots;

/// One of each; `slots` sizes the ghost queue.
fn every_policy(slots: usize) -> Vec<Box<dyn Policy>> {
    vec![
        Box::new(Clock::with_limit(1)),
        Box::new(Clock::with_limit(3)),
        Box::new(Clock::new()),
        Box::new(Lru::new()),
        Box::new(Sieve::new()),
        Box::new(S3Fifo::new(slots)),
    ]
}

/// A policy with its slots, driven by one thread.
struct Bench {
    policy: Box<dyn Policy>,
    slots: FakeSlots,
}

impl Bench {
    fn new(policy: impl Policy + 'static, slots: u32) -> Self {
        Self { policy: Box::new(policy), slots: FakeSlots::new(slots) }
    }

    /// Slots `0..count` filled in that order, each with its position as its key.
    fn filled(policy: Box<dyn Policy>, count: u32) -> Self {
        let bench = Self { policy, slots: FakeSlots::new(count) };
        (0..count).for_each(|at| bench.insert(at, at));
        bench
    }

    fn insert(&self, at: u32, key: u32) {
        self.slots.fill(at, key);
        self.policy.insert(&self.slots, Position(at));
    }

    fn touch(&self, at: u32) {
        self.policy.touch(&self.slots, Position(at));
    }

    fn remove(&self, at: u32) {
        self.slots.empty(at);
        self.policy.remove(&self.slots, Position(at));
    }

    /// Everything offered, and what was taken.
    fn evict(&self, tries: usize, refuses: impl Fn(u32) -> bool) -> (Vec<u32>, Option<u32>) {
        let mut offered = Vec::new();
        let taken = self.policy.evict(&self.slots, tries, &mut |at| {
            offered.push(at.0);
            if refuses(at.0) {
                return Offer::Refused;
            }
            self.slots.empty(at.0);
            Offer::Taken
        });
        (offered, taken.map(|at| at.0))
    }

    fn evict_any(&self) -> Option<u32> {
        self.evict(1, |_| false).1
    }

    fn drain(&self) -> Vec<u32> {
        std::iter::from_fn(|| self.evict_any()).collect()
    }

    fn upcoming(&self, count: usize) -> Vec<u32> {
        let mut seen = Vec::new();
        self.policy.upcoming(&self.slots, count, &mut |at| seen.push(at.0));
        seen
    }
}

fn sorted(mut list: Vec<u32>) -> Vec<u32> {
    list.sort_unstable();
    list
}

#[test]
fn an_empty_policy_has_no_victim() {
    for policy in every_policy(8) {
        let bench = Bench { policy, slots: FakeSlots::new(8) };
        assert_eq!(bench.evict(usize::MAX, |_| false), (vec![], None), "{}", bench.policy.name());
        assert_eq!(bench.upcoming(8), []);
        let none = Bench { policy: bench.policy, slots: FakeSlots::new(0) };
        assert_eq!(none.evict_any(), None);
        assert_eq!(none.upcoming(8), []);
    }
}

#[test]
fn draining_gives_every_slot_once() {
    for policy in every_policy(100) {
        let bench = Bench::filled(policy, 100);
        (0..100).step_by(3).for_each(|at| (0..=at % 5).for_each(|_| bench.touch(at)));
        assert_eq!(sorted(bench.drain()), (0..100).collect::<Vec<_>>(), "{}", bench.policy.name());
    }
}

#[test]
fn the_mark_is_zero_after_insert() {
    for policy in every_policy(4) {
        let bench = Bench::filled(policy, 4);
        (0..4).for_each(|at| bench.touch(at));
        bench.remove(2);
        bench.insert(2, 9);
        assert_eq!(bench.slots.mark_of(2), 0, "{}", bench.policy.name());
    }
}

#[test]
fn late_touches_and_removes_change_nothing() {
    for policy in every_policy(8) {
        let bench = Bench::filled(policy, 8);
        bench.remove(3);
        bench.remove(3);
        bench.touch(3);
        assert_eq!(sorted(bench.drain()), [0, 1, 2, 4, 5, 6, 7], "{}", bench.policy.name());
        bench.remove(5);
        bench.touch(5);
        assert_eq!(bench.drain(), []);
    }
}

#[test]
fn an_insert_without_remove_leaves_one_entry() {
    for policy in every_policy(4) {
        let bench = Bench::filled(policy, 4);
        bench.insert(1, 1);
        bench.insert(3, 3);
        assert_eq!(sorted(bench.drain()), [0, 1, 2, 3], "{}", bench.policy.name());
    }
}

#[test]
fn at_most_as_many_offers_as_tries() {
    for policy in every_policy(200) {
        let bench = Bench::filled(policy, 200);
        for tries in [0, 1, 5, 150] {
            let (offered, taken) = bench.evict(tries, |_| true);
            assert_eq!((offered.len(), taken), (tries, None), "{}", bench.policy.name());
        }
        assert_eq!(sorted(bench.drain()), (0..200).collect::<Vec<_>>());
    }
}

/// One slot that may leave is found among many that may not, by calls with few tries each.
#[test]
fn refusals_do_not_block_the_rest() {
    for policy in every_policy(200) {
        let bench = Bench::filled(policy, 200);
        (0..200).step_by(2).for_each(|at| (0..3).for_each(|_| bench.touch(at)));
        for wanted in [199, 100, 7] {
            let found = (0..2000).find_map(|_| bench.evict(4, |at| at != wanted).1);
            assert_eq!(found, Some(wanted), "{}", bench.policy.name());
        }
        assert_eq!(bench.drain().len(), 197);
    }
}

#[test]
fn when_all_are_refused_a_call_ends() {
    for policy in every_policy(10) {
        let bench = Bench::filled(policy, 10);
        let (offered, taken) = bench.evict(usize::MAX, |_| true);
        assert_eq!(taken, None);
        assert_eq!(
            sorted(offered.into_iter().collect::<std::collections::HashSet<_>>().into_iter().collect()),
            (0..10).collect::<Vec<_>>(),
            "{} offered all",
            bench.policy.name()
        );
    }
}

#[test]
fn holes_are_neither_offered_nor_upcoming() {
    for policy in every_policy(10) {
        let bench = Bench::filled(policy, 10);
        // Emptied, but the policy has not heard of it yet.
        bench.slots.empty(4);
        let (offered, _) = bench.evict(usize::MAX, |_| true);
        assert!(!offered.contains(&4), "{}", bench.policy.name());
        assert!(!bench.upcoming(10).contains(&4));
    }
}

#[test]
fn upcoming_shows_each_slot_once_and_changes_nothing() {
    for policy in every_policy(50) {
        let bench = Bench::filled(policy, 50);
        (0..50).step_by(4).for_each(|at| bench.touch(at));
        let name = bench.policy.name();
        let first = bench.upcoming(50);
        assert_eq!(sorted(first.clone()), (0..50).collect::<Vec<_>>(), "{name}");
        assert_eq!(bench.upcoming(50), first, "{name}");
        assert_eq!(bench.upcoming(3), first[..3], "{name}");
        assert_eq!(bench.evict_any(), Some(first[0]), "{name}");
    }
}
