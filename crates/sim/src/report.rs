//! Results as tables and as JSON lines.

use std::fmt::Write as _;

use aquifer_base::units::format_size;
use serde::Serialize;

use crate::contender::Placer;
use crate::kept::Kept;
use crate::outcome::Outcome;
use crate::scenario::{Borrowers, Scenario};

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
    /// What has slabs of its own.
    pub borrowers: Borrowers,
    /// Virtual time in which memory was measured.
    pub measured_s: f64,
    /// Virtual time in which it was counted.
    pub counted_s: f64,
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
            kept: kept(scenario),
            borrowers: scenario.borrowers,
            measured_s: scenario.measured.as_secs_f64(),
            counted_s: scenario.counted().as_secs_f64(),
            took_s,
            outcome,
        }
    }
}

/// Kinds of one name differ in their limits alone.
fn kept(scenario: &Scenario) -> Vec<(&'static str, Kept)> {
    let mut kept: Vec<_> = scenario.load.kinds.iter().map(|kind| (kind.name, kind.kept.clone())).collect();
    kept.sort_by_key(|(name, _)| *name);
    kept.dedup();
    kept
}

/// Tables in Markdown: how memory was used, how evenly and with what risk, and what that cost.
#[must_use]
pub fn markdown(reports: &[Report]) -> String {
    let mut text = String::new();
    if let Some(first) = reports.first() {
        let _ = writeln!(
            text,
            "{}: {} machines, {:.2} h, slabs of {}, headroom {}, seed {}. Of all memory containers reserve {:.1} % and want {:.1} %; systems have {:.1} %.\n",
            first.scenario,
            first.machines,
            first.measured_s / 3600.0,
            format_size(first.slab_bytes),
            format_size(first.headroom_bytes),
            first.seed,
            100.0 * first.outcome.reserved_share,
            100.0 * first.outcome.wanted_share,
            100.0 * first.outcome.system_share
        );
    }
    text + &uses(reports) + "\n" + &risks(reports) + "\n" + &costs(reports)
}

fn uses(reports: &[Report]) -> String {
    let mut text = "| placer | E+E' | distinct | gain | with places kept | gain | slabs whole | gain | max/median | worst | max/min | deviation | took |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
        .to_string();
    let without = reports.first().map_or(1.0, |report| report.outcome.used_share);
    for Report { outcome, took_s, .. } in reports {
        let eviction = match outcome.contender.placer {
            Placer::Nobody => "-".to_string(),
            _ => outcome.contender.eviction.to_string(),
        };
        let _ = write!(text, "| {} | {eviction} ", outcome.contender.placer);
        for share in [outcome.used_share, outcome.taken_share, outcome.occupied_share] {
            let _ = write!(text, "| {:.1} % | {:.2} x ", 100.0 * share, share / without);
        }
        let _ = writeln!(
            text,
            "| {:.2} | {:.2} | {:.1} | {:.3} | {took_s:.1} s |",
            outcome.max_to_median, outcome.max_to_median_worst, outcome.max_to_min, outcome.deviation
        );
    }
    text
}

fn risks(reports: &[Report]) -> String {
    let mut text = "| placer | E+E' | containers hit by a failure | at most | bytes lost at most | of a device on one donor | slabs filled |\n\
         |---|---|---|---|---|---|---|\n"
        .to_string();
    for Report { outcome, .. } in reports.iter().skip(1) {
        let _ = writeln!(
            text,
            "| {} | {} | {:.2} | {:.1} | {} | {:.1} % | {:.1} % |",
            outcome.contender.placer,
            outcome.contender.eviction,
            outcome.hit,
            outcome.hit_max,
            format_size(outcome.lost_bytes_max as u64),
            100.0 * outcome.on_one_donor,
            100.0 * outcome.filled_share
        );
    }
    text
}

fn costs(reports: &[Report]) -> String {
    let mut text = "| placer | E+E' | requests | refused | evictions | moved | dropped | forced | rank of evicted | failures | lost | short \
         | filled | moved bytes | paged | Mbit/s per machine |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
        .to_string();
    for report in reports.iter().skip(1) {
        let (outcome, counters) = (&report.outcome, &report.outcome.counters);
        let activity = counters.evicted_rank_mean().map_or("-".to_string(), |share| format!("{share:.2}"));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {activity} | {} | {} | {} | {} | {} | {} | {:.0} |",
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
            format_size(counters.paged_bytes),
            8e-6 * counters.network_bytes() as f64 / report.counted_s / report.machines as f64
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
