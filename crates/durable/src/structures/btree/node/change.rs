//! Changes of a node: of the copy, and of what it is a copy of.

use super::TreeKey;
use super::{Head, Node};
use crate::access::Access;
use crate::error::Result;
use crate::reference::Ref;
use crate::typed::Typed;
use crate::value::{STACK_BYTES_MAX, Value, with_buffer};

impl<K: TreeKey, V: Value> Node<K, V> {
    /// Puts another value into an entry of a leaf.
    #[inline]
    pub(in crate::structures) fn set_value<A: Access + ?Sized>(
        &self,
        tx: &mut A,
        n: usize,
        value: V,
    ) -> Result<()> {
        tx.set(self.place(n), value)
    }

    /// Adds an entry to a leaf that is not full.
    #[inline]
    pub(in super::super) fn insert_entry<A: Access + ?Sized>(
        &mut self,
        tx: &mut A,
        n: usize,
        key: K,
        value: V,
    ) -> Result<()> {
        self.insert_key(tx, n, key)?;
        tx.set(self.place(n), value)
    }

    /// Adds a child, which has keys from `key` on, to an inner node that is not full.
    pub(in super::super) fn insert_child<A: Access + ?Sized>(
        &mut self,
        tx: &mut A,
        n: usize,
        key: K,
        child: Ref<Head>,
    ) -> Result<()> {
        self.insert_key(tx, n, key)?;
        tx.set(self.place(n), child)?;
        self.gather_children(tx)
    }

    /// Writes all children of an inner node again, so that they are in one place of the log: many pass.
    fn gather_children<A: Access + ?Sized>(&self, tx: &mut A) -> Result<()> {
        let children = self.values(tx, 0)?;
        tx.store(self.place::<()>(0).home(), &children)
    }

    /// Makes room for an entry with this key.
    #[inline]
    fn insert_key<A: Access + ?Sized>(&mut self, tx: &mut A, n: usize, key: K) -> Result<()> {
        let (from, to, end) = (Self::key_offset(n), Self::key_offset(n + 1), Self::key_offset(self.len()));
        let bytes = self.bytes.all_mut();
        bytes.copy_within(from..end, to);
        bytes[from..to].fill(0);
        key.encode(&mut bytes[from..from + K::BYTES]);
        self.head.len += 1;
        self.store_keys(tx)?;
        // From the last one on, a buffer at a time.
        let (step, mut last) = (self.values_at_a_time(), self.len() - 1);
        while last > n {
            let first = last.saturating_sub(step).max(n);
            self.move_values(tx, first, last, first + 1)?;
            last = first;
        }
        Ok(())
    }

    /// Takes an entry out.
    #[inline]
    pub(in super::super) fn remove_at<A: Access + ?Sized>(&mut self, tx: &mut A, n: usize) -> Result<()> {
        let (from, to, end) = (Self::key_offset(n), Self::key_offset(n + 1), Self::key_offset(self.len()));
        self.bytes.all_mut().copy_within(to..end, from);
        let (step, len) = (self.values_at_a_time(), self.len());
        for first in (n + 1..len).step_by(step) {
            self.move_values(tx, first, len.min(first + step), first - 1)?;
        }
        self.head.len -= 1;
        self.store_keys(tx)?;
        if self.is_leaf() { Ok(()) } else { self.gather_children(tx) }
    }

    /// How many values fit a buffer on the stack.
    fn values_at_a_time(&self) -> usize {
        (STACK_BYTES_MAX / Self::VALUE_BYTES[self.kind()].max(1)).max(1)
    }

    #[inline]
    fn move_values<A: Access + ?Sized>(
        &self,
        tx: &mut A,
        first: usize,
        last: usize,
        to: usize,
    ) -> Result<()> {
        with_buffer((last - first) * Self::VALUE_BYTES[self.kind()], |values| {
            tx.load(self.place::<()>(first).home(), values)?;
            tx.store(self.place::<()>(to).home(), values)
        })
    }

    /// Says that a child has keys from `key` on.
    pub(in super::super) fn set_key<A: Access + ?Sized>(
        &mut self,
        tx: &mut A,
        n: usize,
        key: K,
    ) -> Result<()> {
        let from = Self::key_offset(n);
        key.encode(&mut self.bytes.all_mut()[from..from + K::BYTES]);
        self.store_keys(tx)
    }

    /// Moves the entries from `n` on into a new node behind this one, and returns it.
    pub(in super::super) fn split<A: Access + ?Sized>(&mut self, tx: &mut A, n: usize) -> Result<Self> {
        let mut right = Self::create(tx, self.level())?;
        if self.is_leaf() {
            right.head.next = self.head.next.replace(right.at);
        }
        let values = self.values(tx, n)?;
        right.push(tx, self.keys(n, self.len()), &values)?;
        self.head.len = n as u32;
        self.store_keys(tx)?;
        Ok(right)
    }

    /// Writes all that is in it into another node, which had other entries or none.
    pub(in super::super) fn copy_to<A: Access + ?Sized>(&self, tx: &mut A, other: &mut Self) -> Result<()> {
        other.head = Head { len: 0, ..self.head };
        let values = self.values(tx, 0)?;
        other.push(tx, self.keys(0, self.len()), &values)
    }

    /// Puts a node with only this child where another one was.
    pub(in super::super) fn put_above<A: Access + ?Sized>(
        tx: &mut A,
        at: Ref<Head>,
        key: K,
        child: &Self,
    ) -> Result<Self> {
        let mut node = Self::empty(at, child.level() + 1);
        node.insert_child(tx, 0, key, child.at)?;
        Ok(node)
    }

    /// Takes all entries of the node behind this one, for which there is room, and frees it.
    pub(in super::super) fn merge<A: Access + ?Sized>(&mut self, tx: &mut A, right: &Self) -> Result<()> {
        self.head.next = right.head.next;
        let values = right.values(tx, 0)?;
        self.push(tx, right.keys(0, right.len()), &values)?;
        tx.free(right.at.home())
    }

    /// Gives itself and the node behind it as many entries each.
    pub(in super::super) fn share<A: Access + ?Sized>(&mut self, tx: &mut A, right: &mut Self) -> Result<()> {
        let half = (self.len() + right.len()) / 2;
        let keys = [self.keys(0, self.len()), right.keys(0, right.len())].concat();
        let values = [self.values(tx, 0)?, right.values(tx, 0)?].concat();
        let (left_keys, right_keys) = keys.split_at(half * Self::KEY_BYTES);
        let (left_values, right_values) = values.split_at(half * Self::VALUE_BYTES[self.kind()]);
        (self.head.len, right.head.len) = (0, 0);
        self.push(tx, left_keys, left_values)?;
        right.push(tx, right_keys, right_values)
    }

    /// Adds entries at the end.
    fn push<A: Access + ?Sized>(&mut self, tx: &mut A, keys: &[u8], values: &[u8]) -> Result<()> {
        let n = self.len();
        let from = Self::key_offset(n);
        self.bytes.all_mut()[from..from + keys.len()].copy_from_slice(keys);
        self.head.len += (keys.len() / Self::KEY_BYTES) as u32;
        self.store_keys(tx)?;
        tx.store(self.place::<()>(n).home(), values)
    }

    /// Writes the head and all keys. They are then in one place of the log, which is what a search asks for most.
    #[inline]
    fn store_keys<A: Access + ?Sized>(&mut self, tx: &mut A) -> Result<()> {
        let end = Self::key_offset(self.len());
        let bytes = &mut self.bytes.all_mut()[..end];
        self.head.encode(&mut bytes[..Head::BYTES]);
        tx.store(self.at.home(), bytes)
    }
}
