//! How slabs are divided when there are too few: by weight, so that one program cannot starve another. While there are enough, everybody gets what it asks for.

use std::collections::BTreeMap;
use std::time::Duration;

use super::lending::{BorrowerId, Moment};

/// The largest weight; larger ones count as this.
pub const WEIGHT_MAX: u32 = 1000;
/// A borrower that did not ask for so long does not wait any more.
const PATIENCE: Duration = Duration::from_secs(1);

/// Weights of borrowers, and who of them waits for slabs.
#[derive(Debug, Default)]
pub struct Shares {
    weights: BTreeMap<BorrowerId, u32>,
    waiting: BTreeMap<BorrowerId, Moment>,
}

impl Shares {
    /// Notes a borrower and its weight. A borrower that was never noted has weight 1.
    pub fn come(&mut self, borrower: BorrowerId, weight: u32) {
        self.weights.insert(borrower, weight.clamp(1, WEIGHT_MAX));
    }

    /// It is gone.
    pub fn leave(&mut self, borrower: BorrowerId) {
        self.weights.remove(&borrower);
        self.waiting.remove(&borrower);
    }

    /// There was no slab for it.
    pub fn wait(&mut self, borrower: BorrowerId, now: Moment) {
        self.waiting.insert(borrower, now);
    }

    /// It got one.
    pub fn served(&mut self, borrower: BorrowerId) {
        self.waiting.remove(&borrower);
    }

    /// Divides `slabs` among the borrowers that have slabs or wait for some, by their weights.
    pub fn divide(
        &self,
        slabs: u64,
        has: &BTreeMap<BorrowerId, u64>,
        now: Moment,
    ) -> BTreeMap<BorrowerId, u64> {
        let mut all: Vec<_> = has.keys().copied().chain(self.waiting(now)).collect();
        all.sort_unstable();
        all.dedup();
        let weight = |borrower: &BorrowerId| u64::from(self.weights.get(borrower).copied().unwrap_or(1));
        let sum: u64 = all.iter().map(weight).sum();
        all.into_iter().map(|borrower| (borrower, (slabs * weight(&borrower) / sum).max(1))).collect()
    }

    /// The borrowers that wait for a slab.
    pub fn waiting(&self, now: Moment) -> impl Iterator<Item = BorrowerId> {
        let is_fresh = move |since: Moment| now.saturating_sub(since) < PATIENCE;
        self.waiting.iter().filter(move |(_, since)| is_fresh(**since)).map(|(borrower, _)| *borrower)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment::from_secs(100);

    #[test]
    fn who_has_none_and_does_not_wait_takes_nothing_from_others() {
        let mut shares = Shares::default();
        (1..=3).for_each(|nth| shares.come(BorrowerId(nth), 100));
        let has = BTreeMap::from([(BorrowerId(1), 8)]);
        assert_eq!(shares.divide(8, &has, NOW), BTreeMap::from([(BorrowerId(1), 8)]));
        shares.wait(BorrowerId(2), NOW);
        assert_eq!(shares.divide(8, &has, NOW), BTreeMap::from([(BorrowerId(1), 4), (BorrowerId(2), 4)]));
        assert_eq!(shares.divide(8, &has, NOW + PATIENCE).len(), 1);
    }

    #[test]
    fn weights_count() {
        let mut shares = Shares::default();
        shares.come(BorrowerId(1), 300);
        shares.come(BorrowerId(2), 100);
        shares.come(BorrowerId(3), u32::MAX);
        let has = BTreeMap::from([(BorrowerId(1), 1), (BorrowerId(2), 1)]);
        assert_eq!(shares.divide(8, &has, NOW), BTreeMap::from([(BorrowerId(1), 6), (BorrowerId(2), 2)]));
        shares.wait(BorrowerId(3), NOW);
        let divided = shares.divide(14, &has, NOW);
        assert_eq!(divided[&BorrowerId(3)], 10, "no weight is above the largest");
        assert_eq!(divided[&BorrowerId(2)], 1, "everybody has one");
    }
}
