//! Readers beside a writer.

use super::loads::{KINDS_MAX, LATENCY_COLUMNS, latency_cells, rate};
use crate::merged::Merged;
use crate::render::document::{Part, Section, Table};
use crate::render::figures;
use crate::render::svg::{Axis, LinePlot, Plot, Series};
use crate::report::{Interference, Report};

pub(super) fn section(report: &Report) -> Option<Section> {
    let tests = &report.interference;
    if tests.is_empty() {
        return None;
    }
    let rows = tests.iter().map(row).collect();
    let columns =
        ["writer", "reads per second"].into_iter().chain(LATENCY_COLUMNS).chain(["writes per second"]);
    let parts = vec![
        Part::Plots(vec![plot(tests)]),
        Part::Table(Table::new("Latencies of the reader", columns, rows)),
    ];
    let text = "Random reads one at a time, alone and beside random writes. The writer moves the tail of the reader long before it moves the middle.";
    Some(Section { id: "interference", title: "Readers beside a writer", text: text.into(), parts })
}

fn writer(test: &Interference) -> String {
    match test.writer_depth {
        0 => "none".into(),
        depth => format!("depth {depth}"),
    }
}

fn row(test: &Interference) -> Vec<String> {
    let mut row = vec![writer(test), figures::number_or_dash(rate(&test.reader))];
    row.extend(latency_cells(&test.reader));
    row.push(figures::number_or_dash(test.writer.as_ref().and_then(rate)));
    row
}

fn plot(tests: &[Interference]) -> Plot {
    let merged: Vec<Merged> = tests.iter().take(KINDS_MAX).map(|test| Merged::of(&test.reader)).collect();
    let line = |name: &str, colour, figure: fn(&Merged) -> u64| {
        let points = merged.iter().enumerate().map(|(at, merged)| (at as f64, figure(merged) as f64));
        Series::line(name, colour, points.collect())
    };
    let series = vec![
        line("p50", 0, |merged| merged.p50_ns),
        line("p99", 2, |merged| merged.p99_ns),
        line("p99.9", 1, |merged| merged.p999_ns),
        line("longest", 3, |merged| merged.max_ns),
    ];
    let x = Axis::named("writer", tests.iter().take(KINDS_MAX).map(writer));
    Plot::Lines(LinePlot::new("Latency of reads beside a writer", x, Axis::latency(), series))
}
