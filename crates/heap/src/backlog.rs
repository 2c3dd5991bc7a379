//! Objects that are freed and gone from RAM, and whose places are given back later, many of a leaf at once: to change a leaf costs about the same for
//! one page as for many.
//!
//! Until then nobody gets the places, and what was promised to them on flash stays promised.

use aquifer_base::LeafId;
use aquifer_vm::LeafPages;
use foldhash::HashMap;

use crate::pools::Kind;

/// Pages of a leaf that are given back at once.
const BATCH_PAGES: usize = 64;

/// Leaves of which the one with the most freed places is chosen.
const LOOKS: usize = 16;

/// Freed places of one leaf.
struct OfLeaf {
    kind: Kind,
    places: LeafPages,
    /// Somebody gives some of them back just now.
    is_under_way: bool,
    /// The leaf could not be read: only who frees one more of its objects tries again.
    has_failed: bool,
}

/// Freed places of all leaves.
#[derive(Default)]
pub(crate) struct Backlog {
    leaves: HashMap<u32, OfLeaf>,
    by_kind: HashMap<Kind, usize>,
    flash_bytes: u64,
}

/// Places that are given back together.
pub(crate) struct Batch {
    pub(crate) leaf: LeafId,
    pub(crate) kind: Kind,
    pub(crate) places: LeafPages,
}

impl Batch {
    /// Their pages.
    pub(crate) fn pages(&self) -> LeafPages {
        let pages = usize::from(self.kind.shape.pages);
        self.places.iter().flat_map(|number| number * pages..(number + 1) * pages).collect()
    }
}

impl Backlog {
    /// Bytes that are promised to freed objects.
    pub(crate) fn flash_bytes(&self) -> u64 {
        self.flash_bytes
    }

    /// RAM of the bookkeeping, about.
    pub(crate) fn ram_bytes(&self) -> usize {
        self.leaves.capacity() * (size_of::<(u32, OfLeaf)>() + 1)
    }

    /// Whether the object at this place was freed.
    pub(crate) fn contains(&self, leaf: LeafId, number: usize) -> bool {
        self.leaves.get(&leaf.0).is_some_and(|of| of.places.contains(number))
    }

    /// Adds the place of an object.
    pub(crate) fn add(&mut self, leaf: LeafId, kind: Kind, number: usize) {
        let of = || OfLeaf { kind, places: LeafPages::default(), is_under_way: false, has_failed: false };
        self.leaves.entry(leaf.0).or_insert_with(of).places.insert(number);
        self.flash_bytes += kind.shape.flash_bytes();
        *self.by_kind.entry(kind).or_default() += 1;
    }

    /// Begins to give the places of a leaf back if they are enough: many, or all of those that `taken` says.
    pub(crate) fn begin_due(&mut self, leaf: LeafId, taken: usize) -> Option<Batch> {
        let of = self.leaves.get(&leaf.0)?;
        let count = of.places.count();
        let is_due = count == taken || count * usize::from(of.kind.shape.pages) >= BATCH_PAGES;
        is_due.then(|| self.begin(leaf))?
    }

    /// Freed places of a kind.
    pub(crate) fn of_kind(&self, kind: Kind) -> usize {
        self.by_kind.get(&kind).copied().unwrap_or(0)
    }

    /// Begins to give the places of some leaf back, if there is one where nobody does and that can be read: of this kind, or of any.
    pub(crate) fn begin_some(&mut self, kind: Option<Kind>) -> Option<Batch> {
        let may = |of: &OfLeaf| !of.is_under_way && !of.has_failed && kind.is_none_or(|kind| of.kind == kind);
        let some = self.leaves.iter().filter(|(_, of)| may(of)).take(LOOKS);
        let leaf = *some.max_by_key(|(_, of)| of.places.count())?.0;
        self.begin(LeafId(leaf))
    }

    fn begin(&mut self, leaf: LeafId) -> Option<Batch> {
        let of = self.leaves.get_mut(&leaf.0).filter(|of| !of.is_under_way)?;
        of.is_under_way = true;
        Some(Batch { leaf, kind: of.kind, places: of.places })
    }

    /// Ends what was begun: places that were given back are freed no more; others are as before.
    pub(crate) fn end(&mut self, batch: &Batch, is_done: bool) {
        let of = self.leaves.get_mut(&batch.leaf.0).expect("it was begun");
        (of.is_under_way, of.has_failed) = (false, !is_done);
        if is_done {
            of.places.remove_all(&batch.places);
            let count = batch.places.count();
            self.flash_bytes -= count as u64 * batch.kind.shape.flash_bytes();
            let left = self.by_kind.get_mut(&batch.kind).expect("they were added");
            *left -= count;
            if *left == 0 {
                self.by_kind.remove(&batch.kind);
            }
        }
        if of.places.count() == 0 {
            self.leaves.remove(&batch.leaf.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shape;
    use aquifer_base::AllocationClass;

    fn kind(bytes: usize) -> Kind {
        Kind { shape: Shape::for_bytes(bytes).expect("it is pooled"), class: AllocationClass::DEFAULT }
    }

    #[test]
    fn places_of_a_leaf_are_given_back_together_and_others_wait() {
        let (mut backlog, kind) = (Backlog::default(), kind(128));
        for number in 0..BATCH_PAGES - 1 {
            backlog.add(LeafId(7), kind, number);
        }
        assert!(backlog.begin_due(LeafId(7), 512).is_none());
        backlog.add(LeafId(7), kind, 511);
        let batch = backlog.begin_due(LeafId(7), 512).expect("they are enough");
        assert_eq!((batch.places.count(), batch.places.contains(511)), (BATCH_PAGES, true));
        backlog.add(LeafId(7), kind, 100);
        assert!(backlog.begin_due(LeafId(7), 512).is_none(), "they are under way");
        assert!(backlog.begin_some(None).is_none());
        backlog.end(&batch, true);
        assert!(!backlog.contains(LeafId(7), 511) && backlog.contains(LeafId(7), 100));
        assert_eq!((backlog.flash_bytes(), backlog.of_kind(kind)), (kind.shape.flash_bytes(), 1));
        let rest = backlog.begin_some(None).expect("one is left");
        backlog.end(&rest, false);
        assert!(backlog.contains(LeafId(7), 100) && backlog.begin_some(None).is_none(), "it failed");
        let rest = backlog.begin_due(LeafId(7), 1).expect("the next free tries again");
        backlog.end(&rest, true);
        assert_eq!((backlog.flash_bytes(), backlog.leaves.len(), backlog.by_kind.len()), (0, 0, 0));
    }

    #[test]
    fn the_last_objects_of_a_leaf_are_given_back_at_once() {
        let (mut backlog, kind) = (Backlog::default(), kind(128));
        backlog.add(LeafId(1), kind, 0);
        assert!(backlog.begin_due(LeafId(1), 2).is_none());
        assert!(backlog.begin_some(Some(self::kind(300))).is_none(), "there are none of that kind");
        backlog.add(LeafId(1), kind, 9);
        assert_eq!(backlog.begin_due(LeafId(1), 2).map(|batch| batch.places.count()), Some(2));
    }

    #[test]
    fn large_objects_are_given_back_at_once() {
        let (mut backlog, kind) = (Backlog::default(), kind(1 << 20));
        backlog.add(LeafId(1), kind, 1);
        let batch = backlog.begin_due(LeafId(1), 2).expect("it has 256 pages");
        assert_eq!(batch.pages(), (256..512).collect());
        assert!(!batch.pages().contains(255));
    }
}
