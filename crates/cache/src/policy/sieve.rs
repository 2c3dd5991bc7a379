//! SIEVE: a FIFO list with a hand that spares visited slots where they stand (Zhang et al., NSDI 2024).

use std::ops::ControlFlow::{Break, Continue};

use aquifer_sys::spin::SpinLock;

use super::list::{List, NIL, in_turns};
use super::{Offer, Offers, Policy, Position, Slots};

const VISITED: u8 = 1;

/// Slots in insertion order with one visited bit each; a hit is lock-free.
///
/// Unlike CLOCK's, a spared slot does not count as new: what comes in goes to the front, away from the
/// hand, so the hand meets new slots soon and sifts them.
pub struct Sieve {
    list: SpinLock<List>,
}

impl Sieve {
    /// An empty policy.
    pub const fn new() -> Self {
        Self { list: SpinLock::new(List::new(1)) }
    }
}

impl Default for Sieve {
    fn default() -> Self {
        Self::new()
    }
}

impl Policy for Sieve {
    fn name(&self) -> &'static str {
        "sieve"
    }

    fn needs_links(&self) -> bool {
        true
    }

    fn insert(&self, slots: &dyn Slots, at: Position) {
        slots.set_mark(at, 0);
        let mut list = self.list.lock();
        list.unlink(slots, at);
        list.push(slots, at);
    }

    fn touch(&self, slots: &dyn Slots, at: Position) {
        // Reading first keeps the cache line of a hot slot shared between the cores.
        if slots.mark(at) != VISITED {
            slots.set_mark(at, VISITED);
        }
    }

    fn remove(&self, slots: &dyn Slots, at: Position) {
        self.list.lock().unlink(slots, at);
    }

    /// The hand passes a refused victim, which is offered again in the next round.
    fn evict(
        &self,
        slots: &dyn Slots,
        tries: usize,
        offer: &mut dyn FnMut(Position) -> Offer,
    ) -> Option<Position> {
        let mut offers = Offers::new(tries, offer);
        // One round to clear the visited bits, one to offer what was cleared.
        let steps = 2 * self.list.lock().len();
        in_turns(&self.list, steps, |list| {
            let Some(at) = list.candidate() else { return Break(None) };
            if offers.exhausted() {
                return Break(None);
            }
            list.pass(slots, at);
            if slots.mark(at) != 0 {
                slots.set_mark(at, 0);
                return Continue(());
            }
            if !offers.make(slots, at) {
                return Continue(());
            }
            list.unlink(slots, at);
            Break(Some(at))
        })
        .flatten()
    }

    /// Ends early when the slot it stands on is removed meanwhile.
    fn upcoming(&self, slots: &dyn Slots, count: usize, visit: &mut dyn FnMut(Position)) {
        let mut left = count;
        let (start, len) = {
            let list = self.list.lock();
            (list.candidate(), list.len())
        };
        let Some(mut here) = start else { return };
        let mut seen = 0;
        in_turns(&self.list, 2 * len, |list| {
            if left == 0 {
                return Break(());
            }
            let Some(newer) = list.newer(slots, here) else { return Break(()) };
            // Slots that are visited now are offered in the second round.
            let visited_wanted = seen >= len;
            if slots.is_occupied(here) && (slots.mark(here) != 0) == visited_wanted {
                visit(here);
                left -= 1;
            }
            seen += 1;
            here = Position(if newer == NIL { list.oldest() } else { newer });
            Continue(())
        });
    }
}
