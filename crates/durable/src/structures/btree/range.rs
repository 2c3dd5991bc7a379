//! Entries in order, a leaf at a time.

use std::ops::Bound;

use super::BTree;
use super::node::Node;
use crate::access::Access;
use crate::error::Result;
use crate::value::Value;

/// Entries of a [`BTree`] in the order of their keys.
pub struct Range<'t, A: ?Sized, K, V> {
    tx: &'t mut A,
    /// The leaf under way, and the next entry of it; none at the end.
    leaf: Option<(Node<K, V>, usize)>,
    end: Bound<K>,
}

impl<'t, A: Access + ?Sized, K: Value + Ord, V: Value> Range<'t, A, K, V> {
    pub(super) fn new(tx: &'t mut A, tree: BTree<K, V>, start: Bound<K>, end: Bound<K>) -> Result<Self> {
        let (leaf, at) = match start {
            Bound::Unbounded => (tree.first_leaf(tx)?, 0),
            Bound::Included(key) | Bound::Excluded(key) => {
                let leaf = tree.leaf(tx, &key)?;
                let at = match leaf.find(&key) {
                    Ok(at) if matches!(start, Bound::Excluded(_)) => at + 1,
                    Ok(at) | Err(at) => at,
                };
                (leaf, at)
            }
        };
        Ok(Self { tx, leaf: Some((leaf, at)), end })
    }

    fn step(&mut self) -> Result<Option<(K, V)>> {
        while let Some((leaf, at)) = &mut self.leaf {
            if *at < leaf.len() {
                let entry = (leaf.key(*at), leaf.value(*at));
                *at += 1;
                return Ok(Some(entry));
            }
            self.leaf = leaf.load_next(self.tx)?.map(|leaf| (leaf, 0));
        }
        Ok(None)
    }

    fn is_within(&self, key: &K) -> bool {
        match &self.end {
            Bound::Unbounded => true,
            Bound::Included(end) => key <= end,
            Bound::Excluded(end) => key < end,
        }
    }
}

impl<A: Access + ?Sized, K: Value + Ord, V: Value> Iterator for Range<'_, A, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Result<(K, V)>> {
        let outcome = self.step().map(|entry| entry.filter(|(key, _)| self.is_within(key)));
        if !matches!(outcome, Ok(Some(_))) {
            self.leaf = None;
        }
        outcome.transpose()
    }
}
