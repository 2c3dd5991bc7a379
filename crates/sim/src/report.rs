//! Results as tables and as JSON lines.

use std::fmt::Write as _;

use aquifer_base::units::format_size;
use serde::Serialize;

use crate::contender::{Contender, Placer};
use crate::kept::Kept;
use crate::outcome::Outcome;
use crate::scenario::{Borrowers, Scenario};

/// A run, with what it ran on.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Name of the scenario.
    pub scenario: String,
    /// Of the run, or of the first one.
    pub seed: u64,
    /// Runs with this seed and the next ones, of which this is the mean.
    pub runs: usize,
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
            runs: 1,
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

/// One report for all runs of a contender, in the order of their first ones.
#[must_use]
pub fn means(reports: &[Report]) -> Vec<Report> {
    let mut contenders: Vec<Contender> = Vec::new();
    for report in reports {
        if !contenders.contains(&report.outcome.contender) {
            contenders.push(report.outcome.contender);
        }
    }
    contenders.into_iter().filter_map(|contender| mean(&of(reports, contender))).collect()
}

fn of(reports: &[Report], contender: Contender) -> Vec<&Report> {
    reports.iter().filter(|report| report.outcome.contender == contender).collect()
}

fn mean(reports: &[&Report]) -> Option<Report> {
    let outcomes: Vec<_> = reports.iter().map(|report| &report.outcome).collect();
    let took_s = reports.iter().map(|report| report.took_s).sum::<f64>() / reports.len().max(1) as f64;
    let first = (*reports.first()?).clone();
    Some(Report { runs: reports.len(), took_s, outcome: Outcome::mean(&outcomes)?, ..first })
}

/// Kinds of one name differ in their limits alone.
fn kept(scenario: &Scenario) -> Vec<(&'static str, Kept)> {
    let mut kept: Vec<_> = scenario.load.kinds.iter().map(|kind| (kind.name, kind.kept.clone())).collect();
    kept.sort_by_key(|(name, _)| *name);
    kept.dedup();
    kept
}

/// Tables in Markdown: how memory was used, how evenly and with what risk, and what that cost. Of several seeds they are means, and
/// another table has the ranges.
#[must_use]
pub fn markdown(runs: &[Report]) -> String {
    let mut text = String::new();
    let reports = means(runs);
    let reports = reports.as_slice();
    if let Some(first) = reports.first() {
        let _ = writeln!(
            text,
            "{}: {} machines, {:.2} h, slabs of {}, headroom {}, seeds {}-{}. Of all memory containers reserve {:.1} % and want {:.1} %; systems have {:.1} %.\n",
            first.scenario,
            first.machines,
            first.measured_s / 3600.0,
            format_size(first.slab_bytes),
            format_size(first.headroom_bytes),
            first.seed,
            first.seed + first.runs as u64 - 1,
            100.0 * first.outcome.reserved_share,
            100.0 * first.outcome.wanted_share,
            100.0 * first.outcome.system_share
        );
    }
    text = text + &uses(reports) + "\n" + &risks(reports) + "\n" + &costs(reports);
    if reports.iter().any(|report| report.runs > 1) { text + "\n" + &ranges(runs, reports) } else { text }
}

/// The least and the most of some figures, over all seeds.
fn ranges(runs: &[Report], means: &[Report]) -> String {
    let mut text = "| placer | E+E' | distinct | with places kept | slabs whole | max/median | max/min | deviation | evictions |\n\
         |---|---|---|---|---|---|---|---|---|\n"
        .to_string();
    for contender in means.iter().map(|report| report.outcome.contender) {
        let range = |field: fn(&Outcome) -> f64, decimals: usize| {
            let values: Vec<f64> = of(runs, contender).iter().map(|report| field(&report.outcome)).collect();
            let (least, most) =
                values.iter().fold((f64::MAX, f64::MIN), |(a, b), one| (a.min(*one), b.max(*one)));
            format!("{least:.decimals$}-{most:.decimals$}")
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} % | {} % | {} % | {} | {} | {} | {} |",
            contender.placer,
            contender.eviction,
            range(|one| 100.0 * one.used_share, 1),
            range(|one| 100.0 * one.taken_share, 1),
            range(|one| 100.0 * one.occupied_share, 1),
            range(|one| one.max_to_median, 2),
            range(|one| one.max_to_min, 1),
            range(|one| one.deviation, 3),
            range(|one| one.counters.evictions as f64, 0)
        );
    }
    text
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
    use crate::contender::Eviction;

    #[test]
    fn runs_of_one_contender_are_one_line_of_means() {
        let scenario = Scenario { machines: 3, ..Scenario::cluster(1, 3) };
        let run = |seed, placer| {
            let contender = Contender { placer, eviction: Eviction::default() };
            let outcome = crate::run(&Scenario { seed, ..scenario.clone() }, contender, &|_| {});
            Report::new(&scenario, 1.0, outcome.expect("the books agree"))
        };
        let runs =
            [run(1, Placer::Nobody), run(1, Placer::Greedy), run(2, Placer::Nobody), run(2, Placer::Greedy)];
        let means = means(&runs);
        assert_eq!(means.iter().map(|mean| mean.runs).collect::<Vec<_>>(), [2, 2]);
        let share = |report: &Report| report.outcome.used_share;
        assert!((share(&means[1]) - 0.5 * (share(&runs[1]) + share(&runs[3]))).abs() < 1e-12);
        assert_eq!(super::means(&runs[..1])[0].outcome, runs[0].outcome);
        let lines =
            |runs: &[Report]| markdown(runs).lines().filter(|line| line.starts_with("| central")).count();
        assert_eq!((lines(&runs), lines(&runs[..2])), (4, 3), "ranges stand beside means alone");
    }

    #[test]
    fn small_shares_are_told_from_none() {
        let texts = [0.0, 0.000_012, 0.5].map(percent);
        assert_eq!(texts, ["0", "0.0012 %", "50.00 %"]);
    }
}
