//! Finds the same load in several reports.

use std::collections::{BTreeMap, HashMap};

use super::{Figures, Row};
use crate::cells::{Cell, cells};
use crate::render::figures::date;
use crate::report::{Job, Report};

/// What is equal for the same load: where it stands, what it is, and how many of its kind stand before it.
type Key = (&'static str, String, Job, usize);

/// A name that people recognise.
pub(super) fn name(report: &Report) -> String {
    format!("{}, {}", report.target.name, date(report.started_unix_s))
}

/// The rows of loads that at least two reports have, and how many loads only one has.
pub(super) fn rows(reports: &[Report]) -> (Vec<Row>, usize) {
    let mut rows: Vec<Row> = Vec::new();
    let mut places: HashMap<Key, usize> = HashMap::new();
    for (number, report) in reports.iter().enumerate() {
        for (key, cell) in keyed(report) {
            let place = *places.entry(key).or_insert_with(|| {
                rows.push(empty(&cell, reports.len()));
                rows.len() - 1
            });
            rows[place].figures[number] = Some(Figures::of(cell.measurement));
        }
    }
    let all = rows.len();
    rows.retain(|row| row.figures.iter().flatten().count() > 1);
    let unmatched = all - rows.len();
    (grouped(rows), unmatched)
}

fn keyed(report: &Report) -> impl Iterator<Item = (Key, Cell<'_>)> {
    let mut seen: HashMap<(&'static str, String, Job), usize> = HashMap::new();
    cells(report).into_iter().map(move |cell| {
        let kind = (cell.section, cell.part.to_string(), comparable(&cell));
        let count = seen.entry(kind.clone()).or_default();
        *count += 1;
        ((kind.0, kind.1, kind.2, *count), cell)
    })
}

/// The job without its span, except where the span is what is varied.
fn comparable(cell: &Cell<'_>) -> Job {
    let job = cell.measurement.job.clone();
    if cell.section == "working_set" { job } else { Job { span_bytes: 0, ..job } }
}

fn empty(cell: &Cell<'_>, reports: usize) -> Row {
    Row {
        section: cell.section,
        part: cell.part.to_string(),
        job: cell.measurement.job.clone(),
        figures: vec![None; reports],
    }
}

/// The rows of a section side by side, in the order in which sections appear first.
fn grouped(rows: Vec<Row>) -> Vec<Row> {
    let mut order: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &rows {
        let next = order.len();
        order.entry(row.section).or_insert(next);
    }
    let mut rows = rows;
    rows.sort_by_key(|row| order[row.section]);
    rows
}
