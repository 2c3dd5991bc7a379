//! Why the figures might not hold.

use crate::report::{Effort, PreconditioningKind, Report, TargetKind};

/// Most that other machines may take of the processors before it is worth a word, in percent.
const STEAL_PERCENT_MAX: f64 = 5.0;

/// One sentence for each reason; none for a report that can be relied on.
pub(super) fn warnings(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |is_so: bool, text: &str| {
        if is_so {
            warnings.push(text.to_owned());
        }
    };
    warn(
        !report.complete,
        "the report is not complete: the run was broken off, and what is missing was not measured",
    );
    match &report.steady {
        Some(steady) => warn(
            !steady.reached,
            "NOT STEADY: the device was still changing when it was measured, and will be slower or faster in use",
        ),
        None => warn(true, "NOT STEADY: whether the device had come to rest was not measured"),
    }
    let is_fresh = report.preconditioning.as_ref().is_none_or(|done| done.kind == PreconditioningKind::None);
    warn(
        is_fresh,
        "nothing was written before the measurement: a used device writes slower than this one did",
    );
    warn(
        report.effort == Effort::Quick,
        "this was a quick run with short rounds: measure without --quick before you buy",
    );
    warn(report.target.kind == TargetKind::Nand, "the device is emulated: these are the figures of a model");
    warn(
        report.machine.steal_percent > STEAL_PERCENT_MAX,
        "other machines on the same host took more than 5 % of the processors during the run",
    );
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::example::report;

    #[test]
    fn a_report_that_can_be_relied_on_needs_no_words() {
        assert_eq!(warnings(&report()), Vec::<String>::new());
    }

    #[test]
    fn each_doubt_is_named() {
        let said = |change: fn(&mut Report), part: &str| {
            let mut report = report();
            change(&mut report);
            let warnings = warnings(&report);
            assert!(warnings.len() == 1 && warnings[0].contains(part), "{warnings:?} without {part}");
        };
        said(|report| report.complete = false, "not complete");
        said(|report| report.steady.as_mut().expect("there").reached = false, "NOT STEADY");
        said(|report| report.steady = None, "NOT STEADY");
        said(|report| report.preconditioning = None, "nothing was written before");
        said(|report| report.effort = Effort::Quick, "quick");
        said(|report| report.target.kind = TargetKind::Nand, "emulated");
        said(|report| report.machine.steal_percent = 9.0, "other machines");
    }
}
