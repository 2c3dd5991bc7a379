//! Groups of up to 512 places for objects of one kind: a leaf, or a run of pages.

use foldhash::HashMap;

type Bits = [u64; 8];

/// A group some of whose places are free. Full groups cost no bitmap.
struct Partial {
    used: Box<Bits>,
    count: u16,
    /// Position in the pool's list of partial groups.
    listed: u32,
}

/// The groups of one kind.
pub(crate) struct Pool {
    /// Places in each group.
    places: usize,
    /// Groups, full ones included.
    groups: u32,
    partial: HashMap<u32, Partial>,
    list: Vec<u32>,
}

/// What freeing a place left behind.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Freed {
    /// The group holds other objects.
    Kept,
    /// The group is empty and left the pool.
    GroupEmpty,
}

impl Pool {
    pub(crate) fn new(places: usize) -> Self {
        assert!(places <= size_of::<Bits>() * 8);
        Self { places, groups: 0, partial: HashMap::default(), list: Vec::new() }
    }

    /// RAM of the bitmaps.
    pub(crate) fn ram_bytes(&self) -> usize {
        self.partial.capacity() * (size_of::<Partial>() + 5)
            + self.partial.len() * size_of::<Bits>()
            + self.list.capacity() * 4
    }

    fn insert(&mut self, group: u32, used: Bits, count: u16) {
        let listed = self.list.len() as u32;
        self.list.push(group);
        self.partial.insert(group, Partial { used: Box::new(used), count, listed });
    }

    fn remove(&mut self, group: u32) {
        let Some(partial) = self.partial.remove(&group) else { return };
        self.list.swap_remove(partial.listed as usize);
        if let Some(&moved) = self.list.get(partial.listed as usize) {
            self.partial.get_mut(&moved).expect("a listed group is partial").listed = partial.listed;
        }
    }

    /// Groups, full ones included.
    pub(crate) fn groups(&self) -> u32 {
        self.groups
    }

    /// Adds an empty group.
    pub(crate) fn add_group(&mut self, group: u32) {
        self.groups += 1;
        self.insert(group, Bits::default(), 0);
    }

    /// Whether there is a free place.
    pub(crate) fn has_room(&self) -> bool {
        !self.list.is_empty()
    }

    /// Takes a free place, as its group and number there; `None` if a group must be added.
    pub(crate) fn take(&mut self) -> Option<(u32, usize)> {
        let group = *self.list.last()?;
        let partial = self.partial.get_mut(&group)?;
        let word = partial.used.iter().position(|&word| word != u64::MAX)?;
        let number = word * 64 + partial.used[word].trailing_ones() as usize;
        partial.used[word] |= 1 << (number % 64);
        partial.count += 1;
        if usize::from(partial.count) == self.places {
            self.remove(group);
        }
        Some((group, number))
    }

    /// Whether the place is taken. The group is one of this pool's.
    pub(crate) fn is_taken(&self, group: u32, number: usize) -> bool {
        number < self.places
            && self.partial.get(&group).is_none_or(|p| p.used[number / 64] >> (number % 64) & 1 == 1)
    }

    /// How many places of a group are taken. The group is one of this pool's.
    pub(crate) fn taken(&self, group: u32) -> usize {
        self.partial.get(&group).map_or(self.places, |partial| usize::from(partial.count))
    }

    /// Frees a taken place.
    pub(crate) fn free(&mut self, group: u32, number: usize) -> Freed {
        if !self.partial.contains_key(&group) {
            let mut full = Bits::default();
            for n in 0..self.places {
                full[n / 64] |= 1 << (n % 64);
            }
            self.insert(group, full, self.places as u16);
        }
        let partial = self.partial.get_mut(&group).expect("it was just made");
        partial.used[number / 64] &= !(1 << (number % 64));
        partial.count -= 1;
        if partial.count > 0 {
            return Freed::Kept;
        }
        self.remove(group);
        self.groups -= 1;
        Freed::GroupEmpty
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn gives_every_place_once(ops in proptest::collection::vec(any::<u16>(), 1..3000), places in 1usize..=512) {
            let mut pool = Pool::new(places);
            let mut next_group = 0;
            let mut held: Vec<(u32, usize)> = Vec::new();
            let mut set = HashSet::new();
            for op in ops {
                if op % 3 > 0 || held.is_empty() {
                    let place = pool.take().unwrap_or_else(|| {
                        pool.add_group(next_group);
                        next_group += 1;
                        pool.take().unwrap()
                    });
                    prop_assert!(place.1 < places && set.insert(place));
                    held.push(place);
                } else {
                    let place = held.swap_remove(usize::from(op) % held.len());
                    prop_assert!(pool.is_taken(place.0, place.1));
                    set.remove(&place);
                    let empty = !held.iter().any(|other| other.0 == place.0);
                    prop_assert_eq!(pool.free(place.0, place.1) == Freed::GroupEmpty, empty);
                }
            }
        }
    }
}
