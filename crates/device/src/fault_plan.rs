//! Which calls of a faulty device go wrong, and how.

use aquifer_base::random::mix;

use crate::error::Operation;

/// How a call goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// Any operation: nothing happens and EIO is reported.
    Eio,
    /// A read that fills the first half of the memory, in whole blocks, and reports a short transfer.
    ShortRead,
    /// A write that stores its first blocks and reports EIO.
    TornWrite {
        /// Blocks stored; all of them when the write is no longer than this.
        keep_blocks: usize,
    },
    /// A read that returns, or a write that stores, one wrong bit and reports success.
    BitFlip {
        /// The bit, counted from the start of the transfer, modulo its length.
        bit: u64,
    },
    /// A write that stores nothing and reports a full device.
    NoSpace,
    /// A write that stores nothing and reports success.
    LostWrite,
    /// A read that returns of each block what it held before it was written last, and reports success: the write was lost in a cache after it
    /// was read back.
    StaleRead,
}

impl FaultKind {
    fn suits(self, operation: Operation) -> bool {
        match self {
            FaultKind::Eio => true,
            FaultKind::ShortRead | FaultKind::StaleRead => operation == Operation::Read,
            FaultKind::BitFlip { .. } => matches!(operation, Operation::Read | Operation::Write),
            FaultKind::TornWrite { .. } | FaultKind::NoSpace | FaultKind::LostWrite => {
                operation == Operation::Write
            }
        }
    }
}

/// A list of faults, decided by nothing but the number of the call and a seed: the same calls meet the same
/// faults in every run, whichever thread makes them. Where several match a call, the first in the list
/// happens.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    seed: u64,
    rules: Vec<Rule>,
}

#[derive(Clone, Copy, Debug)]
struct Rule {
    operation: Operation,
    when: When,
    kind: FaultKind,
}

/// Calls are counted from 1.
#[derive(Clone, Copy, Debug)]
enum When {
    Nth(u64),
    From(u64),
    /// The share of calls, in units of 2^-64.
    Share(u64),
}

impl FaultPlan {
    /// No faults yet; `seed` decides for the faults that are added by probability.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        FaultPlan { seed, rules: Vec::new() }
    }

    /// Adds a fault at the `nth` call of `operation`, counted from 1.
    ///
    /// # Panics
    /// When `nth` is 0, or the operation cannot go wrong in this way.
    #[must_use]
    pub fn on_nth(self, operation: Operation, nth: u64, kind: FaultKind) -> Self {
        assert!(nth > 0, "calls are counted from 1");
        self.with(operation, When::Nth(nth), kind)
    }

    /// Adds a fault at the `nth` call of `operation` and all later ones: a device that dies.
    ///
    /// # Panics
    /// When `nth` is 0, or the operation cannot go wrong in this way.
    #[must_use]
    pub fn from_nth(self, operation: Operation, nth: u64, kind: FaultKind) -> Self {
        assert!(nth > 0, "calls are counted from 1");
        self.with(operation, When::From(nth), kind)
    }

    /// Adds a fault at each call of `operation` with this probability.
    ///
    /// # Panics
    /// When the probability is not between 0 and 1, or the operation cannot go wrong in this way.
    #[must_use]
    pub fn with_probability(self, operation: Operation, probability: f64, kind: FaultKind) -> Self {
        assert!((0.0..=1.0).contains(&probability), "{probability} is not a probability");
        // The cast saturates, so that probability 1 misses one call in 2^64.
        self.with(operation, When::Share((probability * 2f64.powi(64)) as u64), kind)
    }

    fn with(mut self, operation: Operation, when: When, kind: FaultKind) -> Self {
        assert!(kind.suits(operation), "a {operation} cannot go wrong as {kind:?}");
        self.rules.push(Rule { operation, when, kind });
        self
    }

    /// Whether a read may return what was there before.
    pub(crate) fn has_stale_reads(&self) -> bool {
        self.rules.iter().any(|rule| rule.kind == FaultKind::StaleRead)
    }

    /// What happens to call number `call` of `operation`.
    pub(crate) fn fault(&self, operation: Operation, call: u64) -> Option<FaultKind> {
        let happens = |index: usize, rule: &Rule| match rule.when {
            When::Nth(nth) => call == nth,
            When::From(nth) => call >= nth,
            When::Share(share) => self.draw(index as u64, call) < share,
        };
        let mut rules = self.rules.iter().enumerate().filter(|(_, rule)| rule.operation == operation);
        rules.find(|&(index, rule)| happens(index, rule)).map(|(_, rule)| rule.kind)
    }

    /// A number that looks random but depends only on seed, rule and call.
    fn draw(&self, rule: u64, call: u64) -> u64 {
        mix(mix(mix(self.seed) ^ rule) ^ call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nth_from_and_the_order_of_the_list() {
        let plan = FaultPlan::new(0).on_nth(Operation::Write, 2, FaultKind::LostWrite).from_nth(
            Operation::Write,
            2,
            FaultKind::NoSpace,
        );
        assert_eq!(plan.fault(Operation::Write, 1), None);
        assert_eq!(plan.fault(Operation::Write, 2), Some(FaultKind::LostWrite));
        assert_eq!(plan.fault(Operation::Write, 3), Some(FaultKind::NoSpace));
        assert_eq!(plan.fault(Operation::Read, 2), None);
    }

    #[test]
    fn probability_follows_the_seed_and_nothing_else() {
        let hits = |seed| -> Vec<u64> {
            let plan = FaultPlan::new(seed).with_probability(Operation::Read, 0.25, FaultKind::Eio);
            (1..=4000).filter(|&call| plan.fault(Operation::Read, call).is_some()).collect()
        };
        assert_eq!(hits(1), hits(1));
        assert_ne!(hits(1), hits(2));
        assert!((900..=1100).contains(&hits(1).len()), "{} of 4000", hits(1).len());
    }

    #[test]
    fn certain_and_impossible_are_exact() {
        let always = FaultPlan::new(3).with_probability(Operation::Sync, 1.0, FaultKind::Eio);
        let never = FaultPlan::new(3).with_probability(Operation::Sync, 0.0, FaultKind::Eio);
        assert!((1..=1000).all(|call| always.fault(Operation::Sync, call).is_some()));
        assert!((1..=1000).all(|call| never.fault(Operation::Sync, call).is_none()));
    }

    #[test]
    #[should_panic(expected = "a sync cannot go wrong")]
    fn refuses_what_makes_no_sense() {
        let _ = FaultPlan::new(0).on_nth(Operation::Sync, 1, FaultKind::LostWrite);
    }
}
