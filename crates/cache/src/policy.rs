//! Which object leaves the cache next. One published policy per file; `docs/explanation/policies.md` compares them.

mod clock;
mod list;
mod lru;
mod s3fifo;
mod sieve;
#[cfg(test)]
mod tests;
mod two_handed;

pub use clock::Clock;
pub use lru::Lru;
pub use s3fifo::S3Fifo;
pub use sieve::Sieve;
pub use two_handed::TwoHanded;

/// Position of a slot within its size class: dense from 0, with holes where a slab was given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position(pub u32);

/// What a policy may see and keep of the slots of one size class.
///
/// Bits and links are lent by the slabs so that a policy needs no memory of its own per object. A policy
/// may ask about any position below [`Slots::end`] at any time, also about holes and about slots that
/// another thread is just filling or emptying: every method answers then, though the answer may be stale.
pub trait Slots {
    /// One more than the largest position in use, at most 2^26; grows as the class gets slabs.
    fn end(&self) -> u32;
    /// Whether the slot holds an object that the policy was told about. False as soon as the object is on its
    /// way out, so that the policy does not offer the slot.
    fn is_occupied(&self, at: Position) -> bool;
    /// The policy's own small number for this slot, 0 to 7. Zero after `insert`.
    fn mark(&self, at: Position) -> u8;
    /// Replaces the mark. Concurrent calls may lose one of two updates; policies tolerate that.
    fn set_mark(&self, at: Position, mark: u8);
    /// Two links of the policy's own, zeros or all ones at first; only valid if it [`Policy::needs_links`].
    fn links(&self, at: Position) -> (u32, u32);
    /// Replaces both links. Called only under the policy's own lock.
    fn set_links(&self, at: Position, links: (u32, u32));
    /// A hash of the object in the slot, for ghost entries.
    fn key_hash(&self, at: Position) -> u32;
    /// Whether used objects may be kept longer at the expense of new ones.
    fn spares_used(&self) -> bool {
        true
    }
}

/// Answer to the offer of a victim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offer {
    /// The slot is empty now; the policy forgets it.
    Taken,
    /// In use, pinned or not yet written back; the policy keeps it and offers another.
    Refused,
}

/// An eviction policy for one size class.
///
/// # Context
/// Every method may run in a fault handler: no allocation, no blocking lock; spin locks only, held for
/// a bounded number of steps. The callers block signals, so that a handler never spins on a lock that
/// its own thread holds. All memory is allocated in the constructor.
///
/// # Concurrency
/// Any methods may run at once. Only `offer` decides that a slot is given out: a policy may offer a slot
/// that another thread is emptying or is just being offered, and `offer` refuses it. Callers report a slot
/// to `insert` before others can remove it, and to `remove` before it can be filled again. A `touch` that
/// comes too late, when its slot has been emptied or filled anew, does no harm.
pub trait Policy: Send + Sync {
    /// Published name, lower case.
    fn name(&self) -> &'static str;
    /// Whether the slabs must lend 8 bytes of links per slot.
    fn needs_links(&self) -> bool;
    /// The mark of a slot for which a further `touch` changes nothing, if there is one; its callers need not call it then.
    fn last_mark(&self) -> Option<u8> {
        None
    }
    /// The slot at `at` was filled.
    fn insert(&self, slots: &dyn Slots, at: Position);
    /// The object at `at` was used. Lock-free wherever the policy allows it.
    fn touch(&self, slots: &dyn Slots, at: Position);
    /// The slot at `at` was emptied for another reason than eviction.
    fn remove(&self, slots: &dyn Slots, at: Position);
    /// Offers victims in eviction order until one is taken or `tries` were refused; returns the one taken.
    ///
    /// A refused slot stays in the cache and keeps its place in the order. A taken one is forgotten before
    /// an `insert` of the same slot takes effect.
    ///
    /// Policies with a lock hold it while `offer` runs, for at most 64 offers at a time. So `offer` is bounded,
    /// never calls the policy, and never waits for a thread that may be inside the policy: it tries locks
    /// and refuses what it does not get.
    fn evict(
        &self,
        slots: &dyn Slots,
        tries: usize,
        offer: &mut dyn FnMut(Position) -> Offer,
    ) -> Option<Position>;
    /// Calls `visit` for up to `count` occupied slots that `evict` would offer next, soonest first, without
    /// changing anything. The writer uses it to write back dirty objects before their eviction. A hint: the
    /// order is exact as long as nobody else changes it, and what holds for `offer` holds for `visit`.
    fn upcoming(&self, slots: &dyn Slots, count: usize, visit: &mut dyn FnMut(Position));
}

/// The caller's callback with the number of times it may still be asked.
struct Offers<'a> {
    left: usize,
    offer: &'a mut dyn FnMut(Position) -> Offer,
}

impl<'a> Offers<'a> {
    /// At most `tries` questions to `offer`.
    fn new(tries: usize, offer: &'a mut dyn FnMut(Position) -> Offer) -> Self {
        Self { left: tries, offer }
    }

    /// Whether the caller wants to hear of no further victim.
    fn exhausted(&self) -> bool {
        self.left == 0
    }

    /// Offers `at` and tells whether it was taken. A slot that somebody is just emptying costs no try.
    fn make(&mut self, slots: &dyn Slots, at: Position) -> bool {
        if self.left == 0 || !slots.is_occupied(at) {
            return false;
        }
        self.left -= 1;
        (self.offer)(at) == Offer::Taken
    }
}
