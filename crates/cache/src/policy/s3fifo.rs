//! S3-FIFO: a small, a main and a ghost FIFO queue (Yang et al., SOSP 2023, algorithm 1).
//!
//! New objects pass through the small queue; those used more than once there move on to the main queue,
//! the others leave and are remembered as ghosts. A ghost that comes back goes straight to the main queue.
//! In the main queue a used object is put back to the front with one use less.

mod ghost;

use std::ops::ControlFlow::{Break, Continue};

use aquifer_sys::spin::SpinLock;

use super::list::{List, NIL, in_turns};
use super::{Offer, Offers, Policy, Position, Slots};
use ghost::Ghosts;

/// The share of the slots that the small queue may keep.
const SMALL_PERCENT: usize = 10;
/// Uses are counted up to this number (two bits).
const USES_MAX: u8 = 3;
/// More uses than this in the small queue earn a place in the main queue.
const USES_SPARED: u8 = 1;

/// Three FIFO queues that throw out objects used only once early; a hit is lock-free.
pub struct S3Fifo {
    queues: SpinLock<Queues>,
}

struct Queues {
    small: Queue,
    main: Queue,
    ghosts: Ghosts,
}

struct Queue {
    list: List,
    /// The hand came around since the last success: everything in it was refused.
    refused: bool,
}

/// What one step of eviction did.
enum Step {
    Taken(Position),
    /// Refused, promoted or put back.
    Passed,
    /// There was nothing left to offer.
    AllRefused,
}

impl S3Fifo {
    /// An empty policy that remembers `ghost_capacity` evicted objects; published is the size of the main
    /// queue, nine tenths of the slots. Allocates [`S3Fifo::ghost_bytes`].
    pub fn new(ghost_capacity: usize) -> Self {
        let queue = |number| Queue { list: List::new(number), refused: false };
        let ghosts = Ghosts::new(ghost_capacity);
        Self { queues: SpinLock::new(Queues { small: queue(1), main: queue(2), ghosts }) }
    }

    /// RAM that a policy with this ghost capacity allocates, in bytes.
    pub const fn ghost_bytes(ghost_capacity: usize) -> usize {
        Ghosts::bytes(ghost_capacity)
    }
}

impl Queue {
    fn is_open(&self) -> bool {
        self.list.len() > 0 && !self.refused
    }

    fn reopen(&mut self) {
        self.list.rewind();
        self.refused = false;
    }
}

impl Queues {
    fn len(&self) -> usize {
        self.small.list.len() + self.main.list.len()
    }

    /// Whether the small queue has its share, so that the next victim comes from it.
    fn small_is_due(small: usize, all: usize) -> bool {
        small * 100 >= all * SMALL_PERCENT
    }

    fn unlink(&mut self, slots: &dyn Slots, at: Position) {
        let _ = self.small.list.unlink(slots, at) || self.main.list.unlink(slots, at);
    }

    fn reopen(&mut self) {
        self.small.reopen();
        self.main.reopen();
    }

    /// Promotes, puts back or offers one slot.
    fn step(&mut self, slots: &dyn Slots, offers: &mut Offers<'_>) -> Step {
        let small_due = Self::small_is_due(self.small.list.len(), self.len());
        if self.small.is_open() && (small_due || !self.main.is_open()) {
            self.step_small(slots, offers)
        } else if self.main.is_open() {
            self.step_main(slots, offers)
        } else {
            Step::AllRefused
        }
    }

    fn step_small(&mut self, slots: &dyn Slots, offers: &mut Offers<'_>) -> Step {
        let Some(at) = self.small.list.candidate() else { return Step::Passed };
        self.small.refused = self.small.list.pass(slots, at);
        if slots.mark(at) > USES_SPARED {
            self.small.list.unlink(slots, at);
            slots.set_mark(at, 0);
            self.main.list.push(slots, at);
            return Step::Passed;
        }
        // Read before the offer: a taken slot has no object any more.
        let hash = slots.key_hash(at);
        if !offers.make(slots, at) {
            return Step::Passed;
        }
        self.small.list.unlink(slots, at);
        self.ghosts.insert(hash);
        self.reopen();
        Step::Taken(at)
    }

    fn step_main(&mut self, slots: &dyn Slots, offers: &mut Offers<'_>) -> Step {
        let Some(at) = self.main.list.candidate() else { return Step::Passed };
        let uses = slots.mark(at);
        if uses > 0 {
            slots.set_mark(at, uses - 1);
            // The newest slot stays under the hand. Unlinking it would send the hand around too early.
            if !self.main.list.is_newest(at) {
                self.main.list.unlink(slots, at);
                self.main.list.push(slots, at);
            }
            return Step::Passed;
        }
        self.main.refused = self.main.list.pass(slots, at);
        if !offers.make(slots, at) {
            return Step::Passed;
        }
        self.main.list.unlink(slots, at);
        self.reopen();
        Step::Taken(at)
    }
}

impl Policy for S3Fifo {
    fn name(&self) -> &'static str {
        "s3-fifo"
    }

    fn needs_links(&self) -> bool {
        true
    }

    fn insert(&self, slots: &dyn Slots, at: Position) {
        slots.set_mark(at, 0);
        let hash = slots.key_hash(at);
        let mut queues = self.queues.lock();
        queues.unlink(slots, at);
        let queue = if queues.ghosts.take(hash) { &mut queues.main } else { &mut queues.small };
        queue.list.push(slots, at);
    }

    fn touch(&self, slots: &dyn Slots, at: Position) {
        let uses = slots.mark(at);
        if uses < USES_MAX {
            slots.set_mark(at, uses + 1);
        }
    }

    fn remove(&self, slots: &dyn Slots, at: Position) {
        self.queues.lock().unlink(slots, at);
    }

    /// A refused victim keeps its place and its queue. Calls that take nothing go on behind the last
    /// refused one, and in the other queue when one has only refused.
    fn evict(
        &self,
        slots: &dyn Slots,
        tries: usize,
        offer: &mut dyn FnMut(Position) -> Offer,
    ) -> Option<Position> {
        let mut offers = Offers::new(tries, offer);
        // The first round may begin in the middle, where an earlier call stopped.
        let mut rounds_left = 2;
        // A round sees a slot once in the small queue and once per use and once more in the main queue.
        let steps = 2 * (2 + usize::from(USES_MAX)) * (self.queues.lock().len() + 1);
        in_turns(&self.queues, steps, |queues| {
            if offers.exhausted() {
                return Break(None);
            }
            match queues.step(slots, &mut offers) {
                Step::Taken(at) => return Break(Some(at)),
                Step::Passed => {}
                Step::AllRefused => {
                    queues.reopen();
                    rounds_left -= 1;
                }
            }
            if rounds_left == 0 { Break(None) } else { Continue(()) }
        })
        .flatten()
    }

    /// Assumes that each victim makes room for one new object, as in a full cache: that keeps the small
    /// queue at its share. Slots on their way from the small to the main queue are left out.
    fn upcoming(&self, slots: &dyn Slots, count: usize, visit: &mut dyn FnMut(Position)) {
        let mut left = count;
        let (mut forecast, steps) = {
            let queues = self.queues.lock();
            (Forecast::new(&queues), (2 + usize::from(USES_MAX)) * (queues.len() + 1))
        };
        in_turns(&self.queues, steps, |queues| {
            if left == 0 || forecast.is_over() {
                return Break(());
            }
            if let Some(at) = forecast.step(queues, slots).filter(|at| slots.is_occupied(*at)) {
                visit(at);
                left -= 1;
            }
            Continue(())
        });
    }
}

/// Where eviction will be after some victims, without moving anything.
struct Forecast {
    small: u32,
    main: u32,
    small_len: usize,
    all: usize,
    /// Rounds made through the main queue: a slot with that many uses is offered in this one.
    round: u8,
}

impl Forecast {
    fn new(queues: &Queues) -> Self {
        Self {
            small: queues.small.list.oldest(),
            main: queues.main.list.oldest(),
            small_len: queues.small.list.len(),
            all: queues.len(),
            round: 0,
        }
    }

    fn is_over(&self) -> bool {
        self.small == NIL && self.main == NIL
    }

    /// Looks at one slot; returns it if it will be offered.
    fn step(&mut self, queues: &Queues, slots: &dyn Slots) -> Option<Position> {
        let small_due = Queues::small_is_due(self.small_len, self.all);
        if self.small != NIL && (small_due || self.main == NIL) {
            self.step_small(queues, slots)
        } else {
            self.step_main(queues, slots)
        }
    }

    fn step_small(&mut self, queues: &Queues, slots: &dyn Slots) -> Option<Position> {
        let at = Position(self.small);
        let newer = queues.small.list.newer(slots, at);
        self.small = newer.unwrap_or(NIL);
        newer?;
        if slots.mark(at) > USES_SPARED {
            self.small_len = self.small_len.saturating_sub(1);
            return None;
        }
        Some(at)
    }

    fn step_main(&mut self, queues: &Queues, slots: &dyn Slots) -> Option<Position> {
        let at = Position(self.main);
        let newer = queues.main.list.newer(slots, at);
        self.main = newer.unwrap_or(NIL);
        newer?;
        let offered = slots.mark(at) == self.round;
        if self.main == NIL && self.round < USES_MAX {
            self.round += 1;
            self.main = queues.main.list.oldest();
        }
        if offered {
            self.small_len += 1;
        }
        offered.then_some(at)
    }
}
