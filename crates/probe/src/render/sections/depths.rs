//! What more transfers under way bring.

use super::loads::{self, find, pattern_name, rate};
use crate::merged::Merged;
use crate::render::document::{Part, Section, Table};
use crate::render::figures;
use crate::render::svg::{Axis, HeatPlot, LinePlot, Plot, Series};
use crate::report::{Measurement, Pattern, Report};

/// The block that databases use most.
const COMMON_BLOCK: u32 = 4096;

/// Patterns, shares of reads, names and colours of the four corners of the matrix.
const CORNERS: [(Pattern, u8, &str, usize); 4] = [
    (Pattern::Random, 100, "random read", 0),
    (Pattern::Random, 0, "random write", 1),
    (Pattern::Sequential, 100, "sequential read", 6),
    (Pattern::Sequential, 0, "sequential write", 5),
];

pub(super) fn section(report: &Report) -> Option<Section> {
    let depths = loads::depths(&report.matrix);
    if depths.len() < 2 {
        return None;
    }
    let blocks = loads::blocks(&report.matrix);
    let block = common(&blocks)?;
    let maps = CORNERS.iter().filter_map(|&(pattern, percent, name, _)| {
        let map = heat(&report.matrix, (pattern, percent), name, &blocks, &depths);
        map.values.iter().flatten().any(Option::is_some).then_some(Plot::Heat(map))
    });
    let parts = vec![
        Part::Plots(lines(report, block, &depths)),
        Part::Table(table(report, block, &depths)),
        Part::Plots(maps.collect()),
    ];
    let text = format!(
        "Transfers per second by the number of transfers that are always under way: lines for blocks of {}, fields for all. Where the rate stops to \
         rise, more depth only makes each transfer wait longer.",
        figures::bytes(block.into())
    );
    Some(Section { id: "depth", title: "Queue depth", text, parts })
}

/// The most common block if it was measured, or the one nearest to it.
pub(super) fn common(blocks: &[u32]) -> Option<u32> {
    blocks.iter().copied().min_by_key(|block| block.abs_diff(COMMON_BLOCK))
}

fn lines(report: &Report, block: u32, depths: &[u32]) -> Vec<Plot> {
    let series = |figure: fn(&Measurement) -> Option<f64>| -> Vec<Series> {
        let corner = |&(pattern, percent, name, colour): &(Pattern, u8, &str, usize)| {
            let point = |&depth: &u32| {
                Some((f64::from(depth), figure(find(&report.matrix, (pattern, percent), block, depth)?)?))
            };
            Series::line(name, colour, depths.iter().filter_map(point).collect())
        };
        CORNERS.iter().map(corner).filter(|series| !series.points.is_empty()).collect()
    };
    let x = || Axis::log_at("transfers under way", loads::count_ticks(depths));
    let p99 = |load: &Measurement| Some(Merged::of(load).p99_ns as f64);
    let size = figures::bytes(block.into());
    vec![
        Plot::Lines(LinePlot::new(
            format!("Transfers per second, {size}"),
            x(),
            Axis::linear("IOPS"),
            series(rate),
        )),
        Plot::Lines(LinePlot::new(format!("Latency (p99), {size}"), x(), Axis::latency(), series(p99))),
    ]
}

fn heat(
    matrix: &[Measurement],
    corner: (Pattern, u8),
    name: &str,
    blocks: &[u32],
    depths: &[u32],
) -> HeatPlot {
    let row = |&block: &u32| {
        depths.iter().map(|&depth| find(matrix, corner, block, depth).and_then(rate)).collect()
    };
    HeatPlot {
        title: format!("IOPS, {name}"),
        rows: blocks.iter().map(|&block| figures::bytes(block.into())).collect(),
        columns: depths.iter().map(u32::to_string).collect(),
        x_name: "transfers under way".into(),
        y_name: "block".into(),
        values: blocks.iter().map(row).collect(),
    }
}

fn table(report: &Report, block: u32, depths: &[u32]) -> Table {
    let corners: Vec<_> = CORNERS
        .iter()
        .filter(|corner| {
            report.matrix.iter().any(|load| (load.job.pattern, load.job.read_percent) == (corner.0, corner.1))
        })
        .collect();
    let row = |&depth: &u32| {
        let figure = |corner: &&(Pattern, u8, &str, usize)| {
            let load = find(&report.matrix, (corner.0, corner.1), block, depth);
            figures::number_or_dash(load.and_then(rate))
        };
        std::iter::once(depth.to_string()).chain(corners.iter().map(figure)).collect()
    };
    let columns = std::iter::once("depth").chain(corners.iter().map(|corner| corner.2));
    let patterns = [Pattern::Random, Pattern::Sequential].map(pattern_name).join(" and ");
    let caption = format!("IOPS, {patterns}, {}", figures::bytes(block.into()));
    Table::new(caption, columns, depths.iter().map(row).collect())
}
