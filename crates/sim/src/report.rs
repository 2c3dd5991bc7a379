//! Results as tables and as JSON lines.

use std::fmt::Write as _;

use aquifer_base::units::format_size;
use serde::Serialize;

use crate::contender::Placer;
use crate::kept::Kept;
use crate::outcome::Outcome;
use crate::scenario::Scenario;

/// A run, with what it ran on.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Name of the scenario.
    pub scenario: String,
    /// Of the run.
    pub seed: u64,
    /// How many.
    pub machines: usize,
    /// Of a slab.
    pub slab_bytes: u64,
    /// Left for programs by donors.
    pub headroom_bytes: u64,
    /// Kinds of containers, and what of their local bytes keeps its place in slabs.
    pub kept: Vec<(&'static str, Kept)>,
    /// Measured virtual time.
    pub measured_s: f64,
    /// How long the run took, in real time.
    pub took_s: f64,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Report {
    /// Reports the `outcome` of a scenario, which took `took_s`.
    #[must_use]
    pub fn new(scenario: &Scenario, took_s: f64, outcome: Outcome) -> Report {
        Report {
            scenario: scenario.name.clone(),
            seed: scenario.seed,
            machines: scenario.machines,
            slab_bytes: scenario.slab_bytes,
            headroom_bytes: scenario.headroom_bytes,
            kept: scenario.load.kinds.iter().map(|kind| (kind.name, kind.kept.clone())).collect(),
            measured_s: scenario.measured.as_secs_f64(),
            took_s,
            outcome,
        }
    }
}

/// Two tables in Markdown: how memory was used, and what that cost.
#[must_use]
pub fn markdown(reports: &[Report]) -> String {
    let mut text = String::new();
    if let Some(first) = reports.first() {
        let _ = writeln!(
            text,
            "{}: {} machines, {:.0} h, slabs of {}, headroom {}, seed {}. {:.1} % of memory reserved, {:.1} % wanted.\n",
            first.scenario,
            first.machines,
            first.measured_s / 3600.0,
            format_size(first.slab_bytes),
            format_size(first.headroom_bytes),
            first.seed,
            100.0 * first.outcome.reserved_share,
            100.0 * first.outcome.wanted_share
        );
    }
    text += "| placer | E+E' | used | gain | taken | gain | slabs counted full | max/mean | worst | deviation | took |\n";
    text += "|---|---|---|---|---|---|---|---|---|---|---|\n";
    let without = reports.first().map_or(1.0, |report| report.outcome.used_share);
    for Report { outcome, took_s, .. } in reports {
        let eviction = match outcome.contender.placer {
            Placer::Nobody => "-".to_string(),
            _ => outcome.contender.eviction.to_string(),
        };
        let _ = writeln!(
            text,
            "| {} | {eviction} | {:.1} % | {:.2} x | {:.1} % | {:.2} x | {:.1} % | {:.2} | {:.2} | {:.3} | {took_s:.1} s |",
            outcome.contender.placer,
            100.0 * outcome.used_share,
            outcome.used_share / without,
            100.0 * outcome.taken_share,
            outcome.taken_share / without,
            100.0 * outcome.occupied_share,
            outcome.imbalance,
            outcome.imbalance_max,
            outcome.deviation
        );
    }
    text += "\n| placer | E+E' | requests | refused | evictions | moved | dropped | forced | rank of evicted | failures | lost \
             | short | filled | moved bytes | paged |\n";
    text += "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
    for Report { outcome, .. } in reports.iter().skip(1) {
        let counters = &outcome.counters;
        let activity = counters.evicted_rank_mean().map_or("-".to_string(), |share| format!("{share:.2}"));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {activity} | {} | {} | {} | {} | {} | {} |",
            outcome.contender.placer,
            outcome.contender.eviction,
            counters.requests,
            percent(counters.refused_share()),
            counters.evictions,
            counters.moved,
            counters.dropped,
            counters.forced,
            counters.failures,
            percent(counters.lost_share()),
            percent(counters.short_share()),
            format_size(counters.filled_bytes),
            format_size(counters.moved_bytes),
            format_size(counters.paged_bytes)
        );
    }
    text
}

/// Small shares are told from none.
fn percent(share: f64) -> String {
    match 100.0 * share {
        0.0 => "0".to_string(),
        percent if percent < 0.1 => format!("{percent:.4} %"),
        percent => format!("{percent:.2} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_shares_are_told_from_none() {
        let texts = [0.0, 0.000_012, 0.5].map(percent);
        assert_eq!(texts, ["0", "0.0012 %", "50.00 %"]);
    }
}
