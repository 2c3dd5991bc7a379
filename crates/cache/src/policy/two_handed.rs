//! Two-handed CLOCK: the front hand takes pages out of use, the back hand evicts those that were not used again
//! (4.3BSD; Leffler et al., "The Design and Implementation of the 4.3BSD UNIX Operating System", 1989, section 5.12).
//! Where pages are compressed, a middle hand does that before the back hand comes.
//!
//! It serves whole pages, of whose uses only faults tell. Their mark is not a policy's: it says that the slot has
//! memory ([`ObjectCache::has_memory`](crate::ObjectCache::has_memory)). A page whose slot has none is mapped, and the back
//! hand passes it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Offer, Offers, Policy, Position, Slots};
use crate::slabs::HAS_MEMORY;

/// Share of the slots between the hands: one in this many.
const SPREAD: u64 = 6;

/// Most slots between middle and back hand, as a share of all: one in this many. What does not shrink waits there for the back hand.
const LAG: u64 = 2;

/// The hands, as slots that they have passed so far.
#[derive(Debug)]
pub struct TwoHanded {
    front: AtomicU64,
    /// Behind the back hand if nothing is compressed.
    middle: AtomicU64,
    back: AtomicU64,
}

impl TwoHanded {
    /// Hands that stand together.
    pub const fn new() -> Self {
        Self { front: AtomicU64::new(0), middle: AtomicU64::new(0), back: AtomicU64::new(0) }
    }

    /// The hand that pages meet first when they were not used again.
    fn second(&self) -> u64 {
        self.middle.load(Ordering::Relaxed).max(self.back.load(Ordering::Relaxed))
    }

    fn ahead(&self) -> u64 {
        self.front.load(Ordering::Relaxed).saturating_sub(self.second())
    }

    /// How many slots the front hand should pass, so that pages have time to be used again.
    pub fn front_due(&self, slots: &dyn Slots) -> u64 {
        (u64::from(slots.end()) / SPREAD).saturating_sub(self.ahead())
    }

    /// Moves the front hand over `count` slots and calls `visit` for the occupied ones.
    pub fn advance_front(&self, slots: &dyn Slots, count: u64, visit: &mut dyn FnMut(Position)) {
        let end = u64::from(slots.end());
        if end == 0 {
            return;
        }
        let first = self.front.fetch_add(count, Ordering::Relaxed);
        for at in (first..first + count).map(|at| Position((at % end) as u32)) {
            if slots.is_occupied(at) {
                visit(at);
            }
        }
    }

    /// Moves the middle hand over `count` slots at most, not beyond the front hand, and calls `visit` for those that have memory. Returns how many it has
    /// passed. One thread at a time.
    pub fn advance_middle(&self, slots: &dyn Slots, count: u64, visit: &mut dyn FnMut(Position)) -> u64 {
        let (end, first) = (u64::from(slots.end()), self.second());
        let to = (first + count).min(self.front.load(Ordering::Relaxed).max(first));
        if end == 0 {
            return 0;
        }
        self.middle.store(to, Ordering::Relaxed);
        self.back.fetch_max(to.saturating_sub(end / LAG), Ordering::Relaxed);
        let passed = (first..to).map(|at| Position((at % end) as u32));
        passed.filter(|&at| slots.mark(at) & HAS_MEMORY != 0 && slots.is_occupied(at)).for_each(visit);
        to - first
    }

    /// Moves the back hand by one slot, unless it has reached the front hand.
    fn step_back(&self) -> Option<u64> {
        let front = self.front.load(Ordering::Relaxed);
        let step = |back: u64| (back < front).then_some(back + 1);
        self.back.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).ok()
    }
}

impl Default for TwoHanded {
    fn default() -> Self {
        Self::new()
    }
}

impl Policy for TwoHanded {
    fn name(&self) -> &'static str {
        "two-handed clock"
    }

    fn needs_links(&self) -> bool {
        false
    }

    fn insert(&self, _slots: &dyn Slots, _at: Position) {}

    fn touch(&self, _slots: &dyn Slots, _at: Position) {}

    fn remove(&self, _slots: &dyn Slots, _at: Position) {}

    fn evict(
        &self,
        slots: &dyn Slots,
        tries: usize,
        offer: &mut dyn FnMut(Position) -> Offer,
    ) -> Option<Position> {
        let mut offers = Offers::new(tries, offer);
        let end = u64::from(slots.end());
        while end > 0 && !offers.exhausted() {
            let at = Position((self.step_back()? % end) as u32);
            if slots.mark(at) & HAS_MEMORY != 0 && offers.make(slots, at) {
                return Some(at);
            }
        }
        None
    }

    fn upcoming(&self, slots: &dyn Slots, count: usize, visit: &mut dyn FnMut(Position)) {
        let end = u64::from(slots.end());
        if end == 0 {
            return;
        }
        let (back, front) = (self.back.load(Ordering::Relaxed), self.front.load(Ordering::Relaxed));
        let positions = back..(front.max(back) + count as u64).min(back + end);
        let positions = positions.map(|at| Position((at % end) as u32));
        let unmapped = positions.filter(|at| slots.mark(*at) & HAS_MEMORY != 0 && slots.is_occupied(*at));
        unmapped.take(count).for_each(visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Full(u32);

    impl Slots for Full {
        fn end(&self) -> u32 {
            self.0
        }
        fn is_occupied(&self, _at: Position) -> bool {
            true
        }
        fn mark(&self, _at: Position) -> u8 {
            HAS_MEMORY
        }
        fn set_mark(&self, _at: Position, _mark: u8) {}
        fn links(&self, _at: Position) -> (u32, u32) {
            (0, 0)
        }
        fn set_links(&self, _at: Position, _links: (u32, u32)) {}
        fn key_hash(&self, at: Position) -> u32 {
            at.0
        }
    }

    #[test]
    fn evicts_only_what_the_front_hand_has_passed_and_nobody_uses() {
        let (clock, slots) = (TwoHanded::new(), Full(60));
        let mut offer_none = |_| Offer::Taken;
        assert_eq!(clock.evict(&slots, 64, &mut offer_none), None, "the hands stand together");
        assert_eq!(clock.front_due(&slots), 10);
        let mut passed = Vec::new();
        clock.advance_front(&slots, 10, &mut |at| passed.push(at.0));
        assert_eq!((passed, clock.front_due(&slots)), ((0..10).collect(), 0));
        // Slots 0 to 2 are in use again: they stay for another round.
        let mut offer = |at: Position| if at.0 < 3 { Offer::Refused } else { Offer::Taken };
        assert_eq!(clock.evict(&slots, 64, &mut offer), Some(Position(3)));
        assert_eq!(clock.front_due(&slots), 4);
        assert_eq!(clock.evict(&slots, 64, &mut offer), Some(Position(4)));
        clock.advance_front(&slots, 55, &mut |_| {});
        let taken: Vec<_> = std::iter::from_fn(|| clock.evict(&slots, 64, &mut offer)).collect();
        assert_eq!(taken.len(), 57, "5 to 59, then 3 and 4 of the next round");
    }

    #[test]
    fn the_middle_hand_goes_before_the_back_hand_and_behind_the_front_hand() {
        let (clock, slots) = (TwoHanded::new(), Full(60));
        let mut passed = Vec::new();
        assert_eq!(clock.advance_middle(&slots, 5, &mut |at| passed.push(at.0)), 0, "all stand together");
        clock.advance_front(&slots, 10, &mut |_| {});
        assert_eq!(clock.advance_middle(&slots, 4, &mut |at| passed.push(at.0)), 4);
        assert_eq!(clock.front_due(&slots), 4, "the front hand keeps its distance");
        assert_eq!(clock.advance_middle(&slots, 60, &mut |at| passed.push(at.0)), 6);
        assert_eq!(passed, (0..10).collect::<Vec<_>>());
        // What was not taken there is the back hand's still.
        assert_eq!(clock.evict(&slots, 64, &mut |_| Offer::Taken), Some(Position(0)));
        clock.advance_front(&slots, 50, &mut |_| {});
        clock.advance_middle(&slots, 60, &mut |_| {});
        assert_eq!(
            clock.evict(&slots, 64, &mut |_| Offer::Taken),
            Some(Position(30)),
            "a half is its lag at most"
        );
    }

    #[test]
    fn the_back_hand_waits_for_the_front_hand() {
        let (clock, slots) = (TwoHanded::new(), Full(60));
        clock.advance_front(&slots, 5, &mut |_| {});
        assert_eq!(clock.evict(&slots, 3, &mut |_| Offer::Refused), None);
        assert_eq!(clock.evict(&slots, 64, &mut |_| Offer::Refused), None);
        let mut next = Vec::new();
        clock.upcoming(&slots, 2, &mut |at| next.push(at.0));
        assert_eq!(next, [5, 6]);
    }
}
