//! The doubly linked list that LRU, SIEVE and S3-FIFO keep in the links lent by the slabs.
//!
//! Invariants, all under the lock of the policy that owns the list:
//! 1. A slot is in at most one list, and its first link carries the number of that list. The number is in
//!    the links and not in the mark because marks are written without the lock and may lose an update.
//! 2. Links of a slot in no list read as "no list" whether the memory is fresh (zeros) or used (all ones),
//!    so a late `touch` or `remove` of a slot that is gone changes nothing.
//! 3. The hand is either [`NIL`] or a slot of the list: the thread that unlinks that slot moves the hand on.

use std::ops::ControlFlow;

use aquifer_sys::spin::SpinLock;

use super::{Position, Slots};

/// No slot.
pub(super) const NIL: u32 = u32::MAX;

/// A first link is the list's number above this many bits of position.
const POSITION_BITS: u32 = 28;
const POSITION_MASK: u32 = (1 << POSITION_BITS) - 1;

/// Steps that a walk makes before it lets other threads have the lock.
const STEPS_PER_TURN: usize = 64;

/// Slots from newest to oldest, with a hand that walks from the oldest to the newest and around again.
pub(super) struct List {
    number: u32,
    newest: u32,
    oldest: u32,
    hand: u32,
    len: usize,
}

impl List {
    /// An empty list. Lists over the same slots have different numbers, 1 to 14.
    pub(super) const fn new(number: u32) -> Self {
        assert!(number > 0 && number < 15, "0 and 15 mark slots in no list");
        Self { number, newest: NIL, oldest: NIL, hand: NIL, len: 0 }
    }

    /// Number of slots in the list.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The oldest slot, or [`NIL`].
    pub(super) fn oldest(&self) -> u32 {
        self.oldest
    }

    /// Whether `at` is the newest slot.
    pub(super) fn is_newest(&self, at: Position) -> bool {
        self.newest == at.0
    }

    /// Whether `at` is in this list.
    pub(super) fn holds(&self, slots: &dyn Slots, at: Position) -> bool {
        slots.links(at).0 >> POSITION_BITS == self.number
    }

    /// The slot inserted after `at`, [`NIL`] for the newest one; nothing if `at` is not in this list.
    pub(super) fn newer(&self, slots: &dyn Slots, at: Position) -> Option<u32> {
        let (first, _) = slots.links(at);
        (first >> POSITION_BITS == self.number).then(|| position_of(first))
    }

    /// Adds `at`, which is in no list, as the newest slot.
    pub(super) fn push(&mut self, slots: &dyn Slots, at: Position) {
        debug_assert!(at.0 < POSITION_MASK && !self.holds(slots, at));
        slots.set_links(at, (self.first_link(NIL), self.newest));
        match self.newest {
            NIL => self.oldest = at.0,
            newest => self.set_newer(slots, newest, at.0),
        }
        self.newest = at.0;
        self.len += 1;
    }

    /// Takes `at` out; false, and nothing changed, if it is not in this list.
    pub(super) fn unlink(&mut self, slots: &dyn Slots, at: Position) -> bool {
        let (first, older) = slots.links(at);
        if first >> POSITION_BITS != self.number {
            return false;
        }
        let newer = position_of(first);
        match newer {
            NIL => self.newest = older,
            newer => slots.set_links(Position(newer), (slots.links(Position(newer)).0, older)),
        }
        match older {
            NIL => self.oldest = newer,
            older => self.set_newer(slots, older, newer),
        }
        if self.hand == at.0 {
            self.hand = newer;
        }
        slots.set_links(at, (NIL, NIL));
        self.len -= 1;
        true
    }

    /// The slot under the hand: the oldest one when the hand has not started or has come around.
    pub(super) fn candidate(&self) -> Option<Position> {
        let at = if self.hand == NIL { self.oldest } else { self.hand };
        (at != NIL).then_some(Position(at))
    }

    /// Moves the hand from the candidate to the next newer slot; true if it came around.
    pub(super) fn pass(&mut self, slots: &dyn Slots, candidate: Position) -> bool {
        self.hand = self.newer(slots, candidate).unwrap_or(NIL);
        self.hand == NIL
    }

    /// Puts the hand back on the oldest slot.
    pub(super) fn rewind(&mut self) {
        self.hand = NIL;
    }

    fn first_link(&self, newer: u32) -> u32 {
        self.number << POSITION_BITS | newer & POSITION_MASK
    }

    fn set_newer(&self, slots: &dyn Slots, at: u32, newer: u32) {
        let (_, older) = slots.links(Position(at));
        slots.set_links(Position(at), (self.first_link(newer), older));
    }
}

fn position_of(first_link: u32) -> u32 {
    match first_link & POSITION_MASK {
        POSITION_MASK => NIL,
        at => at,
    }
}

/// Repeats `step` under `lock` until it breaks or `steps` are done. The lock is given up in between, so
/// that nobody spins for the whole of a long walk; `step` finds its place again in the state it is given.
pub(super) fn in_turns<T, R>(
    lock: &SpinLock<T>,
    steps: usize,
    mut step: impl FnMut(&mut T) -> ControlFlow<R>,
) -> Option<R> {
    let mut left = steps;
    while left > 0 {
        let mut state = lock.lock();
        let turn = left.min(STEPS_PER_TURN);
        for _ in 0..turn {
            if let ControlFlow::Break(result) = step(&mut state) {
                return Some(result);
            }
        }
        left -= turn;
    }
    None
}
