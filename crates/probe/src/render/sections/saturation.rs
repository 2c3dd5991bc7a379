//! Random writes from the first one on.

use super::loads::WRITE;
use crate::render::document::{Part, Section, Table};
use crate::render::figures;
use crate::render::svg::{Axis, LinePlot, Plot, Series, Ticks};
use crate::report::{Report, SaturationPoint};

/// Rows of the table; the plots have all points.
const ROWS: usize = 12;

pub(super) fn section(report: &Report) -> Option<Section> {
    let points = &report.saturation;
    if points.is_empty() {
        return None;
    }
    let parts = vec![Part::Plots(plots(points, report.target.tested_bytes)), Part::Table(table(points))];
    let text = "Random writes in equal intervals of time, from the first one on. A fresh device is fast until its spare blocks are used up; then it \
                cleans while it writes, and the rate falls to what it can keep.";
    Some(Section { id: "saturation", title: "Write saturation", text: text.into(), parts })
}

fn plots(points: &[SaturationPoint], tested_bytes: u64) -> Vec<Plot> {
    let over_time = |figure: fn(&SaturationPoint) -> f64| -> Vec<(f64, f64)> {
        points.iter().map(|point| (point.end_s, figure(point))).collect()
    };
    let rate = vec![Series::line("IOPS", WRITE, over_time(|point| point.iops))];
    let latency = vec![
        Series::line("p99", WRITE, over_time(|point| point.p99_ns as f64)),
        Series::line("longest", 3, over_time(|point| point.max_ns as f64)),
    ];
    let mut plots = vec![
        LinePlot::new("Writes per second, over time", time(), Axis::linear("IOPS"), rate),
        LinePlot::new("Latency of writes, over time", time(), Axis::latency(), latency),
    ];
    if tested_bytes > 0 {
        let written =
            |point: &SaturationPoint| (point.bytes_written as f64 / tested_bytes as f64, point.iops);
        let series = vec![Series::line("IOPS", WRITE, points.iter().map(written).collect())];
        let x = Axis::linear("bytes written, in sizes of the tested part");
        plots.push(LinePlot::new("Writes per second, over bytes written", x, Axis::linear("IOPS"), series));
    }
    let amplification: Vec<(f64, f64)> =
        points.iter().filter_map(|point| Some((point.end_s, point.write_amplification?))).collect();
    if !amplification.is_empty() {
        let series = vec![Series::line("write amplification", 4, amplification)];
        let y = Axis::linear("programs by host programs");
        plots.push(LinePlot::new("Write amplification, over time", time(), y, series));
    }
    plots.into_iter().map(Plot::Lines).collect()
}

fn time() -> Axis {
    Axis { ticks: Ticks::Round(figures::count), ..Axis::linear("seconds") }
}

fn table(points: &[SaturationPoint]) -> Table {
    let step = points.len().div_ceil(ROWS).max(1);
    let row = |point: &SaturationPoint| {
        vec![
            figures::seconds(point.end_s),
            figures::bytes(point.bytes_written),
            figures::number(point.iops),
            figures::nanoseconds(point.p99_ns as f64),
            figures::nanoseconds(point.max_ns as f64),
            figures::number_or_dash(point.write_amplification),
        ]
    };
    // Counted from the end, because the last interval says most.
    let mut rows: Vec<_> = points.iter().rev().step_by(step).map(row).collect();
    rows.reverse();
    let caption = if step > 1 { format!("One interval of every {step}") } else { String::new() };
    Table::new(caption, ["end", "written", "IOPS", "p99", "max", "write amplification"], rows)
}
