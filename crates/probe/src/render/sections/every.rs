//! Every load with all its figures.

use super::loads::{LATENCY_COLUMNS, latency_cells, rate, throughput};
use crate::cells::{Cell, cells};
use crate::render::document::{Part, Section, Table};
use crate::render::figures;
use crate::report::{Measurement, Report};

pub(super) fn section(report: &Report) -> Option<Section> {
    let cells = cells(report);
    if cells.is_empty() {
        return None;
    }
    let columns = ["load", "part", "IOPS", "spread", "MB/s"]
        .into_iter()
        .chain(LATENCY_COLUMNS)
        .chain(["processor time"]);
    let parts = vec![Part::Table(Table::new("", columns, cells.iter().map(row).collect()))];
    let text = "All loads of this report. Rates are medians of the rounds, the spread is the highest minus the lowest round by the median; latencies are of all \
                rounds together. The JSON report has the rounds and their histograms.";
    Some(Section { id: "all", title: "All figures", text: text.into(), parts })
}

fn row(cell: &Cell<'_>) -> Vec<String> {
    let load = cell.measurement;
    let part = cell.part.to_string();
    let section = cell.section.replace('_', " ");
    let mut row = vec![
        load.job.to_string(),
        if part.is_empty() { section } else { format!("{section}, {part}") },
        figures::number_or_dash(rate(load)),
        spread(load).map_or_else(|| figures::DASH.into(), figures::percent),
        figures::number_or_dash(throughput(load)),
    ];
    row.extend(latency_cells(load));
    row.push(figures::nanoseconds(load.cpu_ns_per_io()));
    row
}

/// Highest minus lowest round by the median; none with a single round.
fn spread(load: &Measurement) -> Option<f64> {
    if load.rounds.len() < 2 {
        return None;
    }
    let rates = || load.rounds.iter().map(crate::report::Round::iops);
    let (low, high) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    figures::ratio(high - low, load.iops())
}
