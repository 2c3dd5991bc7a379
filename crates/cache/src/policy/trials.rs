//! S3-FIFO for pages of whose uses only faults tell (Yang et al., SOSP 2023, with trials in place of counted uses).
//!
//! New pages come to the recent queue, which is short; those that are used again there, or that come back soon after they
//! left, belong to the proven queue. Each queue ends with pages on trial: they are taken from their addresses, so
//! that their next use is a fault. Whoever is back at its address when its turn comes stays, as proven; the others leave.
//! Now and then it is the turn of a proven page although the recent queue is too long: else what was proven once would stay
//! for good beside a program that comes back to nothing soon enough to be remembered.
//!
//! It serves whole pages. Their mark is not a policy's: it says that the slot has
//! memory ([`ObjectCache::has_memory`](crate::ObjectCache::has_memory)).

use std::ops::ControlFlow::{Break, Continue};

use aquifer_sys::spin::SpinLock;

use super::list::{List, NIL, in_turns};
use super::s3fifo::Ghosts;
use super::{Offer, Policy, Position, Slots};

/// The recent queue has one slot in this many. `docs/adr/0040` has the figures by which this and the two parts below were chosen.
const RECENT_PART: usize = 16;
/// Part of the recent queue that is on trial.
const RECENT_TRIAL_PART: usize = 2;
/// Part of the proven queue that is on trial.
const PROVEN_TRIAL_PART: usize = 5;
/// One in so many turns is that of a proven page, whatever the lengths of the queues.
const PROVEN_TURN_PERIOD: u32 = 16;
/// Pages are put on trial as soon as so many are due, or half of those that should be: a call for a few costs as much.
const DUE_MIN: usize = 64;

/// Two queues, of which the old ends are on trial, and a memory of what left the first.
pub struct Trials {
    queues: SpinLock<Queues>,
}

struct Queues {
    recent: Queue,
    proven: Queue,
    ghosts: Ghosts,
    /// Pages whose turn it was.
    turns: u32,
}

struct Queue {
    waiting: List,
    tried: List,
}

impl Queue {
    const fn new(numbers: [u32; 2]) -> Self {
        Self { waiting: List::new(numbers[0]), tried: List::new(numbers[1]) }
    }

    fn len(&self) -> usize {
        self.waiting.len() + self.tried.len()
    }

    fn unlink(&mut self, slots: &dyn Slots, at: Position) -> bool {
        self.waiting.unlink(slots, at) || self.tried.unlink(slots, at)
    }

    /// How many more should be on trial if `wanted` of them are to be, and if they are worth a call.
    fn due(&self, wanted: usize) -> usize {
        let wanted = wanted.min(self.len());
        let due = wanted.saturating_sub(self.tried.len());
        if due >= DUE_MIN || due * 2 >= wanted { due.min(self.waiting.len()) } else { 0 }
    }

    /// Puts the oldest waiting slot on trial.
    fn try_oldest(&mut self, slots: &dyn Slots) -> Option<Position> {
        let oldest = self.waiting.oldest();
        let at = (oldest != NIL).then_some(Position(oldest))?;
        self.waiting.unlink(slots, at);
        self.tried.push(slots, at);
        Some(at)
    }
}

impl Queues {
    fn len(&self) -> usize {
        self.recent.len() + self.proven.len()
    }

    fn recent_max(&self) -> usize {
        self.len() / RECENT_PART
    }

    /// Whether the next victim should come from the recent queue.
    fn is_recent_due(&self) -> bool {
        let is_proven_turn = self.turns % PROVEN_TURN_PERIOD == PROVEN_TURN_PERIOD - 1;
        (self.recent.len() > self.recent_max() && !is_proven_turn) || self.proven.len() == 0
    }

    /// How many of the recent and of the proven queue.
    fn due(&self) -> [usize; 2] {
        let recent = self.recent.due((self.recent_max() / RECENT_TRIAL_PART).max(1));
        [recent, self.proven.due(self.proven.len() / PROVEN_TRIAL_PART)]
    }

    fn unlink(&mut self, slots: &dyn Slots, at: Position) {
        let _ = self.recent.unlink(slots, at) || self.proven.unlink(slots, at);
    }

    /// Puts the slot on trial whose turn it is, due or not.
    fn try_next(&mut self, slots: &dyn Slots, due: &mut [usize; 2]) -> Option<Position> {
        let is_recent = match due.iter().position(|&count| count > 0) {
            Some(first) => first == 0,
            None => self.is_recent_due(),
        };
        let (first, second) = if is_recent {
            (&mut self.recent, &mut self.proven)
        } else {
            (&mut self.proven, &mut self.recent)
        };
        let kind = &mut due[usize::from(!is_recent)];
        *kind = kind.saturating_sub(1);
        first.try_oldest(slots).or_else(|| second.try_oldest(slots))
    }

    /// Offers the next slot on trial, of the queue that is due or of the other one.
    fn offer_next(&mut self, slots: &dyn Slots, tries: &mut Tries<'_>) -> Outcome {
        let wants_recent = self.is_recent_due() != tries.takes_turns;
        let is_recent = match [self.recent.tried.len(), self.proven.tried.len()] {
            [0, 0] => return Outcome::NoneLeft,
            [0, _] => false,
            [_, 0] => true,
            _ => wants_recent,
        };
        let queue = if is_recent { &mut self.recent } else { &mut self.proven };
        let Some(at) = queue.tried.candidate() else { return Outcome::NoneLeft };
        // Read before the offer: a taken slot has no page any more.
        let hash = slots.key_hash(at);
        let answer = tries.offer(slots, at);
        if answer != Offer::Refused {
            self.turns = self.turns.wrapping_add(1);
        }
        match answer {
            Offer::Taken => {
                queue.tried.unlink(slots, at);
                if is_recent {
                    self.ghosts.insert(hash);
                }
                Outcome::Taken(at)
            }
            Offer::InUse => {
                queue.tried.unlink(slots, at);
                self.proven.waiting.push(slots, at);
                Outcome::Kept
            }
            Offer::Refused => {
                queue.tried.pass(slots, at);
                Outcome::Kept
            }
        }
    }
}

/// What one offer led to.
enum Outcome {
    Taken(Position),
    Kept,
    NoneLeft,
}

/// The refusals that one call of `evict` still takes.
struct Tries<'a> {
    left: usize,
    /// The last refusal turns to the other queue.
    takes_turns: bool,
    offer: &'a mut dyn FnMut(Position) -> Offer,
}

impl Tries<'_> {
    /// A slot that somebody is just emptying is refused, and costs no try.
    fn offer(&mut self, slots: &dyn Slots, at: Position) -> Offer {
        if !slots.is_occupied(at) {
            return Offer::Refused;
        }
        let answer = (self.offer)(at);
        self.left -= 1;
        self.takes_turns ^= answer == Offer::Refused;
        answer
    }
}

impl Trials {
    /// An empty policy that remembers `ghost_capacity` pages that left. Allocates [`Trials::ghost_bytes`].
    pub fn new(ghost_capacity: usize) -> Self {
        let (recent, proven) = (Queue::new([1, 2]), Queue::new([3, 4]));
        Self {
            queues: SpinLock::new(Queues { recent, proven, ghosts: Ghosts::new(ghost_capacity), turns: 0 }),
        }
    }

    /// RAM that a policy with this ghost capacity allocates, in bytes.
    pub const fn ghost_bytes(ghost_capacity: usize) -> usize {
        Ghosts::bytes(ghost_capacity)
    }

    /// How many slots should be put on trial, so that pages have time to be used again; none while too few to be worth it.
    pub fn due(&self) -> usize {
        self.queues.lock().due().iter().sum()
    }

    /// Puts `count` slots on trial, whether they are due or not, and calls `visit` for the occupied ones.
    pub fn put_on_trial(&self, slots: &dyn Slots, count: usize, visit: &mut dyn FnMut(Position)) {
        let mut due = self.queues.lock().due();
        in_turns(&self.queues, count, |queues| {
            let Some(at) = queues.try_next(slots, &mut due) else { return Break(()) };
            if slots.is_occupied(at) {
                visit(at);
            }
            Continue(())
        });
    }
}

impl Policy for Trials {
    fn name(&self) -> &'static str {
        "s3-fifo with trials"
    }

    fn needs_links(&self) -> bool {
        true
    }

    fn insert(&self, slots: &dyn Slots, at: Position) {
        let hash = slots.key_hash(at);
        let mut queues = self.queues.lock();
        queues.unlink(slots, at);
        let queue = if queues.ghosts.take(hash) { &mut queues.proven } else { &mut queues.recent };
        queue.waiting.push(slots, at);
    }

    fn touch(&self, _slots: &dyn Slots, _at: Position) {}

    fn remove(&self, slots: &dyn Slots, at: Position) {
        self.queues.lock().unlink(slots, at);
    }

    /// A slot that is refused keeps its place; calls go on behind it, and with the other queue. One in use becomes the newest of the
    /// proven queue.
    fn evict(
        &self,
        slots: &dyn Slots,
        tries: usize,
        offer: &mut dyn FnMut(Position) -> Offer,
    ) -> Option<Position> {
        let mut tries = Tries { left: tries, takes_turns: false, offer };
        // Slots that are just being emptied cost no try. A second round, as the first may begin in the middle.
        let steps = 2 * (self.queues.lock().len() + 1);
        in_turns(&self.queues, steps, |queues| {
            if tries.left == 0 {
                return Break(None);
            }
            match queues.offer_next(slots, &mut tries) {
                Outcome::Taken(at) => Break(Some(at)),
                Outcome::Kept => Continue(()),
                Outcome::NoneLeft => Break(None),
            }
        })
        .flatten()
    }

    /// Half of them from each queue, as long as there are.
    fn upcoming(&self, slots: &dyn Slots, count: usize, visit: &mut dyn FnMut(Position)) {
        let (recent, proven) = {
            let queues = self.queues.lock();
            (queues.recent.tried.len(), queues.proven.tried.len())
        };
        let of_recent = recent.min((count / 2).max(count.saturating_sub(proven)));
        let of_proven = proven.min(count - of_recent);
        for (is_recent, count) in [(true, of_recent), (false, of_proven)] {
            let mut next = None;
            in_turns(&self.queues, count, |queues| {
                let tried = if is_recent { &queues.recent.tried } else { &queues.proven.tried };
                let at = next.unwrap_or(tried.oldest());
                if at == NIL {
                    return Break(());
                }
                // It may have left the list since the last turn.
                let Some(newer) = tried.newer(slots, Position(at)) else { return Break(()) };
                next = Some(newer);
                if slots.is_occupied(Position(at)) {
                    visit(Position(at));
                }
                Continue(())
            });
        }
    }
}

#[cfg(test)]
mod tests;
