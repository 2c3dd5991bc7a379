//! Threads that fill, use, empty and evict the same few slots.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::SeqCst};

use super::super::{Offer, Policy, Position, Slots};
use super::every_policy;

/// Few, so that the threads often meet on the same one.
const SLOTS: u32 = 6;
const THREADS: u64 = 4;
/// Short phases with a check after each: a later removal of a slot that was lost would hide the loss.
const PHASES: u32 = 1000;
const OPERATIONS: u32 = 50;

const EMPTY: u8 = 0;
/// Being filled or emptied by one thread.
const BUSY: u8 = 1;
const FULL: u8 = 2;

/// A slot whose owner is decided by its state alone, as in the real cache.
#[derive(Default)]
struct Slot {
    state: AtomicU8,
    mark: AtomicU8,
    links: [AtomicU32; 2],
    fills: AtomicU32,
    takes: AtomicU32,
    offered: AtomicBool,
}

struct Shared(Vec<Slot>);

impl Shared {
    fn new() -> Self {
        Self((0..SLOTS).map(|_| Slot::default()).collect())
    }

    fn at(&self, at: Position) -> &Slot {
        &self.0[at.0 as usize]
    }

    fn change(&self, at: Position, from: u8, to: u8) -> bool {
        self.at(at).state.compare_exchange(from, to, SeqCst, SeqCst).is_ok()
    }
}

impl Slots for Shared {
    fn end(&self) -> u32 {
        SLOTS
    }
    fn is_occupied(&self, at: Position) -> bool {
        self.at(at).state.load(SeqCst) == FULL
    }
    fn mark(&self, at: Position) -> u8 {
        self.at(at).mark.load(SeqCst)
    }
    fn set_mark(&self, at: Position, mark: u8) {
        self.at(at).mark.store(mark, SeqCst);
    }
    fn links(&self, at: Position) -> (u32, u32) {
        let [first, second] = &self.at(at).links;
        (first.load(SeqCst), second.load(SeqCst))
    }
    fn set_links(&self, at: Position, links: (u32, u32)) {
        let [first, second] = &self.at(at).links;
        first.store(links.0, SeqCst);
        second.store(links.1, SeqCst);
    }
    fn key_hash(&self, at: Position) -> u32 {
        at.0
    }
}

/// One thread's part: random operations, each as the cache would do it.
struct Worker<'a> {
    slots: &'a Shared,
    policy: &'a dyn Policy,
    random: u64,
}

impl Worker<'_> {
    fn next(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 20) % below
    }

    fn run(&mut self) {
        for _ in 0..OPERATIONS {
            let at = Position(self.next(u64::from(SLOTS)) as u32);
            match self.next(8) {
                0..=2 => self.fill(at),
                3..=4 => self.policy.touch(self.slots, at),
                5 => self.empty(at),
                6 => self.policy.upcoming(self.slots, 8, &mut |at| assert!(at.0 < SLOTS)),
                _ => self.evict(),
            }
        }
    }

    fn fill(&mut self, at: Position) {
        if self.slots.change(at, EMPTY, BUSY) {
            self.slots.at(at).fills.fetch_add(1, SeqCst);
            self.policy.insert(self.slots, at);
            assert!(self.slots.change(at, BUSY, FULL));
        }
    }

    fn empty(&mut self, at: Position) {
        if self.slots.change(at, FULL, BUSY) {
            self.slots.at(at).takes.fetch_add(1, SeqCst);
            self.policy.remove(self.slots, at);
            assert!(self.slots.change(at, BUSY, EMPTY));
        }
    }

    fn evict(&mut self) {
        let (slots, exclusive) = (self.slots, self.policy.needs_links());
        let refusals = self.next(3);
        let mut asked = 0;
        let mut emptied = None;
        let taken = self.policy.evict(slots, 4, &mut |at| {
            let twice = slots.at(at).offered.swap(true, SeqCst);
            assert!(!(twice && exclusive), "a policy with a lock offers a slot to one thread at a time");
            asked += 1;
            // Once empty, the slot may be filled again at once, long before the policy hears the answer.
            let answer = if asked > refusals && slots.change(at, FULL, EMPTY) {
                slots.at(at).takes.fetch_add(1, SeqCst);
                emptied = Some(at);
                Offer::Taken
            } else {
                Offer::Refused
            };
            if asked == 2 {
                std::thread::yield_now();
            }
            slots.at(at).offered.store(false, SeqCst);
            answer
        });
        assert!(asked <= 4);
        assert_eq!(taken, emptied, "exactly the slot that was given is returned");
    }
}

#[test]
fn no_slot_is_given_twice_or_lost() {
    for policy in every_policy(SLOTS as usize) {
        let (slots, policy) = (Shared::new(), policy.as_ref());
        let (phase, failed) = (Barrier::new(THREADS as usize), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for thread in 1..=THREADS {
                let worker = Worker { slots: &slots, policy, random: thread << 40 | 0x9E37_79B9 };
                let (phase, failed) = (&phase, &failed);
                scope.spawn(move || run_phases(worker, phase, failed));
            }
        });
        assert!(!failed.load(SeqCst), "{} failed, see above", policy.name());
    }
}

/// All threads work at once, then one of them checks. A panic ends the run of all: nobody is left waiting.
fn run_phases(mut worker: Worker<'_>, phase: &Barrier, failed: &AtomicBool) {
    let note = |result: std::thread::Result<()>| failed.fetch_or(result.is_err(), SeqCst);
    for _ in 0..PHASES {
        note(catch_unwind(AssertUnwindSafe(|| worker.run())));
        let leads = phase.wait().is_leader();
        if leads && !failed.load(SeqCst) {
            note(catch_unwind(AssertUnwindSafe(|| check_what_is_left(worker.slots, worker.policy))));
        }
        phase.wait();
        if failed.load(SeqCst) {
            return;
        }
    }
}

/// Every slot is full or empty as its counts say, and draining finds each full one exactly once.
fn check_what_is_left(slots: &Shared, policy: &dyn Policy) {
    let name = policy.name();
    let mut full = 0;
    for slot in &slots.0 {
        let held = slot.fills.load(SeqCst) - slot.takes.load(SeqCst);
        assert_eq!(u8::try_from(held * u32::from(FULL)), Ok(slot.state.load(SeqCst)), "{name}");
        full += held;
    }
    let mut drained = 0;
    while let Some(at) = policy.evict(slots, 1, &mut |at| {
        assert!(slots.change(at, FULL, EMPTY), "{name} offered an empty slot");
        slots.at(at).takes.fetch_add(1, SeqCst);
        Offer::Taken
    }) {
        assert!(at.0 < SLOTS);
        drained += 1;
    }
    assert_eq!(drained, full, "{name} lost or doubled a slot");
}
