//! What is simulated: machines, load, failures, and how donors and borrowers are set.

use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;

mod cluster;
mod paper;

use crate::distribution::Distribution;
use crate::kept::{Keeping, Kept};
use crate::load::Load;

const GIB: u64 = 1 << 30;

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
    /// What has slabs of its own.
    pub borrowers: Borrowers,
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
    /// Nothing is counted before.
    pub counted_from: Duration,
    /// How memory is used is not measured before.
    pub warm_up: Duration,
    /// For how long it is measured then.
    pub measured: Duration,
    /// What borrowers answer when a donor asks how active slabs are.
    pub activity: Activity,
    /// Which machines fail.
    pub failures: Option<Failures>,
}

/// Which of them have slabs of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Borrowers {
    /// One device for all containers of a machine, as `aquifer block` and the paper have it.
    Machines,
    /// Each container, as `aquifer run` has it.
    Containers,
}

impl FromStr for Borrowers {
    type Err = String;

    fn from_str(text: &str) -> Result<Borrowers, String> {
        match text {
            "machines" => Ok(Borrowers::Machines),
            "containers" => Ok(Borrowers::Containers),
            other => Err(format!("'{other}' do not borrow; machines and containers do")),
        }
    }
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
    /// The paper's (section 7.4): about 50 % of the containers, close to 30 %, and the rest.
    fn default() -> Self {
        Limits(vec![(1.0, 50.0), (0.75, 30.0), (0.5, 20.0)])
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

    /// Virtual time in which it is counted.
    #[must_use]
    pub fn counted(&self) -> Duration {
        self.ends().saturating_sub(self.counted_from)
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
            s if s.counted_from > s.warm_up => "what is measured is counted as well",
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
        assert_eq!("100:50,75:30,50:20".parse(), Ok(Limits::default()));
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
        let scenario = Scenario { slab_bytes: 0, ..Scenario::paper(1, &Limits::default()) };
        assert!(scenario.check().expect_err("no slab").contains("--slab"));
    }
}
