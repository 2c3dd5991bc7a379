//! One pool for each shape and class of objects that there are.

use aquifer_base::{AllocationClass, LeafId};
use foldhash::HashMap;

use crate::pool::{Freed, Pool};
use crate::shape::Shape;

/// Freed places wait to be given back with others while they are as many as one leaf in `SPARE` has.
const SPARE: usize = 16;

/// What the objects of a leaf have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Kind {
    pub(crate) shape: Shape,
    pub(crate) class: AllocationClass,
}

/// Leaves of pooled objects, each of one kind.
#[derive(Default)]
pub(crate) struct Pools {
    by_kind: HashMap<Kind, Pool>,
}

impl Pools {
    /// RAM of the bookkeeping, about.
    pub(crate) fn ram_bytes(&self) -> usize {
        let pools: usize = self.by_kind.values().map(Pool::ram_bytes).sum();
        pools + self.by_kind.capacity() * (size_of::<(Kind, Pool)>() + 1)
    }

    /// Whether there is a free place.
    pub(crate) fn has_room(&self, kind: Kind) -> bool {
        self.by_kind.get(&kind).is_some_and(Pool::has_room)
    }

    /// Takes a free place; `None` if a leaf must be added.
    pub(crate) fn take(&mut self, kind: Kind) -> Option<(LeafId, usize)> {
        let (leaf, number) = self.by_kind.get_mut(&kind)?.take()?;
        Some((LeafId(leaf), number))
    }

    /// Adds an empty leaf.
    pub(crate) fn add(&mut self, kind: Kind, leaf: LeafId) {
        let pool = || Pool::new(kind.shape.objects_per_leaf());
        self.by_kind.entry(kind).or_insert_with(pool).add_group(leaf.0);
    }

    /// Whether the place is taken. The leaf is of this kind.
    pub(crate) fn is_taken(&self, kind: Kind, leaf: LeafId, number: usize) -> bool {
        self.by_kind[&kind].is_taken(leaf.0, number)
    }

    /// Freed places of a kind for which no place is looked at before a leaf is added.
    pub(crate) fn spare_places(&self, kind: Kind) -> usize {
        self.by_kind
            .get(&kind)
            .map_or(0, |pool| pool.groups() as usize / SPARE * kind.shape.objects_per_leaf())
    }

    /// How many places are taken. The leaf is of this kind.
    pub(crate) fn taken(&self, kind: Kind, leaf: LeafId) -> usize {
        self.by_kind[&kind].taken(leaf.0)
    }

    /// Frees a taken place. A kind without leaves costs nothing.
    pub(crate) fn free(&mut self, kind: Kind, leaf: LeafId, number: usize) -> Freed {
        let pool = self.by_kind.get_mut(&kind).expect("its objects are in the pool");
        let freed = pool.free(leaf.0, number);
        if pool.groups() == 0 {
            self.by_kind.remove(&kind);
        }
        freed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn kind(pick: u16) -> Kind {
        let shape = Shape::for_bytes([40, 300, 9000][usize::from(pick) % 3]).unwrap();
        Kind { shape, class: AllocationClass((pick / 3 % 5) as u8) }
    }

    proptest! {
        /// A leaf holds one kind until it is empty, and free places are taken before leaves are added.
        #[test]
        fn kinds_never_share_a_leaf(ops in proptest::collection::vec((any::<u16>(), any::<u16>()), 1..2000)) {
            let mut pools = Pools::default();
            let mut leaves: HashMap<LeafId, Kind> = HashMap::default();
            let mut held: Vec<(Kind, LeafId, usize)> = Vec::new();
            let mut set = HashSet::new();
            let mut next = 0;
            for (op, pick) in ops {
                if op % 3 > 0 || held.is_empty() {
                    let kind = kind(pick);
                    let places = kind.shape.objects_per_leaf();
                    let has_room = leaves.iter().any(|(&leaf, &of)| {
                        of == kind && (0..places).any(|number| !set.contains(&(leaf, number)))
                    });
                    let taken = pools.take(kind);
                    prop_assert_eq!(taken.is_some(), has_room);
                    let (leaf, number) = taken.unwrap_or_else(|| {
                        next += 1;
                        leaves.insert(LeafId(next), kind);
                        pools.add(kind, LeafId(next));
                        pools.take(kind).unwrap()
                    });
                    prop_assert_eq!(leaves[&leaf], kind);
                    prop_assert!(number < places && set.insert((leaf, number)));
                    held.push((kind, leaf, number));
                } else {
                    let (kind, leaf, number) = held.swap_remove(usize::from(pick) % held.len());
                    prop_assert!(pools.is_taken(kind, leaf, number));
                    set.remove(&(leaf, number));
                    let empty = !held.iter().any(|other| other.1 == leaf);
                    prop_assert_eq!(pools.free(kind, leaf, number) == Freed::GroupEmpty, empty);
                    if empty {
                        leaves.remove(&leaf);
                    }
                }
            }
            for (kind, leaf, number) in held {
                pools.free(kind, leaf, number);
            }
            prop_assert!(pools.by_kind.is_empty(), "unused kinds are forgotten");
        }
    }
}
