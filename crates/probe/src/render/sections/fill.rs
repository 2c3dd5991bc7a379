//! A fuller device, fresh and fragmented.

use super::loads::{KINDS_MAX, distinct, kind, rate, throughput};
use crate::render::document::{Part, Section, Table};
use crate::render::figures;
use crate::render::svg::{Axis, BarPlot, Bars, Plot};
use crate::report::{FillMeasurement, FillState, Job, Measurement, Pattern, Report};

/// Changes that the study of 2010 found by fragmentation, in percent: sequential read, sequential write, random read, random write.
const STUDY_AT_70: [i32; 4] = [-52, -18, -11, -50];
const STUDY_OVER_90: [i32; 4] = [-31, -79, -2, -75];

pub(super) fn section(report: &Report) -> Option<Section> {
    if report.fill.is_empty() {
        return None;
    }
    let jobs = jobs(&report.fill);
    let levels = levels(&report.fill);
    let mut parts = vec![Part::Plots(jobs.iter().map(|job| plot(&report.fill, job, &levels)).collect())];
    let half_full = levels.iter().copied().filter(|&level| level <= 70).max();
    let nearly_full = levels.iter().copied().find(|&level| level >= 90);
    parts
        .extend(half_full.map(|level| study(&report.fill, &jobs, level, ("at most 70 % full", STUDY_AT_70))));
    parts.extend(
        nearly_full.map(|level| study(&report.fill, &jobs, level, ("over 90 % full", STUDY_OVER_90))),
    );
    parts.push(Part::Table(table(&report.fill, &jobs, &levels)));
    let text = "The same loads while more and more of the target is full, and the rest discarded: fresh, written once one block after the other; \
                fragmented, then overwritten at random until it settled. The study of 2010 measured an Intel X25-E after five hours of writes.";
    Some(Section { id: "fill", title: "Fill and fragmentation", text: text.into(), parts })
}

/// What tells loads of different levels apart is not the job: the span grows with the level.
fn is_same(one: &Job, other: &Job) -> bool {
    Job { span_bytes: 0, ..one.clone() } == Job { span_bytes: 0, ..other.clone() }
}

/// The loads, sequential before random and reads before writes.
fn jobs(fill: &[FillMeasurement]) -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for measured in fill {
        let job = &measured.measurement.job;
        if jobs.len() < KINDS_MAX && !jobs.iter().any(|known| is_same(known, job)) {
            jobs.push(job.clone());
        }
    }
    jobs.sort_by_key(|job| (job.pattern, std::cmp::Reverse(job.read_percent), job.block_bytes, job.depth));
    jobs
}

fn levels(fill: &[FillMeasurement]) -> Vec<u8> {
    distinct(fill.iter().map(|measured| measured.fill_percent))
}

fn find<'a>(fill: &'a [FillMeasurement], job: &Job, level: u8, state: FillState) -> Option<&'a Measurement> {
    let is_it = |measured: &&FillMeasurement| {
        (measured.fill_percent, measured.state) == (level, state) && is_same(&measured.measurement.job, job)
    };
    fill.iter().find(is_it).map(|measured| &measured.measurement)
}

/// The figure that is usual for a load, and its unit.
fn usual(job: &Job) -> (fn(&Measurement) -> Option<f64>, &'static str) {
    match job.pattern {
        Pattern::Sequential => (throughput, "MB/s"),
        Pattern::Random => (rate, "IOPS"),
    }
}

fn plot(fill: &[FillMeasurement], job: &Job, levels: &[u8]) -> Plot {
    let (figure, unit) = usual(job);
    let values = |state| levels.iter().map(|&level| find(fill, job, level, state).and_then(figure)).collect();
    Plot::Bars(BarPlot {
        title: title(job),
        categories: levels.iter().map(|level| format!("{level} %")).collect(),
        x_name: "full part of the target".into(),
        y: Axis::linear(unit),
        bars: vec![
            Bars { name: "fresh".into(), values: values(FillState::Fresh), colour: 6 },
            Bars { name: "fragmented".into(), values: values(FillState::Fragmented), colour: 3 },
        ],
    })
}

fn title(job: &Job) -> String {
    format!("{}, {}, depth {}", kind(job), figures::bytes(job.block_bytes.into()), job.depth)
}

/// Fresh, fragmented, and the change between them.
fn both(fill: &[FillMeasurement], job: &Job, level: u8) -> (Option<f64>, Option<f64>, Option<f64>) {
    let (figure, _) = usual(job);
    let fresh = find(fill, job, level, FillState::Fresh).and_then(figure);
    let fragmented = find(fill, job, level, FillState::Fragmented).and_then(figure);
    let change = fresh.zip(fragmented).and_then(|(fresh, fragmented)| figures::ratio(fragmented, fresh));
    (fresh, fragmented, change.map(|ratio| ratio - 1.0))
}

/// The change by fragmentation at one level, beside what the study found.
fn study(fill: &[FillMeasurement], jobs: &[Job], level: u8, (name, found): (&str, [i32; 4])) -> Part {
    let row = |job: &Job| {
        let (fresh, fragmented, change) = both(fill, job, level);
        let at = usize::from(job.pattern == Pattern::Random) * 2 + usize::from(job.read_percent == 0);
        let is_in_study = matches!(job.read_percent, 0 | 100);
        vec![
            title(job),
            usual(job).1.into(),
            figures::number_or_dash(fresh),
            figures::number_or_dash(fragmented),
            figures::change(change),
            if is_in_study { format!("{:+} %", found[at]) } else { figures::DASH.into() },
        ]
    };
    let caption = format!("Fragmentation at {level} % full; the study: {name}");
    let columns = ["", "unit", "fresh", "fragmented", "change", "study of 2010"];
    Part::Table(Table::new(caption, columns, jobs.iter().map(row).collect()))
}

fn table(fill: &[FillMeasurement], jobs: &[Job], levels: &[u8]) -> Table {
    let row = |job: &Job, level: u8| {
        let (fresh, fragmented, change) = both(fill, job, level);
        vec![
            title(job),
            format!("{level} %"),
            usual(job).1.into(),
            figures::number_or_dash(fresh),
            figures::number_or_dash(fragmented),
            figures::change(change),
        ]
    };
    let rows = jobs.iter().flat_map(|job| levels.iter().map(move |&level| row(job, level))).collect();
    Table::new("All levels", ["", "full", "unit", "fresh", "fragmented", "change"], rows)
}
