//! Nodes that are full are split, and nodes with few entries are merged or get some from beside them.

use std::cmp::Ordering;

use super::node::{Head, Node};
use super::node::{Order, TreeKey};
use super::{BTree, Path};
use crate::access::Access;
use crate::error::Result;
use crate::reference::Ref;
use crate::value::Value;

impl<K: TreeKey, V: Value> BTree<K, V> {
    /// Splits the full leaf of a key that would be its entry `n`; returns the half for the key.
    pub(super) fn make_room<A: Access + ?Sized>(
        self,
        tx: &mut A,
        order: &impl Order<K>,
        key: K,
        (leaf, n): (Node<K, V>, usize),
    ) -> Result<Node<K, V>> {
        let mut path = self.path(tx, order)?;
        let mut left = self.below_root(tx, leaf, &mut path)?;
        // Keys that come in order leave full leaves behind.
        let is_last = n == left.len() && !left.has_next();
        let from = if is_last { n } else { left.len() / 2 };
        let right = left.split(tx, from)?;
        let between = if is_last { key } else { right.key(0) };
        let is_left = !is_last && order.compare(tx, &between)? == Ordering::Less;
        let between = between.copy(tx)?;
        self.add_child(tx, path, between, right.at())?;
        Ok(if is_left { left } else { right })
    }

    /// Adds a child, which has keys from `key` on, behind the one at the end of the path. `key` belongs to the node that it gets into.
    /// The first key of an inner node is that of its parent, which owns it.
    fn add_child<A: Access + ?Sized>(
        self,
        tx: &mut A,
        mut path: Path,
        mut key: K,
        mut child: Ref<Head>,
    ) -> Result<()> {
        while let Some((at, level, before)) = path.pop() {
            let node = Node::<K, V>::load(tx, at, level)?;
            let n = before + 1;
            if !node.is_full() {
                return { node }.insert_child(tx, n, key, child);
            }
            let mut left = self.below_root(tx, node, &mut path)?;
            let from = if n == left.len() { n - 1 } else { left.len() / 2 };
            let mut right = left.split(tx, from)?;
            if n <= from {
                left.insert_child(tx, n, key, child)?;
            } else {
                right.insert_child(tx, n - from, key, child)?;
            }
            (key, child) = (right.key(0), right.at());
        }
        Ok(())
    }

    /// If the node is the root, moves what is in it into a new node, which becomes the root's only child. Returns the node that it
    /// is in now.
    fn below_root<A: Access + ?Sized>(
        self,
        tx: &mut A,
        node: Node<K, V>,
        path: &mut Path,
    ) -> Result<Node<K, V>> {
        if node.at() != self.root {
            return Ok(node);
        }
        let mut child = Node::create(tx, node.level())?;
        node.copy_to(tx, &mut child)?;
        let root = Node::<K, V>::put_above(tx, self.root, node.key(0), &child)?;
        path.push((self.root, root.level(), 0));
        Ok(child)
    }

    /// Sees that the node on the way to a key, which is not the root, and those above it have enough entries.
    pub(super) fn refill<A: Access + ?Sized>(
        self,
        tx: &mut A,
        order: &impl Order<K>,
        mut node: Node<K, V>,
    ) -> Result<()> {
        let mut path = self.path(tx, order)?;
        while node.is_scarce() {
            let Some((at, level, n)) = path.pop() else { return self.lower_root(tx, &node) };
            let mut parent = Node::load(tx, at, level)?;
            let second = if n + 1 < parent.len() { n + 1 } else { n };
            let other = parent.load_child(tx, if second == n { n - 1 } else { second })?;
            let (mut left, mut right) = if second == n { (other, node) } else { (node, other) };
            let (is_leaf, between) = (left.is_leaf(), parent.key(second));
            if is_leaf {
                // Between inner nodes it goes on in one of them.
                between.discard(tx)?;
            }
            if left.len() + right.len() <= left.capacity() {
                left.merge(tx, &right)?;
                parent.remove_at(tx, second)?;
            } else {
                left.share(tx, &mut right)?;
                let between = right.key(0);
                let between = if is_leaf { between.copy(tx)? } else { between };
                parent.set_key(tx, second, between)?;
            }
            node = parent;
        }
        Ok(())
    }

    /// If the root has only one child, moves what is in that into the root.
    fn lower_root<A: Access + ?Sized>(self, tx: &mut A, root: &Node<K, V>) -> Result<()> {
        if root.is_leaf() || root.len() > 1 {
            return Ok(());
        }
        let child = root.load_child(tx, 0)?;
        child.copy_to(tx, &mut Node::empty(self.root, child.level()))?;
        tx.free(child.at().home())
    }
}
