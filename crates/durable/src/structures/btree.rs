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
use crate::access::{Access, Load};
use crate::error::Result;
use crate::reference::Ref;
use crate::value::Value;
use node::{Head, Node};
pub(super) use node::{Order, TreeKey};
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
        Self::create_with(tx, 0)
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Load::load`].
    #[inline]
    pub fn get<A: Load + ?Sized>(self, tx: &mut A, key: K) -> Result<Option<V>> {
        let (leaf, found) = self.seek(tx, &key)?;
        found.ok().map(|at| leaf.value(tx, at)).transpose()
    }

    /// Whether a key has a value.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn contains_key<A: Load + ?Sized>(self, tx: &mut A, key: K) -> Result<bool> {
        Ok(self.seek(tx, &key)?.1.is_ok())
    }

    /// Gives a key a value; returns the one that it had.
    ///
    /// # Errors
    /// As [`Access::alloc`], [`Access::store`].
    #[inline]
    pub fn insert<A: Access + ?Sized>(self, tx: &mut A, key: K, value: V) -> Result<Option<V>> {
        let (leaf, found) = self.seek(tx, &key)?;
        match found {
            Ok(at) => {
                let old = leaf.value(tx, at)?;
                leaf.set_value(tx, at, value)?;
                Ok(Some(old))
            }
            Err(at) => self.add(tx, &key, (leaf, at), key, value).map(|()| None),
        }
    }

    /// Takes a key out; returns its value.
    ///
    /// # Errors
    /// As [`Access::store`], [`Access::free`].
    #[inline]
    pub fn remove<A: Access + ?Sized>(self, tx: &mut A, key: K) -> Result<Option<V>> {
        let (leaf, found) = self.seek(tx, &key)?;
        let Ok(at) = found else { return Ok(None) };
        self.take(tx, &key, leaf, at).map(Some)
    }

    /// The entry with the smallest key.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn first<A: Load + ?Sized>(self, tx: &mut A) -> Result<Option<(K, V)>> {
        self.range(tx, ..)?.next().transpose()
    }

    /// The entry with the largest key.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn last<A: Load + ?Sized>(self, tx: &mut A) -> Result<Option<(K, V)>> {
        self.last_entry(tx)
    }

    /// The entry with the largest key that is smaller than `key`.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn before<A: Load + ?Sized>(self, tx: &mut A, key: K) -> Result<Option<(K, V)>> {
        self.entry_before(tx, &key)
    }

    /// Whether there are no entries.
    ///
    /// # Errors
    /// As [`Load::load`].
    pub fn is_empty<A: Load + ?Sized>(self, tx: &mut A) -> Result<bool> {
        Ok(self.first(tx)?.is_none())
    }

    /// The entries whose keys are in a range, in order.
    ///
    /// # Errors
    /// As [`Load::load`]; also those of the iterator, which ends with its first error.
    pub fn range<A: Load + ?Sized>(
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
        self.destroy_with(tx, |_, _, _| Ok(()))
    }
}

/// For keys of any kind.
impl<K: TreeKey, V: Value> BTree<K, V> {
    /// What an object that a tree begins with has for the tree.
    pub(super) const ROOT_BYTES: usize = Node::<K, V>::ROOT_BYTES;

    /// A new tree, with `more` bytes behind the first 4 KiB of its root's object.
    pub(super) fn create_with<A: Access + ?Sized>(tx: &mut A, more: u64) -> Result<Self> {
        let bytes = Self::ROOT_BYTES.max(PAGE_BYTES) as u64 + more;
        // Its zeros are an empty leaf.
        let root = Ref::from_home(tx.alloc(bytes)?);
        Ok(Self { root, kind: PhantomData })
    }

    /// The leaf that a key is or would be in, and where.
    #[inline]
    pub(super) fn seek<A: Load + ?Sized>(
        self,
        tx: &mut A,
        key: &impl Order<K>,
    ) -> Result<(Node<K, V>, std::result::Result<usize, usize>)> {
        let leaf = self.leaf(tx, key)?;
        let found = leaf.find(tx, key)?;
        Ok((leaf, found))
    }

    /// Adds an entry where [`BTree::seek`] did not find its key.
    #[inline]
    pub(super) fn add<A: Access + ?Sized>(
        self,
        tx: &mut A,
        order: &impl Order<K>,
        (mut leaf, mut at): (Node<K, V>, usize),
        key: K,
        value: V,
    ) -> Result<()> {
        if leaf.is_full() {
            leaf = self.make_room(tx, order, key, (leaf, at))?;
            at = leaf.find(tx, order)?.unwrap_or_else(|at| at);
        }
        leaf.insert_entry(tx, at, key, value)
    }

    /// Takes an entry out that [`BTree::seek`] has found; returns its value.
    #[inline]
    pub(super) fn take<A: Access + ?Sized>(
        self,
        tx: &mut A,
        order: &impl Order<K>,
        mut leaf: Node<K, V>,
        at: usize,
    ) -> Result<V> {
        let value = leaf.value(tx, at)?;
        leaf.remove_at(tx, at)?;
        if leaf.is_scarce() && leaf.at() != self.root {
            self.refill(tx, order, leaf)?;
        }
        Ok(value)
    }

    /// The entry `n` of a leaf, or the first one behind the leaf if it has no more.
    pub(super) fn entry_from<A: Load + ?Sized>(
        tx: &mut A,
        leaf: Node<K, V>,
        n: usize,
    ) -> Result<Option<(K, V)>> {
        let (mut leaf, mut n) = (leaf, n);
        while n >= leaf.len() {
            let Some(next) = leaf.load_next(tx)? else { return Ok(None) };
            (leaf, n) = (next, 0);
        }
        Ok(Some((leaf.key(n), leaf.value(tx, n)?)))
    }

    /// The last entry before a key.
    pub(super) fn entry_before<A: Load + ?Sized>(
        self,
        tx: &mut A,
        key: &impl Order<K>,
    ) -> Result<Option<(K, V)>> {
        let (leaf, found) = self.seek(tx, key)?;
        let (Ok(n) | Err(n)) = found;
        if n > 0 {
            return Ok(Some((leaf.key(n - 1), leaf.value(tx, n - 1)?)));
        }
        let mut path = self.path(tx, key)?;
        while let Some((at, level, child)) = path.pop() {
            if child > 0 {
                let mut node = Node::load(tx, at, level)?;
                node.go_down(tx, child - 1)?;
                return Self::last_below(tx, node);
            }
        }
        Ok(None)
    }

    /// The last entry of all.
    pub(super) fn last_entry<A: Load + ?Sized>(self, tx: &mut A) -> Result<Option<(K, V)>> {
        let root = Node::root(tx, self.root)?;
        Self::last_below(tx, root)
    }

    fn last_below<A: Load + ?Sized>(tx: &mut A, mut node: Node<K, V>) -> Result<Option<(K, V)>> {
        while !node.is_leaf() {
            node.go_down(tx, node.len() - 1)?;
        }
        let Some(n) = node.len().checked_sub(1) else { return Ok(None) };
        Ok(Some((node.key(n), node.value(tx, n)?)))
    }

    /// Frees the tree, and calls `discard` with every entry.
    pub(super) fn destroy_with<A: Access + ?Sized>(
        self,
        tx: &mut A,
        mut discard: impl FnMut(&mut A, K, V) -> Result<()>,
    ) -> Result<()> {
        let mut nodes = vec![Node::<K, V>::root(tx, self.root)?];
        while let Some(node) = nodes.pop() {
            for n in 0..node.len() {
                if node.is_leaf() {
                    let value = node.value(tx, n)?;
                    discard(tx, node.key(n), value)?;
                    continue;
                }
                // The first one is its parent's.
                if n > 0 {
                    node.key(n).discard(tx)?;
                }
                nodes.push(node.load_child(tx, n)?);
            }
            tx.free(node.at().home())?;
        }
        Ok(())
    }

    /// The leaf that a key is or would be in.
    #[inline]
    fn leaf<A: Load + ?Sized>(self, tx: &mut A, key: &impl Order<K>) -> Result<Node<K, V>> {
        let mut node = Node::root(tx, self.root)?;
        while !node.is_leaf() {
            let child = node.route(tx, key)?;
            node.go_down(tx, child)?;
        }
        Ok(node)
    }

    /// The leaf that all keys are behind.
    pub(super) fn first_leaf<A: Load + ?Sized>(self, tx: &mut A) -> Result<Node<K, V>> {
        let mut node = Node::root(tx, self.root)?;
        while !node.is_leaf() {
            node.go_down(tx, 0)?;
        }
        Ok(node)
    }

    /// The way to the leaf of a key. It is walked again when it is needed, which is seldom.
    fn path<A: Load + ?Sized>(self, tx: &mut A, key: &impl Order<K>) -> Result<Path> {
        let mut path = Path::new();
        let mut node = Node::<K, V>::root(tx, self.root)?;
        while !node.is_leaf() {
            let child = node.route(tx, key)?;
            path.push((node.at(), node.level(), child));
            node.go_down(tx, child)?;
        }
        Ok(path)
    }
}
