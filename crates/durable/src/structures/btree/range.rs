//! Entries in order, a leaf at a time.

use std::ops::Bound;

use super::BTree;
use super::node::Node;
use crate::access::Load;
use crate::error::Result;
use crate::value::Value;

/// Entries of a [`BTree`] in the order of their keys.
pub struct Range<'t, A: ?Sized, K, V> {
    tx: &'t mut A,
    /// The leaf under way; none at the end.
    leaf: Option<Node<K, V>>,
    /// Its next entry.
    next: usize,
    /// Values from its entry `first` on.
    values: Vec<u8>,
    first: usize,
    end: Bound<K>,
}

impl<'t, A: Load + ?Sized, K: Value + Ord, V: Value> Range<'t, A, K, V> {
    pub(super) fn new(tx: &'t mut A, tree: BTree<K, V>, start: Bound<K>, end: Bound<K>) -> Result<Self> {
        let (leaf, at) = match start {
            Bound::Unbounded => (tree.first_leaf(tx)?, 0),
            Bound::Included(key) | Bound::Excluded(key) => {
                let (leaf, found) = tree.seek(tx, &key)?;
                let at = match found {
                    Ok(at) if matches!(start, Bound::Excluded(_)) => at + 1,
                    Ok(at) | Err(at) => at,
                };
                (leaf, at)
            }
        };
        let values = leaf.values(tx, at)?;
        Ok(Self { tx, leaf: Some(leaf), next: at, values, first: at, end })
    }

    fn step(&mut self) -> Result<Option<(K, V)>> {
        while let Some(leaf) = &self.leaf {
            if self.next < leaf.len() {
                let value = Node::<K, V>::value_in(&self.values, self.next - self.first);
                let entry = (leaf.key(self.next), value);
                self.next += 1;
                return Ok(Some(entry));
            }
            self.leaf = leaf.load_next(self.tx)?;
            (self.next, self.first) = (0, 0);
            self.values = self.leaf.as_ref().map_or(Ok(Vec::new()), |leaf| leaf.values(self.tx, 0))?;
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

impl<A: Load + ?Sized, K: Value + Ord, V: Value> Iterator for Range<'_, A, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Result<(K, V)>> {
        let outcome = self.step().map(|entry| entry.filter(|(key, _)| self.is_within(key)));
        if !matches!(outcome, Ok(Some(_))) {
            self.leaf = None;
        }
        outcome.transpose()
    }
}
