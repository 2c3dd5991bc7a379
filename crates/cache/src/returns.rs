//! Pages that come back after they have left: with how much more RAM they would not have left.
//!
//! A page that comes back after n others have left would have stayed with n more slots, about, whatever the policy. That is looked at for one page in so
//! many, chosen by a hash, as SHARDS does for reuse distances (Waldspurger et al., FAST 2015).

use std::sync::atomic::{AtomicU64, Ordering};

use aquifer_base::PageId;

/// Sampled pages that are remembered, 8 bytes each.
const REMEMBERED: usize = 4096;
/// Classes of distances: four for each power of two.
const CLASSES: usize = 4 * 40;

/// How far pages had gone that came back, of a sample.
pub(crate) struct Returns {
    /// For a hash: the rest of the hash of the last page that has left, and the low half of how many had by then.
    left: Box<[AtomicU64]>,
    distances: Box<[AtomicU64]>,
    /// Came back, but were not remembered.
    unknown: AtomicU64,
    sampled_shift: u32,
}

/// Distances of pages that came back, and how many there were of each.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Distances {
    counts: Vec<u64>,
    unknown: u64,
}

impl Returns {
    /// Distances of up to `longest` pages.
    pub(crate) fn new(longest: usize) -> Self {
        let zeros = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        // Half full at the farthest distance.
        let sampled_shift = (longest / (REMEMBERED / 2)).max(1).ilog2();
        Self { left: zeros(REMEMBERED), distances: zeros(CLASSES), unknown: AtomicU64::new(0), sampled_shift }
    }

    /// Where a page of the sample is remembered, and as what.
    fn place(&self, page: PageId) -> Option<(&AtomicU64, u64)> {
        let hash = page.0.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let hash = (hash ^ hash >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        let is_sampled = hash.trailing_zeros() >= self.sampled_shift;
        is_sampled
            .then(|| (&self.left[hash as usize >> self.sampled_shift & (REMEMBERED - 1)], hash >> 32 << 32))
    }

    /// A page leaves, as the `evicted`th.
    pub(crate) fn note_left(&self, page: PageId, evicted: u64) {
        if let Some((place, name)) = self.place(page) {
            place.store(name | u64::from(evicted as u32), Ordering::Relaxed);
        }
    }

    /// A page comes back that is on flash, when `evicted` have left.
    pub(crate) fn note_back(&self, page: PageId, evicted: u64) {
        let Some((place, name)) = self.place(page) else { return };
        let remembered = place.load(Ordering::Relaxed);
        if remembered >> 32 == name >> 32 {
            let distance = (evicted as u32).wrapping_sub(remembered as u32);
            self.distances[class_of(distance)].fetch_add(1, Ordering::Relaxed);
        } else {
            self.unknown.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What was found so far.
    pub(crate) fn distances(&self) -> Distances {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Distances { counts: self.distances.iter().map(count).collect(), unknown: count(&self.unknown) }
    }
}

/// The class of a distance: four to each power of two.
fn class_of(distance: u32) -> usize {
    let distance = distance.max(4);
    let power = distance.ilog2();
    (power * 4 + (distance >> (power - 2) & 3)) as usize
}

/// The longest distance of a class.
fn longest(class: usize) -> u64 {
    let (power, quarter) = (class as u32 / 4, class as u64 % 4);
    ((5 + quarter) << power >> 2).saturating_sub(1)
}

impl Distances {
    /// Distances that were found since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let counts = self.counts.iter().zip(before.counts.iter().chain(std::iter::repeat(&0)));
        Self {
            counts: counts.map(|(now, before)| now - before).collect(),
            unknown: self.unknown - before.unknown,
        }
    }

    /// How many pages came back, of the sample, and how many of these from farther than `distance`.
    #[must_use]
    pub fn from_beyond(&self, distance: u64) -> (u64, u64) {
        let first = class_of(u32::try_from(distance).unwrap_or(u32::MAX)) + 1;
        let beyond = self.counts.iter().skip(first).sum::<u64>() + self.unknown;
        (self.counts.iter().sum::<u64>() + self.unknown, beyond)
    }

    /// With how many more pages in RAM at least `percent` of the pages that came back had not left; `None` if that is more than can be told, or few came back.
    #[must_use]
    pub fn slots_for(&self, percent: u64) -> Option<u64> {
        const FEW: u64 = 16;
        let all = self.counts.iter().sum::<u64>() + self.unknown;
        let mut known = 0;
        let is_enough = |known: u64| known * 100 >= all * percent;
        let class = self.counts.iter().position(|count| {
            known += count;
            is_enough(known)
        });
        class.filter(|_| all >= FEW).map(longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_quarters_of_powers_of_two() {
        for (distance, end) in
            [(0, 4), (4, 4), (5, 5), (8, 9), (9, 9), (10, 11), (100, 111), (1 << 20, (5 << 18) - 1)]
        {
            assert_eq!(longest(class_of(distance)), end, "{distance}");
        }
        assert!(class_of(u32::MAX) < CLASSES);
    }

    /// Pages that are walked through again and again come back after all others.
    #[test]
    fn the_distance_of_a_walk_is_what_does_not_fit() {
        let returns = Returns::new(16_000);
        let mut evicted = 0;
        for lap in 0..4 {
            for page in (0..3000).map(PageId) {
                if lap > 0 {
                    returns.note_back(page, evicted);
                }
                evicted += 1;
                returns.note_left(PageId((page.0 + 2000) % 3000), evicted);
            }
        }
        let slots = returns.distances().since(&Distances::default()).slots_for(75);
        // With 1000 slots, each comes back when 2000 others have left since.
        assert!(slots.is_some_and(|slots| (1800..2600).contains(&slots)), "{slots:?}");
        let none = returns.distances().since(&returns.distances());
        assert_eq!(none.slots_for(75), None);
    }

    #[test]
    fn those_from_beyond_are_told_apart() {
        let returns = Returns::new(REMEMBERED);
        (0..100).for_each(|page| returns.note_left(PageId(page), 1000 + page));
        // Each of the even ones comes back when 20 others have left, of the odd ones 200.
        (0..100).for_each(|page| returns.note_back(PageId(page), 1000 + page + 20 + page % 2 * 180));
        let distances = returns.distances();
        let (all, beyond) = distances.from_beyond(100);
        assert!((40..100).contains(&all) && beyond.abs_diff(all / 2) < 20, "{beyond} of {all}");
        assert_eq!(distances.from_beyond(1000), (all, 0));
        assert_eq!(distances.from_beyond(0).1, all);
        assert_eq!(distances.from_beyond(u64::MAX), (all, 0));
    }

    #[test]
    fn what_is_too_far_is_not_told() {
        let returns = Returns::new(16_000);
        (0..100_000).for_each(|page| returns.note_back(PageId(page), 0));
        assert_eq!(returns.distances().slots_for(75), None);
    }
}
