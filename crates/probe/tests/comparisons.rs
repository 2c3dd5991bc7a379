//! Reports side by side.

mod fixture;
mod markup;

use aquifer_probe::compare::{Verdict, compare};
use aquifer_probe::report::{Effort, PreconditioningKind, Report, TargetKind};

/// The fixture on a device that does `times` as many transfers in the same time.
fn faster(times: u64) -> Report {
    let mut report = fixture::report();
    for load in report.matrix.iter_mut().chain(&mut report.mixes) {
        for round in &mut load.rounds {
            round.ios *= times;
        }
    }
    report
}

#[test]
fn the_same_report_twice_differs_in_nothing() {
    let report = fixture::report();
    let comparison = compare(&[report.clone(), report.clone()]);
    assert_eq!(comparison.rows.len(), report.measurements().count());
    assert_eq!((comparison.unmatched, comparison.warnings.len()), (0, 0), "{:?}", comparison.warnings);
    for row in &comparison.rows {
        let expected = if row.section == "idle" { Verdict::Unknown } else { Verdict::Noise };
        assert_eq!((row.ratio(1), row.p99_ratio(1), row.verdict(1)), (Some(1.0), Some(1.0), Some(expected)));
    }
}

#[test]
fn more_than_noise_is_told() {
    let comparison = compare(&[fixture::report(), faster(2), fixture::report()]);
    for row in comparison.rows.iter().filter(|row| row.section == "matrix") {
        assert_eq!((row.ratio(1), row.verdict(1)), (Some(2.0), Some(Verdict::Faster)));
        assert_eq!((row.ratio(2), row.verdict(2)), (Some(1.0), Some(Verdict::Noise)));
    }
    let back = compare(&[faster(2), fixture::report()]);
    assert!(back.rows.iter().all(|row| row.section != "matrix" || row.verdict(1) == Some(Verdict::Slower)));
}

#[test]
fn overlapping_rounds_are_noise() {
    let (mut one, mut other) = (fixture::empty(), fixture::empty());
    let mut load = fixture::report().matrix[0].clone();
    let with = |load: &mut aquifer_probe::report::Measurement, counts: [u64; 3]| {
        load.rounds.iter_mut().zip(counts).for_each(|(round, ios)| round.ios = ios);
        load.clone()
    };
    one.matrix = vec![with(&mut load, [100, 110, 120])];
    other.matrix = vec![with(&mut load, [119, 130, 140])];
    let row = compare(&[one.clone(), other.clone()]).rows.remove(0);
    assert_eq!(row.figures[0].and_then(|figures| figures.spread()), Some(20.0 / 110.0));
    let verdict = |one: &Report, other: &Report| compare(&[one.clone(), other.clone()]).rows[0].verdict(1);
    assert_eq!(verdict(&one, &other), Some(Verdict::Noise));
    other.matrix = vec![with(&mut load, [121, 130, 140])];
    assert_eq!(verdict(&one, &other), Some(Verdict::Faster));
    other.matrix[0].rounds.truncate(1);
    assert_eq!(verdict(&one, &other), Some(Verdict::Unknown));
}

#[test]
fn what_is_not_alike_is_warned_of() {
    let mut other = fixture::report();
    other.target.kind = TargetKind::Nand;
    other.effort = Effort::Quick;
    other.target.tested_bytes /= 2;
    other.preconditioning.as_mut().expect("the fixture has it").kind = PreconditioningKind::Quick;
    other.steady.as_mut().expect("the fixture has it").reached = false;
    other.complete = false;
    let warnings = compare(&[fixture::report(), other]).warnings;
    for word in ["kinds of target", "efforts", "tested spans", "preconditioning", "steadiness", "ended early"]
    {
        assert_eq!(
            warnings.iter().filter(|warning| warning.contains(word)).count(),
            1,
            "{word}: {warnings:?}"
        );
    }
    assert_eq!(warnings.len(), 6);
}

#[test]
fn spans_may_differ_but_not_those_of_the_sweep() {
    let mut other = fixture::report();
    for load in other.matrix.iter_mut().chain(&mut other.working_set) {
        load.job.span_bytes += 4096;
    }
    let sweep = other.working_set.len();
    let comparison = compare(&[fixture::report(), other]);
    assert_eq!(comparison.unmatched, 2 * sweep);
    assert!(comparison.rows.iter().any(|row| row.section == "matrix"));
    assert!(comparison.rows.iter().all(|row| row.section != "working_set"));
}

#[test]
fn fewer_than_two_are_nothing_to_compare() {
    for reports in [&[][..], &[fixture::report()]] {
        let comparison = compare(reports);
        assert!(comparison.rows.is_empty());
        assert!(comparison.text().contains("warning: There is nothing to compare"));
    }
}

#[test]
fn columns_of_the_text_are_aligned() {
    let text = compare(&[fixture::report(), faster(3)]).text();
    let mut tables = 0;
    for block in text.split("\n\n").filter(|block| block.contains("\nload ")) {
        // Below the section's name, all lines end where the last column ends.
        let widths: Vec<usize> = block.lines().skip(1).map(|line| line.chars().count()).collect();
        assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{block}");
        tables += 1;
    }
    assert_eq!(tables, 12, "{text}");
    assert!(text.is_ascii() || text.contains('\u{b5}'));
}

#[test]
fn hostile_reports_stay_texts() {
    let named = |name: &str| {
        let mut report = fixture::report();
        report.target.name = name.into();
        report.machine.cpu_model = name.into();
        compare(&[report, fixture::report()])
    };
    let harmless = markup::read(&named("x").html()).elements;
    let hostile = named("<script>\u{1b}[2J\n|`");
    assert_eq!(markup::read(&hostile.html()).elements, harmless);
    assert!(!hostile.text().contains('\u{1b}') && !hostile.markdown().contains("<script"));
    assert_eq!(hostile.text().lines().count(), named("x").text().lines().count());
}
