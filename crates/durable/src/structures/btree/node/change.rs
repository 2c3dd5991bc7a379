//! Changes of a node: of the copy, and of what it is a copy of.

use super::{Head, Node};
use crate::access::Access;
use crate::error::Result;
use crate::reference::Ref;
use crate::typed::Typed;
use crate::value::Value;

impl<K: Value + Ord, V: Value> Node<K, V> {
    /// Puts another value into an entry of a leaf.
    #[inline]
    pub(in super::super) fn set_value<A: Access + ?Sized>(
        &mut self,
        tx: &mut A,
        n: usize,
        value: V,
    ) -> Result<()> {
        let (from, to) = (self.offset(n), self.offset(n + 1));
        value.encode(&mut self.bytes.all_mut()[from + K::BYTES..][..V::BYTES]);
        // Whole grains, and of the key only what shares one with the value.
        self.store_bytes(tx, (from + K::BYTES) / 4 * 4, to)
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
        let entry = self.open(n);
        key.encode(&mut entry[..K::BYTES]);
        value.encode(&mut entry[K::BYTES..K::BYTES + V::BYTES]);
        self.store_from(tx, n)
    }

    /// Adds a child, which has keys from `key` on, to an inner node that is not full.
    pub(in super::super) fn insert_child<A: Access + ?Sized>(
        &mut self,
        tx: &mut A,
        n: usize,
        key: K,
        child: Ref<Head>,
    ) -> Result<()> {
        let entry = self.open(n);
        key.encode(&mut entry[..K::BYTES]);
        child.encode(&mut entry[K::BYTES..K::BYTES + 8]);
        self.store_from(tx, n)
    }

    /// Room for an entry in the copy, all zeros.
    #[inline]
    fn open(&mut self, n: usize) -> &mut [u8] {
        let (from, to, end) = (self.offset(n), self.offset(n + 1), self.offset(self.len()));
        self.head.len += 1;
        let bytes = self.bytes.all_mut();
        bytes.copy_within(from..end, to);
        bytes[from..to].fill(0);
        &mut bytes[from..to]
    }

    /// Takes an entry out.
    #[inline]
    pub(in super::super) fn remove_at<A: Access + ?Sized>(&mut self, tx: &mut A, n: usize) -> Result<()> {
        let (from, to, end) = (self.offset(n), self.offset(n + 1), self.offset(self.len()));
        self.bytes.all_mut().copy_within(to..end, from);
        self.head.len -= 1;
        self.store_from(tx, n)
    }

    /// Says that a child has keys from `key` on.
    pub(in super::super) fn set_key<A: Access + ?Sized>(
        &mut self,
        tx: &mut A,
        n: usize,
        key: K,
    ) -> Result<()> {
        let (from, to) = (self.offset(n), self.offset(n + 1));
        key.encode(&mut self.bytes.all_mut()[from..from + K::BYTES]);
        self.store_bytes(tx, from, to)
    }

    /// Moves the entries from `n` on into a new node behind this one, and returns it.
    pub(in super::super) fn split<A: Access + ?Sized>(&mut self, tx: &mut A, n: usize) -> Result<Self> {
        let mut right = Self::create(tx, self.level())?;
        right.push_all(self.entries(n, self.len()));
        if self.is_leaf() {
            right.head.next = self.head.next.replace(right.at);
        }
        self.head.len = n as u32;
        self.store_head(tx)?;
        right.store_head(tx)?;
        right.store_from(tx, 0)?;
        Ok(right)
    }

    /// Moves everything into another node that is new.
    pub(in super::super) fn move_to<A: Access + ?Sized>(&self, tx: &mut A, other: &mut Self) -> Result<()> {
        other.head = self.head;
        other.head.len = 0;
        other.push_all(self.entries(0, self.len()));
        other.store_head(tx)?;
        other.store_from(tx, 0)
    }

    /// Takes all entries of the node behind this one, for which there is room, and frees it.
    pub(in super::super) fn merge<A: Access + ?Sized>(&mut self, tx: &mut A, right: &Self) -> Result<()> {
        let from = self.len();
        self.push_all(right.entries(0, right.len()));
        self.head.next = right.head.next;
        self.store_head(tx)?;
        self.store_from(tx, from)?;
        tx.free(right.at.home())
    }

    /// Gives itself and the node behind it as many entries each.
    pub(in super::super) fn share<A: Access + ?Sized>(&mut self, tx: &mut A, right: &mut Self) -> Result<()> {
        let all = [self.entries(0, self.len()), right.entries(0, right.len())].concat();
        let half = (self.len() + right.len()) / 2 * Self::ENTRY_BYTES[self.kind()];
        for (node, entries) in [(self, &all[..half]), (right, &all[half..])] {
            node.head.len = 0;
            node.push_all(entries);
            node.store_from(tx, 0)?;
        }
        Ok(())
    }

    /// Adds entries at the end of the copy.
    fn push_all(&mut self, entries: &[u8]) {
        let from = self.offset(self.len());
        self.bytes.all_mut()[from..from + entries.len()].copy_from_slice(entries);
        self.head.len += (entries.len() / Self::ENTRY_BYTES[self.kind()]) as u32;
    }

    /// Writes the entries from `n` on through, and how many there are.
    #[inline]
    fn store_from<A: Access + ?Sized>(&self, tx: &mut A, n: usize) -> Result<()> {
        tx.set_field(self.at, Head::FIELDS.len, self.head.len)?;
        self.store_bytes(tx, self.offset(n), self.offset(self.len()))
    }

    #[inline]
    fn store_bytes<A: Access + ?Sized>(&self, tx: &mut A, from: usize, to: usize) -> Result<()> {
        tx.store(self.at.home().plus_bytes(from as u64), &self.bytes.all()[from..to])
    }

    pub(in super::super) fn store_head<A: Access + ?Sized>(&self, tx: &mut A) -> Result<()> {
        tx.set(self.at, self.head)
    }
}
