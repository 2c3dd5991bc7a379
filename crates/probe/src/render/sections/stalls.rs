//! The longest transfer of every moment.

use crate::cells::{Cell, cells};
use crate::merged::Merged;
use crate::render::document::{Part, Section, Table};
use crate::render::figures;
use crate::render::svg::{Axis, LinePlot, Plot, Series, Ticks};
use crate::report::{Measurement, Report};

/// Rows of the table.
const ROWS: usize = 10;
/// Plots.
const PLOTS: usize = 4;

pub(super) fn section(report: &Report) -> Option<Section> {
    let mut cells = cells(report);
    cells.retain(|cell| timeline(cell.measurement).len() > 1);
    if cells.is_empty() {
        return None;
    }
    let mut stalls: Vec<(f64, Cell<'_>)> =
        cells.into_iter().map(|cell| (by_median(cell.measurement), cell)).collect();
    stalls.sort_by(|one, next| next.0.total_cmp(&one.0));
    let cells: Vec<Cell<'_>> = stalls.into_iter().map(|stall| stall.1).collect();
    // The steady rounds come first: they are the longest stretch of one load.
    let steady = cells.iter().filter(|cell| cell.section == "steady");
    let others = cells.iter().filter(|cell| cell.section != "steady");
    let plots = steady.chain(others).take(PLOTS).map(plot).collect();
    let rows = cells.iter().take(ROWS).map(row).collect();
    let columns = ["load", "median", "longest", "longest by median", "at", "moments over 100 ms"];
    let caption = "The loads with the longest transfers, by their median";
    let parts = vec![Part::Plots(plots), Part::Table(Table::new(caption, columns, rows))];
    let text = "The longest transfer of each tenth of a second or longer, all rounds one after the other. A stall is a moment in which a transfer took far longer \
                than usual: the device was cleaning, flushing a cache, or serving somebody else.";
    Some(Section { id: "stalls", title: "Stalls", text: text.into(), parts })
}

/// Seconds since the first round began, and the longest transfer that ended in the slice before.
fn timeline(load: &Measurement) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let mut start_s = 0.0;
    for round in &load.rounds {
        points.extend(round.timeline.iter().map(|slice| (start_s + slice.end_s, slice.max_ns as f64)));
        start_s += round.duration_s;
    }
    points
}

/// The longest transfer by the median one: deep queues make every transfer long, and that is no stall.
fn by_median(load: &Measurement) -> f64 {
    let longest = timeline(load).iter().fold(0.0, |longest: f64, point| longest.max(point.1));
    figures::ratio(longest, Merged::of(load).p50_ns as f64).unwrap_or(0.0)
}

fn title(cell: &Cell<'_>) -> String {
    let part = cell.part.to_string();
    let comma = if part.is_empty() { "" } else { ", " };
    format!("{}: {part}{comma}{}", cell.section.replace('_', " "), cell.measurement.job)
}

fn plot(cell: &Cell<'_>) -> Plot {
    let points = timeline(cell.measurement);
    let series = vec![Series::line("longest", 3, points)];
    let x = Axis { ticks: Ticks::Round(figures::count), ..Axis::linear("seconds") };
    Plot::Lines(LinePlot::new(title(cell), x, Axis::latency(), series))
}

fn row(cell: &Cell<'_>) -> Vec<String> {
    let points = timeline(cell.measurement);
    let worst = points.iter().max_by(|one, next| one.1.total_cmp(&next.1)).copied().unwrap_or((0.0, 0.0));
    let over = points.iter().filter(|point| point.1 > 1e8).count();
    vec![
        title(cell),
        figures::nanoseconds(Merged::of(cell.measurement).p50_ns as f64),
        figures::nanoseconds(worst.1),
        figures::number(by_median(cell.measurement)),
        figures::seconds(worst.0),
        format!("{over} of {}", points.len()),
    ]
}
