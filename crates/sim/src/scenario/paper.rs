//! The paper's cluster (Gu et al., *Efficient memory disaggregation with Infiniswap*, NSDI'17, section 7).

use std::time::Duration;

use super::{Activity, Borrowers, GIB, Limits, Scenario};
use crate::distribution::Distribution;
use crate::kept::{self, Kept, Measured};
use crate::load::{Kind, Load, Population, Starts};

/// An application with its workload, as sections 7.2.1 to 7.2.4 have them.
struct Application {
    name: &'static str,
    /// Its peak use of memory.
    size_gib: f64,
    /// What a program like it was seen to keep.
    measured: Measured,
}

/// Sections 7.2.1 (VoltDB), 7.2.2 (Memcached with two workloads), 7.2.3 and 7.2.4.
const APPLICATIONS: [Application; 5] = [
    Application { name: "VoltDB", size_gib: 11.5, measured: kept::TRANSACTIONS },
    Application { name: "ETC", size_gib: 9.0, measured: kept::READS },
    Application { name: "SYS", size_gib: 14.5, measured: kept::WRITES },
    Application { name: "PowerGraph", size_gib: 9.0, measured: kept::RANKS },
    Application { name: "GraphX", size_gib: 12.0, measured: kept::SHUFFLE },
];

/// Pages read and written in a second for each GiB that is not local: with these the network carries the 1.88 TB in 1,300 s
/// that section 7.4.1 reports.
const USES_PER_GIB_S: f64 = 2000.0;
/// Longer than the experiment.
const ENDLESS_S: f64 = 86_400.0;

impl Scenario {
    /// The set-up of section 7.4: 32 machines of 64 GB, 90 containers in equal numbers of each application, all started at once on
    /// random machines, one device for each machine.
    ///
    /// Not in the paper are `system_bytes`, how long containers grow, and what keeps its place in slabs.
    #[must_use]
    pub fn paper(seed: u64, limits: &Limits) -> Scenario {
        let kind = |share, weight, application: &Application| Kind {
            name: application.name,
            weight,
            size_gib: Distribution::Constant(application.size_gib),
            limit: Distribution::Constant(share),
            working_set: Distribution::Constant(1.0),
            grows_s: Distribution::Uniform { min: 60.0, max: 300.0 },
            lifetime_s: Distribution::Constant(ENDLESS_S),
            pause_s: Distribution::Constant(ENDLESS_S),
            diurnal: 0.0,
            changes_s: Distribution::Constant(ENDLESS_S),
            change: Distribution::Constant(1.0),
            uses_per_gib_s: Distribution::Constant(USES_PER_GIB_S),
            kept: Kept::measured(&application.measured.slots),
            measured: Some(application.measured),
        };
        let of_limit = |(share, weight): &(f64, f64)| {
            let (share, weight) = (*share, *weight);
            APPLICATIONS.iter().map(move |application| kind(share, weight, application))
        };
        Scenario {
            name: "paper".to_string(),
            seed,
            machines: 32,
            capacity_gib: Distribution::Constant(64.0),
            // An empty machine has 1/22.5 of the fullest one there, thus less than 2.9 GB.
            system_bytes: 2 * GIB,
            rack_machines: 1,
            load: Load {
                kinds: limits.0.iter().flat_map(of_limit).collect(),
                population: Population::Places(90),
                starts: Starts::Within(0.0),
            },
            borrowers: Borrowers::Machines,
            slab_bytes: GIB,
            headroom_bytes: 8 * GIB,
            known: usize::MAX,
            leave_within: Duration::from_secs(5),
            // 56 Gbit/s.
            network_bytes_per_s: 7_000_000_000,
            step: Duration::from_secs(1),
            sample_every: Duration::from_secs(10),
            counted_from: Duration::ZERO,
            // Everything has grown.
            warm_up: Duration::from_secs(300),
            measured: Duration::from_secs(1000),
            activity: Activity::Rates,
            failures: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTAINERS: u32 = 90;

    /// Kinds of all containers, and GiB of their working sets and limits.
    fn containers(scenario: &Scenario) -> Vec<(usize, f64, f64)> {
        let gib = |bytes: u64| bytes as f64 / GIB as f64;
        let all = (0..scenario.load.places(scenario.seed, 0)).map(|place| {
            let spec = scenario.load.spec(scenario.seed, place, 0);
            let kind = &scenario.load.kinds[spec.kind];
            let grown = spec.working_set(kind, scenario.warm_up, scenario.warm_up.as_secs_f64());
            (spec.kind, gib(grown), gib(spec.limit_bytes))
        });
        all.collect()
    }

    #[test]
    fn working_sets_and_limits_add_up_as_the_paper_has_them() {
        let scenario = Scenario::paper(7, &Limits::default());
        let containers = containers(&scenario);
        let sum = |of: fn(&(usize, f64, f64)) -> f64| containers.iter().map(of).sum::<f64>();
        assert_eq!(containers.len() as u32, CONTAINERS);
        let (wanted, local) = (sum(|one| one.1), sum(|one| one.2));
        assert!((wanted / f64::from(CONTAINERS) - 11.2).abs() < 1e-6, "mean working set");
        assert!((wanted - 1008.0).abs() < 1e-6);
        // Shares of five applications in 27 and in 18 containers are not whole: 0.825 of it would be 831.6.
        assert!((local - 830.5).abs() < 1e-6, "{local}");
        let memory = 32.0 * 64.0;
        assert!((local / memory - 0.408).abs() < 0.003, "without remote memory, and 40.8 % in the paper");
        assert!((wanted / local - 1.21).abs() < 0.005, "what distinct bytes can gain");
    }

    #[test]
    fn applications_are_as_many_and_limits_have_their_shares() {
        let scenario = Scenario::paper(1, &Limits::default());
        let mut by_name = std::collections::BTreeMap::new();
        let mut by_limit = std::collections::BTreeMap::new();
        for (kind, wanted, local) in containers(&scenario) {
            *by_name.entry(scenario.load.kinds[kind].name).or_insert(0) += 1;
            *by_limit.entry((100.0 * local / wanted).round() as u32).or_insert(0) += 1;
        }
        assert_eq!(by_name.values().copied().collect::<Vec<_>>(), [18; 5], "{by_name:?}");
        assert_eq!(by_limit.into_iter().collect::<Vec<_>>(), [(50, 18), (75, 27), (100, 45)]);
    }

    #[test]
    fn all_containers_start_at_once() {
        let scenario = Scenario::paper(3, &Limits::default());
        assert!((0..CONTAINERS).all(|place| scenario.load.start_s(scenario.seed, place) == 0.0));
    }
}
