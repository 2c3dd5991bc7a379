//! Containers that come, grow, vary and end. The load is a function of the seed alone: which container has which size at which moment does not depend on who
//! lends to whom.

use aquifer_remote::donor::lending::Moment;

use aquifer_base::random::Random;

use crate::distribution::Distribution;
use crate::kept::{Kept, Measured};

/// Bytes in a GiB.
pub const GIB: f64 = (1u64 << 30) as f64;
const DAY_S: f64 = 86_400.0;
/// Steps of the golden ratio visit the unit interval evenly, so that even few places get kinds in proportion to the weights.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// Containers that are alike.
#[derive(Clone, PartialEq, Debug)]
pub struct Kind {
    /// For people.
    pub name: &'static str,
    /// Its share of the places.
    pub weight: f64,
    /// In GiB; limit and working set are shares of it.
    pub size_gib: Distribution,
    /// RAM that it may use on its machine, and that the scheduler reserves, as a share of its size.
    pub limit: Distribution,
    /// What it uses once it has grown, as a share of its size.
    pub working_set: Distribution,
    /// Seconds until it has grown.
    pub grows_s: Distribution,
    /// Seconds that it lives.
    pub lifetime_s: Distribution,
    /// Seconds until its place has another.
    pub pause_s: Distribution,
    /// By what share its working set rises and falls in a day.
    pub diurnal: f64,
    /// Seconds between two changes of its working set.
    pub changes_s: Distribution,
    /// The factor of a change.
    pub change: Distribution,
    /// Pages that it reads or writes in each GiB that is not on its machine, in a second.
    pub uses_per_gib_s: Distribution,
    /// Of what is on its machine, what keeps its place in slabs.
    pub kept: Kept,
    /// What a program of this kind was seen to keep.
    pub measured: Option<Measured>,
}

/// How many places for containers there are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Population {
    /// This number of places.
    Places(usize),
    /// As many as reserve this share of all memory.
    Reserving(f64),
}

/// When the first containers start.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Starts {
    /// At a random moment within this many seconds.
    Within(f64),
    /// Before the beginning: they have some of their lifetime behind them.
    Before,
}

/// A load. Each place has one container after the other.
#[derive(Clone, PartialEq, Debug)]
pub struct Load {
    /// Kinds of containers.
    pub kinds: Vec<Kind>,
    /// How many.
    pub population: Population,
    /// From when.
    pub starts: Starts,
}

/// A container as it will be.
#[derive(Clone, PartialEq, Debug)]
pub struct Spec {
    /// Of [`Load::kinds`].
    pub kind: usize,
    /// RAM that it may use on its machine.
    pub limit_bytes: u64,
    /// Seconds that it lives from its start in the simulation.
    pub lifetime_s: f64,
    /// Seconds from its end to the next start at its place.
    pub pause_s: f64,
    /// Seconds that were over when it started in the simulation.
    pub age_first_s: f64,
    /// Pages used in each GiB elsewhere, in a second.
    pub uses_per_gib_s: f64,
    working_set_bytes: f64,
    grows_s: f64,
    changes_s: f64,
    /// Part of a day by which its day differs from others'.
    phase: f64,
    seed: u64,
}

impl Load {
    /// The container of `place` after `generation` others.
    #[must_use]
    pub fn spec(&self, seed: u64, place: u32, generation: u32) -> Spec {
        let mut rng = Random::of(&[seed, u64::from(place), u64::from(generation)]);
        let at = self.kind_at(self.drawn(place));
        let kind = &self.kinds[at];
        let size = kind.size_gib.draw(&mut rng) * GIB;
        let limit_bytes = (size * kind.limit.draw(&mut rng)) as u64;
        let working_set_bytes = size * kind.working_set.draw(&mut rng);
        let is_met = generation == 0 && self.starts == Starts::Before;
        let (lifetime_s, age_first_s) = if is_met {
            let all = kind.lifetime_s.met_at_random().draw(&mut rng);
            let age = all * rng.unit();
            (all - age, age)
        } else {
            (kind.lifetime_s.draw(&mut rng), 0.0)
        };
        Spec {
            kind: at,
            limit_bytes,
            lifetime_s,
            pause_s: kind.pause_s.draw(&mut rng),
            age_first_s,
            uses_per_gib_s: kind.uses_per_gib_s.draw(&mut rng),
            working_set_bytes,
            grows_s: kind.grows_s.draw(&mut rng),
            changes_s: kind.changes_s.draw(&mut rng).max(1.0),
            phase: 0.25 * (rng.unit() - 0.5),
            seed: rng.next(),
        }
    }

    /// When the first container of a place starts, in seconds.
    #[must_use]
    pub fn start_s(&self, seed: u64, place: u32) -> f64 {
        match self.starts {
            Starts::Within(seconds) => Random::of(&[seed, u64::from(place)]).unit() * seconds,
            Starts::Before => 0.0,
        }
    }

    /// The number of places on machines with `memory_bytes` in total.
    #[must_use]
    pub fn places(&self, seed: u64, memory_bytes: u64) -> u32 {
        match self.population {
            Population::Places(places) => places as u32,
            Population::Reserving(share) => {
                let (mut places, mut reserved) = (0, 0);
                while (reserved as f64) < share * memory_bytes as f64 {
                    reserved += self.spec(seed, places, 0).limit_bytes;
                    places += 1;
                }
                places
            }
        }
    }

    /// Where in the sequence of kinds a place lies, from 0 to 1.
    fn drawn(&self, place: u32) -> f64 {
        match self.population {
            // As many of each kind as its weight says, to a whole container.
            Population::Places(places) => (f64::from(place) + 0.5) / places as f64 % 1.0,
            Population::Reserving(_) => (f64::from(place + 1) * GOLDEN).fract(),
        }
    }

    fn kind_at(&self, drawn: f64) -> usize {
        let sum: f64 = self.kinds.iter().map(|kind| kind.weight).sum();
        let mut left = drawn * sum;
        let found = self.kinds.iter().position(|kind| {
            left -= kind.weight;
            left < 0.0
        });
        found.unwrap_or(self.kinds.len() - 1)
    }
}

impl Spec {
    /// Bytes that it uses at `now`, `age_s` seconds after its start in the simulation.
    #[must_use]
    pub fn working_set(&self, kind: &Kind, now: Moment, age_s: f64) -> u64 {
        let age_s = self.age_first_s + age_s;
        let grown = if age_s < self.grows_s { age_s / self.grows_s } else { 1.0 };
        let change = {
            let nth = (age_s / self.changes_s) as u64;
            kind.change.draw(&mut Random::of(&[self.seed, nth]))
        };
        let day = (now.as_secs_f64() / DAY_S + self.phase) * std::f64::consts::TAU;
        (self.working_set_bytes * grown * change * (1.0 + kind.diurnal * day.sin())) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Limits, Scenario};

    #[test]
    fn a_container_is_a_function_of_the_seed() {
        let load = Scenario::cluster(1, 10).load;
        assert_eq!(load.spec(1, 5, 2), load.spec(1, 5, 2));
        assert_ne!(load.spec(1, 5, 2), load.spec(2, 5, 2));
        assert_ne!(load.spec(1, 5, 2), load.spec(1, 5, 3));
    }

    #[test]
    fn kinds_come_in_proportion() {
        let load = Scenario::cluster(1, 10).load;
        let short = (0..100).filter(|place| load.spec(1, *place, 0).kind == 1).count();
        assert!((23..=27).contains(&short), "{short} of 100, where a quarter is meant");
    }

    #[test]
    fn containers_grow_to_their_size() {
        let load = Scenario::paper(1, &Limits::default()).load;
        let spec = load.spec(1, 0, 0);
        let kind = &load.kinds[spec.kind];
        let at = |age| spec.working_set(kind, Moment::from_secs(1), age);
        assert_eq!(at(0.0), 0);
        assert!(at(30.0) < at(60.0) && at(60.0) <= at(300.0));
        assert_eq!(at(300.0), at(3000.0));
    }

    #[test]
    fn working_sets_vary() {
        let load = Scenario::cluster(1, 10).load;
        let spec = load.spec(1, 0, 0);
        let kind = &load.kinds[spec.kind];
        let at = |hours: f64| spec.working_set(kind, Moment::from_secs(1), 3600.0 * hours);
        let grown: Vec<_> = (1..20).map(|nth| at(f64::from(nth))).collect();
        assert!(grown.iter().min() < grown.iter().max());
    }

    #[test]
    fn the_population_reserves_its_share() {
        let scenario = Scenario::cluster(1, 100);
        let memory = 6000 << 30;
        let places = scenario.load.places(1, memory);
        let reserved: u64 = (0..places).map(|place| scenario.load.spec(1, place, 0).limit_bytes).sum();
        assert!((0.8..0.81).contains(&(reserved as f64 / memory as f64)));
    }
}
