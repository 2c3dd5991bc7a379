//! What is simulated: machines, load, failures, and how donors and borrowers are set.

use std::str::FromStr;
use std::time::Duration;

use crate::distribution::Distribution;
use crate::kept::{self, Keeping, Kept, Measured};
use crate::load::{Kind, Load, Population, Starts};

const GIB: u64 = 1 << 30;
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY_S: f64 = 86_400.0;

/// A simulation, but for who decides which donor lends.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// For people.
    pub name: String,
    /// Decides everything that is random.
    pub seed: u64,
    /// How many machines.
    pub machines: usize,
    /// GiB of RAM of a machine.
    pub capacity_gib: Distribution,
    /// What the system of each machine uses itself.
    pub system_bytes: u64,
    /// Machines of a rack, which is a failure domain.
    pub rack_machines: usize,
    /// What runs.
    pub load: Load,
    /// Bytes of a slab.
    pub slab_bytes: u64,
    /// What a donor leaves for programs of its machine.
    pub headroom_bytes: u64,
    /// Donors that a machine has on its list.
    pub known: usize,
    /// How long a borrower has to move a slab.
    pub leave_within: Duration,
    /// Bytes that a move transfers in a second.
    pub network_bytes_per_s: u64,
    /// Time between two looks at a machine: at the working sets of its containers, and at its memory.
    pub step: Duration,
    /// Time between two measurements.
    pub sample_every: Duration,
    /// Nothing is measured before.
    pub warm_up: Duration,
    /// For how long it is measured then.
    pub measured: Duration,
    /// What borrowers answer when a donor asks how active slabs are.
    pub activity: Activity,
    /// Which machines fail.
    pub failures: Option<Failures>,
}

/// How active a slab is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    /// Uses in a second, as the engine's borrowers answer.
    Rates,
    /// Uses since the last question: a slab that is new, or was just asked about, had little time to be used.
    Counts,
}

impl FromStr for Activity {
    type Err = String;

    fn from_str(text: &str) -> Result<Activity, String> {
        match text {
            "counts" => Ok(Activity::Counts),
            "rates" => Ok(Activity::Rates),
            other => Err(format!("'{other}' is no measure of activity; counts and rates are")),
        }
    }
}

/// How machines fail. Their containers start again on others.
#[derive(Clone, PartialEq, Debug)]
pub struct Failures {
    /// Seconds until a machine fails.
    pub machine_s: Distribution,
    /// Seconds until all machines of a rack fail.
    pub rack_s: Distribution,
    /// Seconds until a machine is back.
    pub repair_s: Distribution,
}

/// Local limits as shares of the working set, by weight.
#[derive(Clone, PartialEq, Debug)]
pub struct Limits(pub Vec<(f64, f64)>);

impl Default for Limits {
    /// A third of the containers each: the slides of the paper do not say how they are mixed.
    fn default() -> Self {
        Limits(vec![(1.0, 1.0), (0.75, 1.0), (0.5, 1.0)])
    }
}

impl FromStr for Limits {
    type Err = String;

    fn from_str(text: &str) -> Result<Limits, String> {
        let problem = || format!("'{text}' is no mix of limits, as 100:1,75:1,50:2 is (percent:weight)");
        let pair = |part: &str| {
            let (percent, weight) = part.split_once(':')?;
            let (percent, weight): (f64, f64) = (percent.parse().ok()?, weight.parse().ok()?);
            ((1.0..=100.0).contains(&percent) && (0.0..1e9).contains(&weight))
                .then_some((percent / 100.0, weight))
        };
        let limits: Vec<_> = text.split(',').map(pair).collect::<Option<_>>().ok_or_else(problem)?;
        let sum: f64 = limits.iter().map(|(_, weight)| weight).sum();
        if sum > 0.0 { Ok(Limits(limits)) } else { Err(problem()) }
    }
}

impl Scenario {
    /// The set-up of the paper's section on utilisation: 32 machines of 64 GiB, 90 containers.
    #[must_use]
    pub fn paper(seed: u64, limits: Limits) -> Scenario {
        let kind = |name, gib, uses_per_gib_s, measured: Measured| Kind {
            name,
            weight: 1.0,
            size_gib: Distribution::Uniform { min: 0.8 * gib, max: 1.2 * gib },
            limit: Distribution::Choice(limits.0.clone()),
            working_set: Distribution::Constant(1.0),
            grows_s: Distribution::Uniform { min: 300.0, max: 900.0 },
            lifetime_s: Distribution::Uniform { min: 2.0 * 3600.0, max: 6.0 * 3600.0 },
            pause_s: Distribution::Exponential { mean: 60.0 },
            diurnal: 0.0,
            changes_s: Distribution::Uniform { min: 300.0, max: 900.0 },
            change: Distribution::Uniform { min: 0.9, max: 1.0 },
            uses_per_gib_s: Distribution::Constant(uses_per_gib_s),
            kept: Kept::measured(&measured.slots),
            measured: Some(measured),
        };
        let kinds = vec![
            kind("VoltDB", 12.0, 2000.0, kept::TRANSACTIONS),
            kind("Memcached", 10.0, 2000.0, kept::CACHE),
            kind("PowerGraph", 10.0, 4000.0, kept::RANKS),
            kind("GraphX", 16.0, 4000.0, kept::SHUFFLE),
        ];
        Scenario {
            name: "paper".to_string(),
            seed,
            machines: 32,
            capacity_gib: Distribution::Constant(64.0),
            system_bytes: 2 * GIB,
            rack_machines: 1,
            load: Load { kinds, population: Population::Places(90), starts: Starts::Within(1800.0) },
            slab_bytes: GIB,
            headroom_bytes: 4 * GIB,
            known: usize::MAX,
            leave_within: Duration::from_secs(5),
            // 56 Gbit/s.
            network_bytes_per_s: 7_000_000_000,
            step: Duration::from_secs(10),
            sample_every: MINUTE,
            warm_up: HOUR,
            measured: 8 * HOUR,
            activity: Activity::Rates,
            failures: None,
        }
    }

    /// A cluster under a load like Google's of 2011 (Reiss et al., SoCC'12): about 80 % of memory reserved and half of it used, most containers short, most
    /// memory in long ones.
    #[must_use]
    pub fn cluster(seed: u64, machines: usize) -> Scenario {
        let long = Kind {
            name: "long",
            weight: 0.75,
            size_gib: Distribution::LogNormal { median: 1.5, sigma: 1.2, max: 24.0 },
            limit: Distribution::Constant(1.0),
            // About one in six needs more than was asked for.
            working_set: Distribution::LogNormal { median: 0.58, sigma: 0.55, max: 2.5 },
            grows_s: Distribution::Uniform { min: 60.0, max: 1800.0 },
            lifetime_s: Distribution::BoundedPareto { alpha: 1.2, min: 6.0 * 3600.0, max: 30.0 * DAY_S },
            pause_s: Distribution::Exponential { mean: 60.0 },
            diurnal: 0.15,
            changes_s: Distribution::Uniform { min: 1800.0, max: 4.0 * 3600.0 },
            change: Distribution::LogNormal { median: 1.0, sigma: 0.15, max: 2.0 },
            uses_per_gib_s: Distribution::LogNormal { median: 200.0, sigma: 1.5, max: 20_000.0 },
            // Of such programs nothing was measured.
            kept: Kept::default(),
            measured: None,
        };
        let short = Kind {
            name: "short",
            weight: 0.25,
            size_gib: Distribution::LogNormal { median: 0.5, sigma: 1.2, max: 16.0 },
            grows_s: Distribution::Uniform { min: 1.0, max: 60.0 },
            lifetime_s: Distribution::BoundedPareto { alpha: 1.1, min: 120.0, max: DAY_S },
            diurnal: 0.0,
            ..long.clone()
        };
        Scenario {
            name: format!("cluster of {machines}"),
            seed,
            machines,
            // Table 1 there has memory relative to the largest machine, which is taken to have 128 GiB.
            capacity_gib: Distribution::Choice(vec![(64.0, 0.54), (32.0, 0.31), (96.0, 0.08), (128.0, 0.07)]),
            system_bytes: GIB,
            rack_machines: 40,
            load: Load {
                kinds: vec![long, short],
                population: Population::Reserving(0.8),
                starts: Starts::Before,
            },
            slab_bytes: GIB / 4,
            headroom_bytes: 4 * GIB,
            known: 64,
            leave_within: Duration::from_secs(5),
            // 10 Gbit/s.
            network_bytes_per_s: 1_250_000_000,
            step: 5 * MINUTE,
            sample_every: 15 * MINUTE,
            warm_up: 2 * HOUR,
            measured: 24 * HOUR,
            activity: Activity::Rates,
            failures: Some(Failures {
                machine_s: Distribution::Exponential { mean: 30.0 * DAY_S },
                rack_s: Distribution::Exponential { mean: 365.0 * DAY_S },
                repair_s: Distribution::LogNormal { median: 1800.0, sigma: 1.0, max: DAY_S },
            }),
        }
    }

    /// Replaces what the containers keep in slabs.
    ///
    /// # Errors
    /// A sentence, if nothing was measured of such containers.
    pub fn keeping(mut self, keeping: Keeping) -> Result<Scenario, String> {
        for kind in &mut self.load.kinds {
            kind.kept = match (keeping, kind.measured) {
                (Keeping::Share(share), _) => Kept::same(share),
                (Keeping::Slots, Some(measured)) => Kept::measured(&measured.slots),
                (Keeping::Clean, Some(measured)) => Kept::measured(&measured.clean),
                (_, None) => {
                    return Err(format!(
                        "of {} containers nothing was measured: name a share (--kept)",
                        kind.name
                    ));
                }
            };
        }
        Ok(self)
    }

    /// When it is over.
    #[must_use]
    pub fn ends(&self) -> Duration {
        self.warm_up + self.measured
    }

    /// How long it takes to move a slab.
    #[must_use]
    pub fn move_time(&self) -> Duration {
        Duration::from_secs_f64(self.slab_bytes as f64 / self.network_bytes_per_s as f64)
    }

    /// The first thing that makes no sense, as a sentence.
    ///
    /// # Errors
    /// The sentence.
    pub fn check(&self) -> Result<(), String> {
        let problem = match self {
            s if s.machines < 2 => "one machine has nobody to borrow from: name 2 at least (--machines)",
            s if s.machines > 1_000_000 => "more than 1,000,000 machines do not fit: name fewer (--machines)",
            s if s.known == 0 => "machines that know no donor borrow nothing: --known is 1 at least",
            s if s.slab_bytes == 0 => "a slab has a byte at least (--slab)",
            s if s.network_bytes_per_s == 0 => "the network moves a byte in a second at least (--network)",
            s if s.measured.is_zero() => "nothing would be measured: --hours is more than 0",
            s if s.step.is_zero() || s.sample_every.is_zero() => "time does not pass in steps of 0",
            _ => return Ok(()),
        };
        Err(problem.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        assert_eq!("100:1,75:1,50:1".parse(), Ok(Limits::default()));
        assert_eq!("50:2".parse(), Ok(Limits(vec![(0.5, 2.0)])));
        for wrong in ["", "50", "0:1", "101:1", "50:-1", "50:0", "50:1,", "a:b", "50:NaN"] {
            assert!(wrong.parse::<Limits>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn nonsense_is_named() {
        let scenario = Scenario::cluster(1, 1);
        assert!(scenario.check().expect_err("one machine").contains("--machines"));
        assert_eq!(Scenario::cluster(1, 2).check(), Ok(()));
        assert!(Scenario::cluster(1, 2).keeping(Keeping::Slots).is_err_and(|what| what.contains("--kept")));
        let scenario = Scenario { slab_bytes: 0, ..Scenario::paper(1, Limits::default()) };
        assert!(scenario.check().expect_err("no slab").contains("--slab"));
    }
}
