//! Loads on smaller and larger parts of the target.

use std::collections::BTreeMap;

use super::loads::{KINDS_MAX, LINES_MAX, distinct, kind, rate, size_ticks};
use crate::render::document::{Part, Section, Table};
use crate::render::figures;
use crate::render::svg::{Axis, LinePlot, Plot, Series};
use crate::report::Report;

/// Rates by span.
type Spans = BTreeMap<u64, f64>;

pub(super) fn section(report: &Report) -> Option<Section> {
    if report.working_set.is_empty() {
        return None;
    }
    let mut kinds: BTreeMap<String, Spans> = BTreeMap::new();
    for load in &report.working_set {
        let job = &load.job;
        let name = format!("{}, {}, depth {}", kind(job), figures::bytes(job.block_bytes.into()), job.depth);
        let is_room = kinds.len() < KINDS_MAX || kinds.contains_key(&name);
        if let Some(rate) = rate(load).filter(|_| is_room) {
            kinds.entry(name).or_default().insert(job.span_bytes, rate);
        }
    }
    let spans = distinct(report.working_set.iter().map(|load| load.job.span_bytes));
    let line = |(colour, (name, rates)): (usize, (&String, &Spans))| {
        let points = rates.iter().map(|(&span, &rate)| (span as f64, rate)).collect();
        Series::line(name.clone(), colour, points)
    };
    let series = kinds.iter().take(LINES_MAX).enumerate().map(line).collect();
    let x = Axis::log_at("part of the target that is used", size_ticks(spans.iter().copied()));
    let plot = LinePlot::new("Transfers per second by working set", x, Axis::log("IOPS"), series);
    let row = |&span: &u64| {
        let rates = kinds.values().map(|rates| figures::number_or_dash(rates.get(&span).copied()));
        std::iter::once(figures::bytes(span)).chain(rates).collect()
    };
    let columns = std::iter::once("working set").chain(kinds.keys().map(String::as_str));
    let table = Table::new("IOPS", columns, spans.iter().map(row).collect());
    let parts = vec![Part::Plots(vec![Plot::Lines(plot)]), Part::Table(table)];
    let text = "The same load on growing parts of the target. A step downwards shows a cache that the part no longer fits in: of the device, of its map, or of a host below.";
    Some(Section { id: "working-set", title: "Working set", text: text.into(), parts })
}
