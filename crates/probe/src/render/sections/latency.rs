//! How long single transfers take, in the write modes.

use super::loads::{
    KINDS_MAX, LATENCY_COLUMNS, LINES_MAX, distinct, kind, latency_cells, mode_name, pattern_name, rate,
};
use crate::merged::Merged;
use crate::render::document::{Part, Section, Table};
use crate::render::figures;
use crate::render::svg::{Axis, LinePlot, Plot, Series};
use crate::report::{Measurement, Pattern, Report, WriteMode};

/// Ticks of the axis: n, of which one transfer takes longer, and the share of the others.
const TICKS: [(f64, &str); 6] =
    [(2.0, "50 %"), (10.0, "90 %"), (100.0, "99 %"), (1e3, "99.9 %"), (1e4, "99.99 %"), (1e5, "99.999 %")];

pub(super) fn section(report: &Report) -> Option<Section> {
    let loads = &report.latency;
    if loads.is_empty() {
        return None;
    }
    let plots = groups(loads).into_iter().map(|group| plot(loads, group)).collect();
    let mut parts = vec![Part::Plots(plots), Part::Table(table(loads))];
    parts.extend(hidden(loads).map(Part::Table));
    let text = "Transfers one at a time. The lines show which share of the transfers took no longer than what; the scale is spread towards the slow ones, \
                because a program that waits for many transfers waits for those. Writes count as done when the device says so (write cache), after a flush \
                that follows each, or when they are durable by themselves (O_DSYNC).";
    Some(Section { id: "latency", title: "Latency", text: text.into(), parts })
}

/// Patterns and blocks that were measured, sorted.
fn groups(loads: &[Measurement]) -> Vec<(Pattern, u32)> {
    distinct(loads.iter().map(|load| (load.job.pattern, load.job.block_bytes)))
}

fn plot(loads: &[Measurement], group: (Pattern, u32)) -> Plot {
    let of_group = loads.iter().filter(|load| (load.job.pattern, load.job.block_bytes) == group);
    let series: Vec<Series> = of_group
        .take(LINES_MAX)
        .enumerate()
        .map(|(colour, load)| Series::line(name(load), colour, points(load)))
        .collect();
    let most =
        series.iter().flat_map(|series| &series.points).fold(10.0, |most: f64, point| most.max(point.0));
    let ticks = TICKS.iter().filter(|tick| tick.0 <= most).map(|&(at, label)| (at, label.to_owned()));
    let x = Axis::log_at("share of the transfers", ticks.collect());
    let title = format!("{}, {}", pattern_name(group.0), figures::bytes(group.1.into()));
    Plot::Lines(LinePlot::new(title, x, Axis::latency(), series))
}

fn name(load: &Measurement) -> String {
    let direction = load.job.direction();
    if load.job.is_read_only() {
        direction
    } else {
        format!("{direction}, {}", mode_name(load.job.write_mode))
    }
}

/// For each bucket, n of which one transfer takes longer, and the bucket's latency. The last bucket gets the
/// number of all transfers.
fn points(load: &Measurement) -> Vec<(f64, f64)> {
    let merged = Merged::of(load);
    let all = merged.transfers().max(1) as f64;
    let start = merged.quantiles().next().map(|first| (1.0, first.1 as f64));
    let rest = merged.quantiles().map(|(share, upper_ns)| ((1.0 / (1.0 - share)).min(all), upper_ns as f64));
    start.into_iter().chain(rest).collect()
}

fn table(loads: &[Measurement]) -> Table {
    let row = |load: &Measurement| {
        let job = &load.job;
        let mode = if job.is_read_only() { figures::DASH } else { mode_name(job.write_mode) };
        let mut row = vec![
            kind(job),
            figures::bytes(job.block_bytes.into()),
            mode.into(),
            figures::number_or_dash(rate(load)),
        ];
        row.extend(latency_cells(load));
        row
    };
    let columns = ["", "block", "write mode", "IOPS"].into_iter().chain(LATENCY_COLUMNS);
    Table::new("", columns, loads.iter().map(row).collect())
}

/// What the write cache hides: the mean and the longest write without it, by those with it.
fn hidden(loads: &[Measurement]) -> Option<Table> {
    let cached =
        loads.iter().filter(|load| !load.job.is_read_only() && load.job.write_mode == WriteMode::Cached);
    let rows: Vec<Vec<String>> = cached.take(KINDS_MAX).flat_map(|load| hidden_rows(loads, load)).collect();
    let columns = ["", "block", "without", "mean by mean with cache", "max by max with cache"];
    (!rows.is_empty()).then(|| Table::new("What the write cache hides", columns, rows))
}

fn hidden_rows(loads: &[Measurement], cached: &Measurement) -> Vec<Vec<String>> {
    let base = Merged::of(cached);
    let modes = [WriteMode::FlushEach, WriteMode::Dsync].into_iter();
    let row = |mode: WriteMode| {
        let job = crate::report::Job { write_mode: mode, ..cached.job.clone() };
        let other = Merged::of(loads.iter().find(|load| load.job == job)?);
        Some(vec![
            kind(&cached.job),
            figures::bytes(cached.job.block_bytes.into()),
            mode_name(mode).into(),
            figures::number_or_dash(figures::ratio(other.mean_ns, base.mean_ns)),
            figures::number_or_dash(figures::ratio(other.max_ns as f64, base.max_ns as f64)),
        ])
    };
    modes.filter_map(row).collect()
}
