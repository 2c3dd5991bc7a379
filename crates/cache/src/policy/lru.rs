//! LRU: the slot whose last use is longest ago leaves first (Mattson et al., IBM Systems Journal 1970).

use std::ops::ControlFlow::{Break, Continue};

use aquifer_sys::signal::SignalsBlocked;
use aquifer_sys::spin::SpinLock;

use super::list::{List, NIL, in_turns};
use super::{Offer, Offers, Policy, Position, Slots};

/// Exact least-recently-used order. Every hit takes the lock to move its slot to the front.
pub struct Lru {
    list: SpinLock<List>,
}

impl Lru {
    /// An empty policy.
    pub const fn new() -> Self {
        Self { list: SpinLock::new(List::new(1)) }
    }
}

impl Default for Lru {
    fn default() -> Self {
        Self::new()
    }
}

impl Policy for Lru {
    fn name(&self) -> &'static str {
        "lru"
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
        // A page may be used where it is with signals open: other policies take no lock for that.
        let _signals = SignalsBlocked::new();
        let mut list = self.list.lock();
        if !list.is_newest(at) && list.unlink(slots, at) {
            list.push(slots, at);
        }
    }

    fn remove(&self, slots: &dyn Slots, at: Position) {
        self.list.lock().unlink(slots, at);
    }

    /// A refused victim keeps its place. The next call begins with the oldest slot again if this one took a
    /// victim, and behind the last refused one if not: a row of pinned slots longer than `tries` cannot
    /// stop eviction for good.
    fn evict(
        &self,
        slots: &dyn Slots,
        tries: usize,
        offer: &mut dyn FnMut(Position) -> Offer,
    ) -> Option<Position> {
        let mut offers = Offers::new(tries, offer);
        let steps = self.list.lock().len();
        in_turns(&self.list, steps, |list| {
            let Some(at) = list.candidate() else { return Break(None) };
            if offers.exhausted() {
                return Break(None);
            }
            list.pass(slots, at);
            if !offers.make(slots, at) {
                return Continue(());
            }
            list.unlink(slots, at);
            list.rewind();
            Break(Some(at))
        })
        .flatten()
    }

    /// Begins with the oldest slot even if the last call of `evict` failed: what it refused is what most
    /// needs to be written back. Ends early when the slot it stands on is removed or used.
    fn upcoming(&self, slots: &dyn Slots, count: usize, visit: &mut dyn FnMut(Position)) {
        let mut left = count;
        let (mut at, steps) = {
            let list = self.list.lock();
            (list.oldest(), list.len())
        };
        in_turns(&self.list, steps, |list| {
            if left == 0 || at == NIL {
                return Break(());
            }
            let here = Position(at);
            let Some(newer) = list.newer(slots, here) else { return Break(()) };
            if slots.is_occupied(here) {
                visit(here);
                left -= 1;
            }
            at = newer;
            Continue(())
        });
    }
}
