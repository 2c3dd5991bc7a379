//! A B+tree: all entries are in leaves, in order, and every leaf knows the next one (Comer, "The Ubiquitous B-Tree", ACM Computing
//! Surveys 1979).
//!
//! The root never moves: it has 4 KiB of its own, and what was in it goes into a new node when the tree gets higher. So a handle
//! leads to it at once, and writes to other nodes do not meet those who only pass.
//!
//! Keys are looked at in a copy, and written together: so they are in one place of the log, however often they change.

mod balance;
mod node;
mod range;

use std::marker::PhantomData;
use std::ops::RangeBounds;

use super::{PAGE_BYTES, handle};
use crate::access::Access;
use crate::error::Result;
use crate::reference::Ref;
use crate::value::Value;
use node::{Head, Node};
pub use range::Range;

/// An ordered map on a durable heap. This is a handle; see [`structures`](super).
///
/// Nodes have about 512 bytes, or four entries if these are large: an insertion moves two of them on average, so large values are
/// better kept in objects of their own. There is no count of the entries, because all who insert or remove would meet at it.
pub struct BTree<K, V> {
    root: Ref<Head>,
    kind: PhantomData<fn() -> (K, V)>,
}

handle!(BTree<K, V> at root);

/// The inner nodes above a leaf, the root first, and which child of each is on the way.
type Path = Vec<(Ref<Head>, u32, usize)>;

impl<K: Value + Ord, V: Value> BTree<K, V> {
    /// A new tree.
    ///
    /// # Errors
    /// As [`Access::alloc`].
    pub fn create<A: Access + ?Sized>(tx: &mut A) -> Result<Self> {
        let bytes = Node::<K, V>::ROOT_BYTES.max(PAGE_BYTES);
        // Its zeros are an empty leaf.
        let root = Ref::from_home(tx.alloc(bytes as u64)?);
        Ok(Self { root, kind: PhantomData })
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Access::load`].
    #[inline]
    pub fn get<A: Access + ?Sized>(self, tx: &mut A, key: K) -> Result<Option<V>> {
        let leaf = self.leaf(tx, &key)?;
        leaf.find(&key).ok().map(|at| leaf.value(tx, at)).transpose()
    }

    /// Whether a key has a value.
    ///
    /// # Errors
    /// As [`Access::load`].
    pub fn contains_key<A: Access + ?Sized>(self, tx: &mut A, key: K) -> Result<bool> {
        Ok(self.leaf(tx, &key)?.find(&key).is_ok())
    }

    /// Gives a key a value; returns the one that it had.
    ///
    /// # Errors
    /// As [`Access::alloc`], [`Access::store`].
    #[inline]
    pub fn insert<A: Access + ?Sized>(self, tx: &mut A, key: K, value: V) -> Result<Option<V>> {
        let mut leaf = self.leaf(tx, &key)?;
        match leaf.find(&key) {
            Ok(at) => {
                let old = leaf.value(tx, at)?;
                leaf.set_value(tx, at, value)?;
                Ok(Some(old))
            }
            Err(at) => {
                if !leaf.is_full() {
                    leaf.insert_entry(tx, at, key, value)?;
                    return Ok(None);
                }
                leaf = self.make_room(tx, &key, leaf, at)?;
                let at = leaf.find(&key).unwrap_or_else(|at| at);
                leaf.insert_entry(tx, at, key, value)?;
                Ok(None)
            }
        }
    }

    /// Takes a key out; returns its value.
    ///
    /// # Errors
    /// As [`Access::store`], [`Access::free`].
    #[inline]
    pub fn remove<A: Access + ?Sized>(self, tx: &mut A, key: K) -> Result<Option<V>> {
        let mut leaf = self.leaf(tx, &key)?;
        let Ok(at) = leaf.find(&key) else { return Ok(None) };
        let value = leaf.value(tx, at)?;
        leaf.remove_at(tx, at)?;
        if leaf.is_scarce() && leaf.at() != self.root {
            self.refill(tx, &key, leaf)?;
        }
        Ok(Some(value))
    }

    /// The entry with the smallest key.
    ///
    /// # Errors
    /// As [`Access::load`].
    pub fn first<A: Access + ?Sized>(self, tx: &mut A) -> Result<Option<(K, V)>> {
        self.range(tx, ..)?.next().transpose()
    }

    /// Whether there are no entries.
    ///
    /// # Errors
    /// As [`Access::load`].
    pub fn is_empty<A: Access + ?Sized>(self, tx: &mut A) -> Result<bool> {
        Ok(self.first(tx)?.is_none())
    }

    /// The entries whose keys are in a range, in order.
    ///
    /// # Errors
    /// As [`Access::load`]; also those of the iterator, which ends with its first error.
    pub fn range<A: Access + ?Sized>(
        self,
        tx: &mut A,
        keys: impl RangeBounds<K>,
    ) -> Result<Range<'_, A, K, V>> {
        Range::new(tx, self, keys.start_bound().cloned(), keys.end_bound().cloned())
    }

    /// Frees the tree and what is in it, in this one transaction. No handle of it may be used afterwards.
    ///
    /// # Errors
    /// As [`Access::free`].
    pub fn destroy<A: Access + ?Sized>(self, tx: &mut A) -> Result<()> {
        let mut nodes = vec![Node::<K, V>::root(tx, self.root)?];
        while let Some(node) = nodes.pop() {
            for n in 0..if node.is_leaf() { 0 } else { node.len() } {
                nodes.push(node.load_child(tx, n)?);
            }
            tx.free(node.at().home())?;
        }
        Ok(())
    }

    /// The leaf that a key is or would be in.
    #[inline]
    fn leaf<A: Access + ?Sized>(self, tx: &mut A, key: &K) -> Result<Node<K, V>> {
        let mut node = Node::root(tx, self.root)?;
        while !node.is_leaf() {
            node.go_down(tx, node.route(key))?;
        }
        Ok(node)
    }

    /// The leaf that all keys are behind.
    fn first_leaf<A: Access + ?Sized>(self, tx: &mut A) -> Result<Node<K, V>> {
        let mut node = Node::root(tx, self.root)?;
        while !node.is_leaf() {
            node.go_down(tx, 0)?;
        }
        Ok(node)
    }

    /// The way to the leaf of a key. It is walked again when it is needed, which is seldom.
    fn path<A: Access + ?Sized>(self, tx: &mut A, key: &K) -> Result<Path> {
        let mut path = Path::new();
        let mut node = Node::<K, V>::root(tx, self.root)?;
        while !node.is_leaf() {
            let child = node.route(key);
            path.push((node.at(), node.level(), child));
            node.go_down(tx, child)?;
        }
        Ok(path)
    }
}
