//! What is compared on the same load: who chooses donors, and how slabs to be taken back are chosen.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use aquifer_remote::control::Offer;
use serde::Serialize;

use crate::machine::Machine;

/// How the donor of a slab is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placer {
    /// Nobody lends: what does not fit goes to disk.
    Nobody,
    /// A random donor of the list.
    OneChoice,
    /// The one of two random donors of the list that has the larger free share of its slabs.
    TwoChoices,
    /// The one of two random donors of the list that has more free memory, by the engine's [`Offer::is_better_than`].
    TwoMostFree,
    /// As [`Placer::TwoChoices`] among donors that lend nothing to the borrower yet, then among the others.
    TwoNew,
    /// The paper's, and the engine's: among donors that lend nothing to the borrower yet, then among the others, the one of two that has more free memory.
    TwoNewMostFree,
    /// A central one that knows everything: of all donors that have a free slab, the one whose memory is in use least.
    Greedy,
}

impl Placer {
    /// All that can be named on a command line.
    pub const NAMED: [Placer; 6] = [
        Placer::OneChoice,
        Placer::TwoChoices,
        Placer::TwoMostFree,
        Placer::TwoNew,
        Placer::TwoNewMostFree,
        Placer::Greedy,
    ];

    /// A word for it, as command lines and pictures have it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Placer::Nobody => "none",
            Placer::OneChoice => "one",
            Placer::TwoChoices => "two",
            Placer::TwoMostFree => "free",
            Placer::TwoNew => "new",
            Placer::TwoNewMostFree => "paper",
            Placer::Greedy => "greedy",
        }
    }

    /// Whether donors that lend nothing to the borrower are asked before the others.
    #[must_use]
    pub fn prefers_new(self) -> bool {
        matches!(self, Placer::TwoNew | Placer::TwoNewMostFree)
    }

    /// Whether a slab is taken by the first of two offers.
    #[must_use]
    pub fn prefers(self, offer: &Offer, other: &Offer) -> bool {
        match self {
            Placer::TwoMostFree | Placer::TwoNewMostFree => offer.is_better_than(other),
            _ => has_larger_share(offer, other),
        }
    }
}

/// By the free share of all slabs, then by what is free.
fn has_larger_share(offer: &Offer, other: &Offer) -> bool {
    let share = |offer: &Offer, slabs: u64| u128::from(offer.free_slabs) * u128::from(slabs);
    let (one, two) = (share(offer, other.slabs), share(other, offer.slabs));
    (one, offer.free_slabs) > (two, other.free_slabs)
}

impl fmt::Display for Placer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Placer::Nobody => "no remote memory",
            Placer::OneChoice => "one choice",
            Placer::TwoChoices => "two choices",
            Placer::TwoMostFree => "two choices, most free",
            Placer::TwoNew => "two choices, new first",
            Placer::TwoNewMostFree => "two choices, new first, most free",
            Placer::Greedy => "central greedy",
        })
    }
}

impl FromStr for Placer {
    type Err = String;

    fn from_str(text: &str) -> Result<Placer, String> {
        let found = Placer::NAMED.into_iter().find(|placer| placer.word() == text);
        found.ok_or_else(|| {
            let words = Placer::NAMED.map(Placer::word).join(", ");
            format!("'{text}' is no placer; these are: {words}")
        })
    }
}

/// E and E' of the paper.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Eviction {
    /// Slabs taken back at once.
    pub evicted: usize,
    /// Further slabs whose activity is asked for.
    pub asked_more: usize,
}

impl Default for Eviction {
    /// As `aquifer donate` has it.
    fn default() -> Self {
        Eviction { evicted: 1, asked_more: 4 }
    }
}

impl fmt::Display for Eviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.evicted, self.asked_more)
    }
}

impl FromStr for Eviction {
    type Err = String;

    fn from_str(text: &str) -> Result<Eviction, String> {
        let parsed = text.split_once('+').and_then(|(evicted, more)| {
            let eviction = Eviction { evicted: evicted.parse().ok()?, asked_more: more.parse().ok()? };
            (1..=1000).contains(&eviction.evicted).then_some(eviction).filter(|e| e.asked_more <= 1000)
        });
        parsed.ok_or_else(|| format!("'{text}' is not E+E', as 1+4 is: E from 1 and both up to 1000"))
    }
}

/// One side of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Contender {
    /// How donors are chosen.
    pub placer: Placer,
    /// How slabs are taken back.
    pub eviction: Eviction,
}

impl Contender {
    /// No remote memory; each placer with the first eviction; two choices with the other evictions.
    #[must_use]
    pub fn all(placers: &[Placer], evictions: &[Eviction]) -> Vec<Contender> {
        let first = evictions.first().copied().unwrap_or_default();
        let mut all = vec![Contender { placer: Placer::Nobody, eviction: first }];
        all.extend(placers.iter().map(|placer| Contender { placer: *placer, eviction: first }));
        let others = evictions.iter().skip(1);
        all.extend(others.map(|eviction| Contender { placer: Placer::TwoChoices, eviction: *eviction }));
        all
    }
}

/// What the central placer knows: every donor that has a free slab, by the used share of its memory.
#[derive(Debug, Default)]
pub struct Index {
    by_use: BTreeSet<(u64, u32)>,
    keys: Vec<Option<u64>>,
}

impl Index {
    /// Takes notice of a machine's state.
    pub fn note(&mut self, nth: u32, machine: &Machine, slab_bytes: u64) {
        let at = nth as usize;
        if self.keys.len() <= at {
            self.keys.resize(at + 1, None);
        }
        let key =
            (machine.is_up && machine.lending.offer().free_slabs > 0).then(|| used(machine, slab_bytes));
        if key == self.keys[at] {
            return;
        }
        if let Some(old) = self.keys[at] {
            self.by_use.remove(&(old, nth));
        }
        if let Some(new) = key {
            self.by_use.insert((new, nth));
        }
        self.keys[at] = key;
    }

    /// The donor that is used least, but for one.
    #[must_use]
    pub fn least_used(&self, but: u32) -> Option<u32> {
        self.by_use.iter().map(|(_, nth)| *nth).find(|nth| *nth != but)
    }
}

/// In parts of 2^32, whole slabs counted.
fn used(machine: &Machine, slab_bytes: u64) -> u64 {
    let used = u128::from(machine.own_bytes + machine.lending.lent() * slab_bytes);
    ((used << 32) / u128::from(machine.capacity_bytes.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evictions_are_read_as_they_are_shown() {
        let eviction: Eviction = "4+12".parse().expect("E+E'");
        assert_eq!(eviction.to_string(), "4+12");
        for wrong in ["", "4", "0+1", "1+", "1+2+3", "-1+2", "1+1001"] {
            assert!(wrong.parse::<Eviction>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_free_share_and_free_slabs_choose_differently() {
        let (small, large) = (Offer { free_slabs: 4, slabs: 4 }, Offer { free_slabs: 50, slabs: 54 });
        for placer in [Placer::TwoChoices, Placer::TwoNew] {
            assert!(placer.prefers(&small, &large) && !placer.prefers(&large, &small), "{placer}");
        }
        for placer in [Placer::TwoMostFree, Placer::TwoNewMostFree] {
            assert!(placer.prefers(&large, &small) && !placer.prefers(&small, &large), "{placer}");
        }
    }

    #[test]
    fn placers_are_read_by_their_words() {
        assert_eq!("paper".parse(), Ok(Placer::TwoNewMostFree));
        assert!(Placer::NAMED.iter().all(|placer| placer.word().parse() == Ok(*placer)));
        assert!("none".parse::<Placer>().is_err_and(|what| what.contains("one, two, free")));
    }

    #[test]
    fn everything_is_compared_with_nothing() {
        let evictions = [Eviction::default(), Eviction { evicted: 1, asked_more: 0 }];
        let all = Contender::all(&[Placer::TwoChoices, Placer::Greedy], &evictions);
        let names: Vec<_> = all.iter().map(|c| format!("{} {}", c.placer, c.eviction)).collect();
        assert_eq!(
            names,
            ["no remote memory 1+4", "two choices 1+4", "central greedy 1+4", "two choices 1+0"]
        );
    }
}
