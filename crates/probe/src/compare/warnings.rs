//! Why figures of several reports might not be comparable.

use crate::render::figures::bytes;
use crate::report::{Effort, Report, TargetKind};

pub(super) fn warnings(reports: &[Report]) -> Vec<String> {
    if reports.len() < 2 {
        return vec!["There is nothing to compare: give two reports or more.".into()];
    }
    let differences = [
        difference(reports, "kinds of target", |report| kind(report.target.kind).into()),
        difference(reports, "efforts", |report| effort(report.effort).into()),
        difference(reports, "tested spans", |report| bytes(report.target.tested_bytes)),
        difference(reports, "preconditioning", preconditioning),
        difference(reports, "steadiness", |report| steadiness(report).into()),
        difference(reports, "processors", |report| report.machine.cpu_model.clone()),
        difference(reports, "kernels", |report| report.machine.kernel.clone()),
    ];
    let incomplete = reports.iter().enumerate().filter(|(_, report)| !report.complete);
    let incomplete = incomplete.map(|(at, _)| format!("Report {} was ended early.", at + 1));
    let restless = all_restless(reports).then(|| "No report was measured in a steady state.".to_owned());
    differences.into_iter().flatten().chain(incomplete).chain(restless).collect()
}

/// Tells what differs, with what each report has; none if all have the same.
fn difference(reports: &[Report], what: &str, property: impl Fn(&Report) -> String) -> Option<String> {
    let properties: Vec<String> = reports.iter().map(property).collect();
    let is_same = properties.iter().all(|property| *property == properties[0]);
    (!is_same).then(|| format!("The reports have different {what}: {}.", properties.join(" / ")))
}

fn all_restless(reports: &[Report]) -> bool {
    reports.iter().all(|report| !report.steady.as_ref().is_some_and(|steady| steady.reached))
}

fn kind(kind: TargetKind) -> &'static str {
    match kind {
        TargetKind::BlockDevice => "block device",
        TargetKind::File => "file",
        TargetKind::Directory => "directory",
        TargetKind::Nand => "emulated NAND",
    }
}

fn effort(effort: Effort) -> &'static str {
    match effort {
        Effort::Quick => "quick",
        Effort::Standard => "standard",
        Effort::Full => "full",
    }
}

fn preconditioning(report: &Report) -> String {
    use crate::report::PreconditioningKind as Kind;
    report.preconditioning.as_ref().map_or_else(
        || "none".into(),
        |done| match (done.kind, done.discarded) {
            (Kind::None, _) => "none".into(),
            (Kind::Quick, false) => "quick".into(),
            (Kind::Quick, true) => "quick after a discard".into(),
            (Kind::Full, false) => "full".into(),
            (Kind::Full, true) => "full after a discard".into(),
        },
    )
}

fn steadiness(report: &Report) -> &'static str {
    match &report.steady {
        Some(steady) if steady.reached => "steady",
        Some(_) => "NOT STEADY",
        None => "not looked at",
    }
}
