//! Leaves that hold objects of one shape.

use std::collections::HashMap;

use aquifer_base::LeafId;

use crate::shape::Shape;

type Bits = [u64; 8];

/// A leaf some of whose places are free. Full leaves cost no bitmap.
struct Partial {
    used: Box<Bits>,
    count: u16,
    /// Position in the pool's list of partial leaves.
    listed: u32,
}

/// The leaves of one shape.
pub(crate) struct Pool {
    shape: Shape,
    partial: HashMap<u32, Partial>,
    list: Vec<u32>,
}

/// What freeing a place left behind.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Freed {
    /// The leaf holds other objects.
    Kept,
    /// The leaf is empty and left the pool.
    LeafEmpty,
}

impl Pool {
    pub(crate) fn new(shape: Shape) -> Self {
        Self { shape, partial: HashMap::new(), list: Vec::new() }
    }

    /// RAM of the bitmaps.
    pub(crate) fn ram_bytes(&self) -> usize {
        self.partial.capacity() * (size_of::<Partial>() + 5)
            + self.partial.len() * size_of::<Bits>()
            + self.list.capacity() * 4
    }

    fn insert(&mut self, leaf: LeafId, used: Bits, count: u16) {
        let listed = self.list.len() as u32;
        self.list.push(leaf.0);
        self.partial.insert(leaf.0, Partial { used: Box::new(used), count, listed });
    }

    fn remove(&mut self, leaf: LeafId) {
        let Some(partial) = self.partial.remove(&leaf.0) else { return };
        self.list.swap_remove(partial.listed as usize);
        if let Some(&moved) = self.list.get(partial.listed as usize) {
            self.partial.get_mut(&moved).expect("a listed leaf is partial").listed = partial.listed;
        }
    }

    /// Adds an empty leaf.
    pub(crate) fn add_leaf(&mut self, leaf: LeafId) {
        self.insert(leaf, Bits::default(), 0);
    }

    /// Takes a free place, as its leaf and number there; `None` if a leaf must be added.
    pub(crate) fn take(&mut self) -> Option<(LeafId, usize)> {
        let leaf = LeafId(*self.list.last()?);
        let partial = self.partial.get_mut(&leaf.0)?;
        let word = partial.used.iter().position(|&word| word != u64::MAX)?;
        let number = word * 64 + partial.used[word].trailing_ones() as usize;
        partial.used[word] |= 1 << (number % 64);
        partial.count += 1;
        if usize::from(partial.count) == self.shape.objects_per_leaf() {
            self.remove(leaf);
        }
        Some((leaf, number))
    }

    /// Whether the place is taken. The leaf is one of this pool's.
    pub(crate) fn is_taken(&self, leaf: LeafId, number: usize) -> bool {
        number < self.shape.objects_per_leaf()
            && self.partial.get(&leaf.0).is_none_or(|p| p.used[number / 64] >> (number % 64) & 1 == 1)
    }

    /// Frees a taken place.
    pub(crate) fn free(&mut self, leaf: LeafId, number: usize) -> Freed {
        if !self.partial.contains_key(&leaf.0) {
            let objects = self.shape.objects_per_leaf();
            let mut full = Bits::default();
            for n in 0..objects {
                full[n / 64] |= 1 << (n % 64);
            }
            self.insert(leaf, full, objects as u16);
        }
        let partial = self.partial.get_mut(&leaf.0).expect("it was just made");
        partial.used[number / 64] &= !(1 << (number % 64));
        partial.count -= 1;
        if partial.count > 0 {
            return Freed::Kept;
        }
        self.remove(leaf);
        Freed::LeafEmpty
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn gives_every_place_once(ops in proptest::collection::vec(any::<u16>(), 1..3000), bytes in 1usize..200_000) {
            let shape = Shape::for_bytes(bytes).unwrap();
            let mut pool = Pool::new(shape);
            let mut next_leaf = 0;
            let mut held: Vec<(LeafId, usize)> = Vec::new();
            let mut set = HashSet::new();
            for op in ops {
                if op % 3 > 0 || held.is_empty() {
                    let place = pool.take().unwrap_or_else(|| {
                        pool.add_leaf(LeafId(next_leaf));
                        next_leaf += 1;
                        pool.take().unwrap()
                    });
                    prop_assert!(place.1 < shape.objects_per_leaf() && set.insert(place));
                    held.push(place);
                } else {
                    let place = held.swap_remove(usize::from(op) % held.len());
                    prop_assert!(pool.is_taken(place.0, place.1));
                    set.remove(&place);
                    let empty = !held.iter().any(|other| other.0 == place.0);
                    prop_assert_eq!(pool.free(place.0, place.1) == Freed::LeafEmpty, empty);
                }
            }
        }
    }
}
