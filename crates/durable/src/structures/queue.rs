//! A queue: first in, first out.
//!
//! ```text
//! header, 8 KiB:  end where values are taken | ... up to 4 KiB | end where they are added | ...
//! node:           next node | slot: 1, value | slot | ...
//! ```
//!
//! The two ends count what went through them, so a number is also a place in a node, and their difference the length. Whether a slot
//! is filled stands in the slot: one who takes need not look at the end where others add.

use std::marker::PhantomData;

use super::{PAGE_BYTES, handle};
use crate::access::{Access, Load};
use crate::durable_struct;
use crate::error::Result;
use crate::reference::Ref;
use crate::typed::Typed;
use crate::value::{Value, whole_grains};

durable_struct! {
    /// One end.
    struct End {
        node: Ref<Node>,
        /// Values that went through it so far.
        count: u64,
    }
}

durable_struct! {
    /// What a node begins with.
    struct Node {
        next: Option<Ref<Node>>,
    }
}

durable_struct! {
    /// Its zeros are an empty one.
    struct Slot<T> {
        is_filled: u32,
        value: T,
    }
}

/// A first-in, first-out queue on a durable heap. This is a handle; see [`structures`](super).
///
/// Nodes have 4 KiB, or four values if these are large. A node is freed by the first [`pop`](Queue::pop) that needs the next one.
pub struct Queue<T> {
    header: Ref<End>,
    kind: PhantomData<fn() -> T>,
}

handle!(Queue<T> at header);

/// The values of a queue, the oldest first.
pub struct Values<'t, A: ?Sized, T> {
    tx: &'t mut A,
    end: Option<End>,
    kind: PhantomData<fn() -> T>,
}

impl<T: Value> Queue<T> {
    const SLOT_BYTES: usize = whole_grains(Slot::<T>::BYTES);
    const SLOTS: usize = {
        let slots = (PAGE_BYTES - Node::BYTES) / Self::SLOT_BYTES;
        if slots < 4 { 4 } else { slots }
    };

    /// The two ends, 4 KiB for each.
    pub(super) const HEADER_BYTES: u64 = 2 * PAGE_BYTES as u64;

    /// A new queue.
    ///
    /// # Errors
    /// As [`Access::alloc`].
    pub fn create<A: Access + ?Sized>(tx: &mut A) -> Result<Self> {
        Self::create_with(tx, 0)
    }

    /// A new queue, with `more` bytes behind the first [`Self::HEADER_BYTES`] of its header's object.
    pub(super) fn create_with<A: Access + ?Sized>(tx: &mut A, more: u64) -> Result<Self> {
        let header = Ref::from_home(tx.alloc(Self::HEADER_BYTES + more)?);
        let queue = Self { header, kind: PhantomData };
        let end = End { node: Self::node(tx)?, count: 0 };
        tx.set(queue.front_end(), end)?;
        tx.set(queue.back_end(), end)?;
        Ok(queue)
    }

    fn node<A: Access + ?Sized>(tx: &mut A) -> Result<Ref<Node>> {
        tx.alloc((Node::BYTES + Self::SLOTS * Self::SLOT_BYTES) as u64).map(Ref::from_home)
    }

    fn front_end(self) -> Ref<End> {
        self.header
    }

    fn back_end(self) -> Ref<End> {
        self.header.plus_bytes(PAGE_BYTES)
    }

    fn slot(end: &End) -> Ref<Slot<T>> {
        let slot = (end.count % Self::SLOTS as u64) as usize;
        end.node.plus_bytes(Node::BYTES + slot * Self::SLOT_BYTES)
    }

    /// Whether all slots of its node are behind this end.
    fn is_through(end: &End) -> bool {
        end.count > 0 && end.count.is_multiple_of(Self::SLOTS as u64)
    }

    /// Adds a value at the back.
    ///
    /// # Errors
    /// As [`Access::alloc`], [`Access::store`].
    pub fn push<A: Access + ?Sized>(self, tx: &mut A, value: T) -> Result<()> {
        let mut end = tx.get(self.back_end())?;
        if Self::is_through(&end) {
            let node = Self::node(tx)?;
            tx.set(end.node, Node { next: Some(node) })?;
            end.node = node;
        }
        tx.set(Self::slot(&end), Slot { is_filled: 1, value })?;
        end.count += 1;
        tx.set(self.back_end(), end)
    }

    /// Takes the value at the front.
    ///
    /// # Errors
    /// As [`Load::load`], [`Access::store`].
    pub fn pop<A: Access + ?Sized>(self, tx: &mut A) -> Result<Option<T>> {
        let end = tx.get(self.front_end())?;
        let Some((mut next, value)) = Self::follow(tx, end)? else { return Ok(None) };
        if next.node != end.node {
            tx.delete(end.node)?;
        }
        next.count += 1;
        tx.set(self.front_end(), next)?;
        Ok(Some(value))
    }

    /// The value at the front, which stays.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn front<A: Load + ?Sized>(self, tx: &mut A) -> Result<Option<T>> {
        let end = tx.get(self.front_end())?;
        Ok(Self::follow(tx, end)?.map(|(_, value)| value))
    }

    /// The first value from `end` on, and where it is.
    fn follow<A: Load + ?Sized>(tx: &mut A, mut end: End) -> Result<Option<(End, T)>> {
        if Self::is_through(&end) {
            let Some(next) = tx.get(end.node)?.next else { return Ok(None) };
            end.node = next;
        }
        let slot = tx.get(Self::slot(&end))?;
        Ok((slot.is_filled != 0).then_some((end, slot.value)))
    }

    /// The value `n` places behind the front, which stays. The time it takes grows by a load for each node in between.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn nth<A: Load + ?Sized>(self, tx: &mut A, n: u64) -> Result<Option<T>> {
        let mut end = tx.get(self.front_end())?;
        let mut hops = match (end.count % Self::SLOTS as u64).checked_add(n) {
            Some(slots) => slots / Self::SLOTS as u64 + u64::from(Self::is_through(&end)),
            None => return Ok(None),
        };
        while hops > 0 {
            let Some(next) = tx.get(end.node)?.next else { return Ok(None) };
            (end.node, hops) = (next, hops - 1);
        }
        end.count = end.count.wrapping_add(n);
        let slot = tx.get(Self::slot(&end))?;
        Ok((slot.is_filled != 0).then_some(slot.value))
    }

    /// How many values there are. A transaction that asks meets all others.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn len<A: Load + ?Sized>(self, tx: &mut A) -> Result<u64> {
        let taken = tx.get(self.front_end())?.count;
        Ok(tx.get(self.back_end())?.count - taken)
    }

    /// Whether there are none.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn is_empty<A: Load + ?Sized>(self, tx: &mut A) -> Result<bool> {
        Ok(self.front(tx)?.is_none())
    }

    /// All values, the oldest first.
    ///
    /// # Errors
    /// As [`Load::load`]; also those of the iterator, which ends with its first error.
    pub fn iter<A: Load + ?Sized>(self, tx: &mut A) -> Result<Values<'_, A, T>> {
        let end = Some(tx.get(self.front_end())?);
        Ok(Values { tx, end, kind: PhantomData })
    }

    /// Frees the queue and what is in it, in this one transaction. No handle of it may be used afterwards.
    ///
    /// # Errors
    /// As [`Access::free`].
    pub fn destroy<A: Access + ?Sized>(self, tx: &mut A) -> Result<()> {
        let mut node = Some(tx.get(self.front_end())?.node);
        while let Some(at) = node {
            node = tx.get(at)?.next;
            tx.delete(at)?;
        }
        tx.delete(self.header)
    }
}

impl<A: Load + ?Sized, T: Value> Iterator for Values<'_, A, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        match Queue::follow(self.tx, self.end.take()?) {
            Ok(Some((mut end, value))) => {
                end.count += 1;
                self.end = Some(end);
                Some(Ok(value))
            }
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        }
    }
}
