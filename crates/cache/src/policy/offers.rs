//! The offers that one call of `evict` may still make.

use super::{Offer, Position, Slots};

/// The caller's callback with the number of times it may still be asked.
pub(super) struct Offers<'a> {
    left: usize,
    offer: &'a mut dyn FnMut(Position) -> Offer,
}

impl<'a> Offers<'a> {
    /// At most `tries` questions to `offer`.
    pub(super) fn new(tries: usize, offer: &'a mut dyn FnMut(Position) -> Offer) -> Self {
        Self { left: tries, offer }
    }

    /// Whether the caller wants to hear of no further victim.
    pub(super) fn exhausted(&self) -> bool {
        self.left == 0
    }

    /// Offers `at` and tells whether it was taken. A slot that somebody is just emptying costs no try.
    pub(super) fn make(&mut self, slots: &dyn Slots, at: Position) -> bool {
        if self.left == 0 || !slots.is_occupied(at) {
            return false;
        }
        self.left -= 1;
        (self.offer)(at) == Offer::Taken
    }
}
