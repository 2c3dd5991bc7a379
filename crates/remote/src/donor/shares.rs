//! How slabs are divided when there are too few: by weight, so that one program cannot starve another. While there are enough, everybody gets what it asks for.

use std::collections::BTreeMap;
use std::time::Duration;

use super::lending::{BorrowerId, Moment};

/// The largest weight; larger ones count as this.
pub const WEIGHT_MAX: u32 = 1000;
/// A borrower that did not ask for so long does not wait any more.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whose borrowers count together.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Account {
    /// Those of one host of a cluster, whatever they call themselves.
    Host(String),
    /// A borrower for itself: nothing proves whose it is.
    Own(BorrowerId),
}

/// What a borrower may claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// With whom it counts together.
    pub account: Account,
    /// How slabs are divided among accounts.
    pub account_weight: u32,
    /// How those of an account are divided among its borrowers.
    pub weight: u32,
}

impl Claim {
    /// Of a borrower for itself.
    #[must_use]
    pub fn own(borrower: BorrowerId, weight: u32) -> Claim {
        Claim { account: Account::Own(borrower), account_weight: weight, weight: 1 }
    }
}

/// Weights of borrowers, and who of them waits for slabs.
#[derive(Debug, Default)]
pub struct Shares {
    claims: BTreeMap<BorrowerId, Claim>,
    waiting: BTreeMap<BorrowerId, Moment>,
}

impl Shares {
    /// Notes a borrower. A borrower that was never noted counts for itself, with weight 1.
    pub fn come(&mut self, borrower: BorrowerId, claim: Claim) {
        self.claims.insert(borrower, claim);
    }

    fn claim(&self, borrower: BorrowerId) -> Claim {
        self.claims.get(&borrower).cloned().unwrap_or_else(|| Claim::own(borrower, 1))
    }

    /// Slabs that are held by those who count together with a borrower, itself among them.
    pub fn held_together(&self, borrower: BorrowerId, held: &BTreeMap<BorrowerId, u64>) -> u64 {
        let account = self.claim(borrower).account;
        held.iter().filter(|(who, _)| self.claim(**who).account == account).map(|(_, slabs)| slabs).sum()
    }

    /// It is gone.
    pub fn leave(&mut self, borrower: BorrowerId) {
        self.claims.remove(&borrower);
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

    /// Divides `slabs` among the accounts whose borrowers have slabs or wait for some, by their weights, at least one for each; and what an account gets among its
    /// borrowers by theirs.
    pub fn divide(
        &self,
        slabs: u64,
        has: &BTreeMap<BorrowerId, u64>,
        now: Moment,
    ) -> BTreeMap<BorrowerId, u64> {
        let mut accounts: BTreeMap<Account, BTreeMap<BorrowerId, Claim>> = BTreeMap::new();
        for borrower in has.keys().copied().chain(self.waiting(now)) {
            let claim = self.claim(borrower);
            accounts.entry(claim.account.clone()).or_default().insert(borrower, claim);
        }
        let weight = |weight: u32| u64::from(weight.clamp(1, WEIGHT_MAX));
        let of_account = |borrowers: &BTreeMap<_, Claim>| {
            borrowers.values().map(|claim| weight(claim.account_weight)).max().unwrap_or(1)
        };
        let sum: u64 = accounts.values().map(of_account).sum();
        let mut divided = BTreeMap::new();
        for borrowers in accounts.values() {
            let right = (slabs * of_account(borrowers) / sum).max(1);
            let within: u64 = borrowers.values().map(|claim| weight(claim.weight)).sum();
            let shares = borrowers.iter().map(|(who, claim)| (*who, right * weight(claim.weight) / within));
            divided.extend(shares.clone());
            // What is left over goes to those who came first.
            let left = right - shares.map(|(_, share)| share).sum::<u64>();
            for borrower in borrowers.keys().take(left as usize) {
                *divided.entry(*borrower).or_default() += 1;
            }
        }
        divided
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

    fn come(shares: &mut Shares, nth: u64, weight: u32) {
        shares.come(BorrowerId(nth), Claim::own(BorrowerId(nth), weight));
    }

    fn come_from(shares: &mut Shares, nth: u64, host: &str, weight: u32) {
        let account = Account::Host(host.into());
        shares.come(BorrowerId(nth), Claim { account, account_weight: 100, weight });
    }

    #[test]
    fn a_host_has_no_more_for_many_connections() {
        let mut shares = Shares::default();
        (1..=9).for_each(|nth| come_from(&mut shares, nth, "greedy", 1000));
        come_from(&mut shares, 10, "modest", 1);
        let has = (1..=10).map(|nth| (BorrowerId(nth), 1)).collect();
        let divided = shares.divide(20, &has, NOW);
        assert_eq!(divided[&BorrowerId(10)], 10);
        assert_eq!(divided.values().sum::<u64>(), 20);
        assert_eq!(shares.held_together(BorrowerId(3), &has), 9);
        let divided = shares.divide(4, &has, NOW);
        assert_eq!((divided[&BorrowerId(1)], divided[&BorrowerId(9)], divided[&BorrowerId(10)]), (1, 0, 2));
    }

    #[test]
    fn programs_of_a_host_divide_what_is_its() {
        let mut shares = Shares::default();
        come_from(&mut shares, 1, "host", 300);
        come_from(&mut shares, 2, "host", 100);
        come_from(&mut shares, 3, "other", 100);
        let has = (1..=3).map(|nth| (BorrowerId(nth), 1)).collect();
        let divided = shares.divide(16, &has, NOW);
        assert_eq!(divided, BTreeMap::from([(BorrowerId(1), 6), (BorrowerId(2), 2), (BorrowerId(3), 8)]));
    }

    #[test]
    fn who_has_none_and_does_not_wait_takes_nothing_from_others() {
        let mut shares = Shares::default();
        (1..=3).for_each(|nth| come(&mut shares, nth, 100));
        let has = BTreeMap::from([(BorrowerId(1), 8)]);
        assert_eq!(shares.divide(8, &has, NOW), BTreeMap::from([(BorrowerId(1), 8)]));
        shares.wait(BorrowerId(2), NOW);
        assert_eq!(shares.divide(8, &has, NOW), BTreeMap::from([(BorrowerId(1), 4), (BorrowerId(2), 4)]));
        assert_eq!(shares.divide(8, &has, NOW + PATIENCE).len(), 1);
    }

    #[test]
    fn weights_count() {
        let mut shares = Shares::default();
        come(&mut shares, 1, 300);
        come(&mut shares, 2, 100);
        come(&mut shares, 3, u32::MAX);
        let has = BTreeMap::from([(BorrowerId(1), 1), (BorrowerId(2), 1)]);
        assert_eq!(shares.divide(8, &has, NOW), BTreeMap::from([(BorrowerId(1), 6), (BorrowerId(2), 2)]));
        shares.wait(BorrowerId(3), NOW);
        let divided = shares.divide(14, &has, NOW);
        assert_eq!(divided[&BorrowerId(3)], 10, "no weight is above the largest");
        assert_eq!(divided[&BorrowerId(2)], 1, "everybody has one");
    }
}
