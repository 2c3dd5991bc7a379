//! What a tree needs of its keys: an order, which may need a look into the heap, and copies for inner nodes.

use std::cmp::Ordering;

use crate::access::{Access, Load};
use crate::error::Result;
use crate::value::Value;

/// A key as it is searched for.
pub trait Order<K> {
    /// How it stands to a key of the tree.
    fn compare<A: Load + ?Sized>(&self, tx: &mut A, key: &K) -> Result<Ordering>;
}

/// A key as it stands in nodes. An inner node has keys of its own, because the entries of leaves come and go.
pub trait TreeKey: Value {
    /// A copy that an inner node owns.
    fn copy<A: Access + ?Sized>(self, tx: &mut A) -> Result<Self>;

    /// Frees what the key has in the heap.
    fn discard<A: Access + ?Sized>(self, tx: &mut A) -> Result<()>;
}

impl<K: Value + Ord> Order<K> for K {
    #[inline]
    fn compare<A: Load + ?Sized>(&self, _tx: &mut A, key: &K) -> Result<Ordering> {
        Ok(self.cmp(key))
    }
}

impl<K: Value + Ord> TreeKey for K {
    #[inline]
    fn copy<A: Access + ?Sized>(self, _tx: &mut A) -> Result<Self> {
        Ok(self)
    }

    #[inline]
    fn discard<A: Access + ?Sized>(self, _tx: &mut A) -> Result<()> {
        Ok(())
    }
}
