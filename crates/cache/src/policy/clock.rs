//! CLOCK: a hand sweeps the slots in the order of their positions (Corbató, MIT Project MAC, 1968).
//!
//! There is no list and no lock. A slot's mark counts its uses up to a limit; the hand lowers each mark
//! that it passes and offers the slots whose mark is zero. With limit 1 this is the classic reference
//! bit, with a larger one it is GCLOCK (Smith, TODS 1978).
//!
//! With patience the hand first passes `PATIENCE` used slots without lowering their marks. Then about one
//! slot in `PATIENCE` is unused at any time, the hand goes round faster, and an object without uses
//! leaves soon after it came. The small queue of S3-FIFO and the sifting of SIEVE achieve the same with
//! lists.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{Offer, Offers, Policy, Position, Slots};

/// Measured in `docs/explanation/policies.md`: against a bare reference bit, a limit of 3 gains about a point of hit
/// ratio on Zipf loads and loses when the working set jumps; 7 gains little more and loses much more.
const LIMIT: u8 = 3;
/// Measured in `docs/explanation/policies.md`: on Zipf loads two to five points above no patience, for what a jump of the working
/// set then costs. Larger values gain half a point more and lose much more.
const PATIENCE: u32 = 4;

/// Sweeping hand over the slots in position order; lock-free on hit, insert and eviction.
///
/// Each step of the hand belongs to one thread, so two threads look at the same slot only when the hand
/// has gone all the way round meanwhile.
#[derive(Debug)]
pub struct Clock {
    /// Position looked at next; 0 in its place if there are fewer slots by now.
    hand: AtomicU32,
    limit: u8,
    /// Used slots that are passed between two evictions before marks are lowered.
    patience: u32,
    /// How many of them were passed since the last eviction, also by calls that found no victim.
    passed: AtomicU32,
}

impl Clock {
    /// CLOCK with the limit and the patience that measured best.
    pub const fn new() -> Self {
        Self { patience: PATIENCE, ..Self::with_limit(LIMIT) }
    }

    /// CLOCK without patience whose marks count up to `limit`, 1 to 7.
    ///
    /// # Panics
    /// If `limit` is outside that range.
    pub const fn with_limit(limit: u8) -> Self {
        assert!(limit >= 1 && limit <= 7, "marks are 1 to 7");
        Self { hand: AtomicU32::new(0), limit, patience: 0, passed: AtomicU32::new(0) }
    }

    /// Claims one step of the hand: the position passed. `end` is not zero.
    fn step(&self, end: u32) -> Position {
        let next = |at: u32| if at < end - 1 { at + 1 } else { 0 };
        // Relaxed: the hand orders nothing but itself; the slots have their own synchronisation.
        let claimed = self.hand.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |at| Some(next(at)));
        let (Ok(at) | Err(at)) = claimed;
        Position(if at < end { at } else { 0 })
    }

    /// Steps after which every mark that nobody raises again has reached zero and been offered.
    fn steps(&self, end: u32) -> u64 {
        u64::from(end) * (u64::from(self.patience) + u64::from(self.limit) + 1)
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Policy for Clock {
    fn name(&self) -> &'static str {
        "clock"
    }

    fn needs_links(&self) -> bool {
        false
    }

    fn last_mark(&self) -> Option<u8> {
        Some(self.limit)
    }

    fn insert(&self, slots: &dyn Slots, at: Position) {
        slots.set_mark(at, 0);
    }

    fn touch(&self, slots: &dyn Slots, at: Position) {
        let mark = slots.mark(at);
        if mark < self.limit {
            slots.set_mark(at, mark + 1);
        }
    }

    fn remove(&self, _slots: &dyn Slots, _at: Position) {}

    fn evict(
        &self,
        slots: &dyn Slots,
        tries: usize,
        offer: &mut dyn FnMut(Position) -> Offer,
    ) -> Option<Position> {
        let mut offers = Offers::new(tries, offer);
        let end = slots.end();
        let patience = if slots.spares_used() { self.patience } else { 0 };
        for _ in 0..self.steps(end) {
            if offers.exhausted() {
                return None;
            }
            let at = self.step(end);
            if !slots.is_occupied(at) {
                continue;
            }
            match slots.mark(at) {
                0 if offers.make(slots, at) => {
                    self.passed.store(0, Ordering::Relaxed);
                    return Some(at);
                }
                0 => {}
                _ if self.passed.load(Ordering::Relaxed) < patience => {
                    self.passed.fetch_add(1, Ordering::Relaxed);
                }
                mark => slots.set_mark(at, mark - 1),
            }
        }
        None
    }

    fn upcoming(&self, slots: &dyn Slots, count: usize, visit: &mut dyn FnMut(Position)) {
        let end = slots.end();
        let hand = self.hand.load(Ordering::Relaxed).min(end);
        let mut left = count;
        let mut highest = 0;
        // A slot with mark n is offered in the n-th round from now, or a later one if the hand is patient.
        for round in 0..=self.limit {
            if round > highest {
                return;
            }
            for at in (hand..end).chain(0..hand).map(Position) {
                if left == 0 {
                    return;
                }
                let mark = slots.mark(at);
                highest = highest.max(mark);
                if mark == round && slots.is_occupied(at) {
                    visit(at);
                    left -= 1;
                }
            }
        }
    }
}
