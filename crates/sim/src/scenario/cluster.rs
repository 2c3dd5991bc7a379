//! Many machines under a load like Google's.

use std::time::Duration;

use super::{Activity, Borrowers, Failures, GIB, Scenario};
use crate::distribution::Distribution;
use crate::kept::Kept;
use crate::load::{Kind, Load, Population, Starts};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY_S: f64 = 86_400.0;

impl Scenario {
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
            borrowers: Borrowers::Containers,
            slab_bytes: GIB / 4,
            headroom_bytes: 4 * GIB,
            known: 64,
            leave_within: Duration::from_secs(5),
            // 10 Gbit/s.
            network_bytes_per_s: 1_250_000_000,
            step: 5 * MINUTE,
            sample_every: 15 * MINUTE,
            counted_from: 2 * HOUR,
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
}
