//! Read against write, by size of the block.

use super::loads::{self, READ, WRITE, find, pattern_name, rate, throughput};
use crate::render::document::{Part, Section, Table};
use crate::render::figures;
use crate::render::svg::{Axis, LinePlot, Plot, Series};
use crate::report::{Measurement, Pattern, Report};

pub(super) fn section(report: &Report) -> Option<Section> {
    if report.matrix.is_empty() {
        return None;
    }
    let mut parts = Vec::new();
    for pattern in [Pattern::Sequential, Pattern::Random] {
        let loads: Vec<&Measurement> =
            report.matrix.iter().filter(|load| load.job.pattern == pattern).collect();
        let blocks = loads::blocks(loads.iter().copied());
        let ends = ends(&loads::depths(loads.iter().copied()));
        if blocks.is_empty() {
            continue;
        }
        parts.push(Part::Plots(plots(report, pattern, &blocks, &ends)));
        parts.extend(ends.iter().map(|&depth| Part::Table(table(report, pattern, &blocks, depth))));
    }
    let text = "Reads against writes by the size of a transfer, with the fewest and the most transfers under way. Each figure is the median of its rounds.";
    Some(Section { id: "blocks", title: "Read against write by block size", text: text.into(), parts })
}

/// The lowest and the highest depth.
fn ends(depths: &[u32]) -> Vec<u32> {
    let mut ends: Vec<u32> = depths.first().into_iter().chain(depths.last()).copied().collect();
    ends.dedup();
    ends
}

fn plots(report: &Report, pattern: Pattern, blocks: &[u32], depths: &[u32]) -> Vec<Plot> {
    let name = pattern_name(pattern);
    let series = |figure: fn(&Measurement) -> Option<f64>| -> Vec<Series> {
        let mut all = Vec::new();
        for (at, &depth) in depths.iter().rev().enumerate() {
            for (percent, direction, colour) in [(100, "read", READ), (0, "write", WRITE)] {
                let point = |&block: &u32| {
                    Some((f64::from(block), figure(find(&report.matrix, (pattern, percent), block, depth)?)?))
                };
                let points = blocks.iter().filter_map(point).collect();
                // The second depth has the colours 6 and 5, which are near those of the first.
                let colour = if at == 0 { colour } else { 6 - colour };
                all.push(Series::line(format!("{direction}, depth {depth}"), colour, points));
            }
        }
        all
    };
    let x = || Axis::log_at("block", loads::size_ticks(blocks.iter().map(|&block| block.into())));
    vec![
        Plot::Lines(LinePlot::new(
            format!("{name}: transfers per second"),
            x(),
            Axis::log("IOPS"),
            series(rate),
        )),
        Plot::Lines(LinePlot::new(format!("{name}: throughput"), x(), Axis::log("MB/s"), series(throughput))),
    ]
}

fn table(report: &Report, pattern: Pattern, blocks: &[u32], depth: u32) -> Table {
    let row = |&block: &u32| {
        let read = find(&report.matrix, (pattern, 100), block, depth);
        let write = find(&report.matrix, (pattern, 0), block, depth);
        let by_write = read
            .and_then(rate)
            .zip(write.and_then(rate))
            .and_then(|(read, write)| figures::ratio(read, write));
        vec![
            figures::bytes(block.into()),
            figures::number_or_dash(read.and_then(rate)),
            figures::number_or_dash(write.and_then(rate)),
            figures::number_or_dash(read.and_then(throughput)),
            figures::number_or_dash(write.and_then(throughput)),
            figures::number_or_dash(by_write),
        ]
    };
    let columns = ["block", "read IOPS", "write IOPS", "read MB/s", "write MB/s", "read by write"];
    let caption = format!("{}, depth {depth}", pattern_name(pattern));
    Table::new(caption, columns, blocks.iter().map(row).collect())
}
