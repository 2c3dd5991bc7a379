//! Reads and writes mixed.

use super::loads::{LATENCY_COLUMNS, LINES_MAX, distinct, latency_cells, rate, throughput};
use crate::render::document::{Part, Section, Table};
use crate::render::figures;
use crate::render::svg::{Axis, LinePlot, Plot, Series, Ticks};
use crate::report::{Measurement, Report};

pub(super) fn section(report: &Report) -> Option<Section> {
    if report.mixes.is_empty() {
        return None;
    }
    let row = |load: &Measurement| {
        let job = &load.job;
        let mut row = vec![
            format!("{} %", job.read_percent),
            figures::bytes(job.block_bytes.into()),
            job.depth.to_string(),
            figures::number_or_dash(rate(load)),
            figures::number_or_dash(throughput(load)),
        ];
        row.extend(latency_cells(load));
        row
    };
    let columns = ["reads", "block", "depth", "IOPS", "MB/s"].into_iter().chain(LATENCY_COLUMNS);
    let rows = report.mixes.iter().map(row).collect();
    let parts = vec![Part::Plots(vec![plot(&report.mixes)]), Part::Table(Table::new("", columns, rows))];
    let text = "Random transfers of which a share are reads, in random order. Few writes often cost the reads more than their share.";
    Some(Section { id: "mixes", title: "Mixes of reads and writes", text: text.into(), parts })
}

fn plot(mixes: &[Measurement]) -> Plot {
    let kinds = distinct(mixes.iter().map(|load| (load.job.block_bytes, load.job.depth)));
    let series = kinds.iter().take(LINES_MAX).enumerate().map(|(colour, &(block, depth))| {
        let of_kind = mixes.iter().filter(|load| (load.job.block_bytes, load.job.depth) == (block, depth));
        let mut points: Vec<(f64, f64)> =
            of_kind.filter_map(|load| Some((load.job.read_percent.into(), rate(load)?))).collect();
        points.sort_by(|one, next| one.0.total_cmp(&next.0));
        Series::line(format!("{}, depth {depth}", figures::bytes(block.into())), colour, points)
    });
    let x = Axis { ticks: Ticks::Round(figures::count), ..Axis::linear("reads, in percent") };
    let series = series.collect();
    Plot::Lines(LinePlot::new("Transfers per second by share of reads", x, Axis::linear("IOPS"), series))
}
