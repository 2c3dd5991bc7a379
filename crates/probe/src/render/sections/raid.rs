//! RAID-0 against its ideal.

use std::collections::BTreeMap;

use super::loads::{LINES_MAX, count_ticks, distinct, kind, rate, throughput};
use crate::render::document::{Part, Section, Table};
use crate::render::figures;
use crate::render::svg::{Axis, LinePlot, Plot, Series, Ticks};
use crate::report::{Pattern, RaidMeasurement, Report};

/// What stands in one plot: pattern, share of reads, block.
type Kind = (Pattern, u8, u32);

pub(super) fn section(report: &Report) -> Option<Section> {
    let raid = &report.raid;
    if raid.is_empty() {
        return None;
    }
    let kinds = distinct(raid.iter().map(kind_of));
    let plots = kinds.iter().flat_map(|&kind| plots(raid, kind)).collect();
    let parts = vec![Part::Plots(plots), Part::Table(table(raid))];
    let text = "Devices side by side as RAID-0, by stripe unit. Ideal is the rate of the fewest devices, multiplied; where the lines leave it, something else than the \
                devices is the limit: often the processor, so its time for each transfer stands beside.";
    Some(Section { id: "raid", title: "RAID-0 scaling", text: text.into(), parts })
}

fn kind_of(raid: &RaidMeasurement) -> Kind {
    let job = &raid.measurement.job;
    (job.pattern, job.read_percent, job.block_bytes)
}

/// The rate of one device, by the best measurement of the fewest; multiplied it is the ideal.
fn of_one(raid: &[RaidMeasurement], kind: Kind) -> Option<f64> {
    let fewest = raid.iter().filter(|one| kind_of(one) == kind).map(|one| one.devices).min()?;
    let rates = raid
        .iter()
        .filter(|one| kind_of(one) == kind && one.devices == fewest)
        .filter_map(|one| figures::ratio(rate(&one.measurement)?, fewest.into()));
    rates.max_by(f64::total_cmp)
}

/// The best figure of each number of devices, of one stripe unit.
fn best(raid: &[RaidMeasurement], kind: Kind, stripe: u32, is_rate: bool) -> Vec<(f64, f64)> {
    let of_stripe = raid.iter().filter(|one| kind_of(one) == kind && one.stripe_bytes == stripe);
    let mut points: Vec<(f64, f64, f64)> = of_stripe
        .filter_map(|one| {
            let rate = rate(&one.measurement)?;
            let figure = if is_rate { rate } else { one.measurement.cpu_ns_per_io() };
            Some((one.devices.into(), rate, figure))
        })
        .collect();
    points.sort_by(|one, next| one.0.total_cmp(&next.0).then(next.1.total_cmp(&one.1)));
    points.dedup_by(|next, kept| next.0 == kept.0);
    points.into_iter().map(|(devices, _, figure)| (devices, figure)).collect()
}

fn plots(raid: &[RaidMeasurement], kind_wanted: Kind) -> Vec<Plot> {
    let of_kind = || raid.iter().filter(|one| kind_of(one) == kind_wanted);
    let counts = distinct(of_kind().map(|one| one.devices));
    let stripes = distinct(of_kind().map(|one| one.stripe_bytes));
    let Some(first) = of_kind().next() else { return Vec::new() };
    let title = format!("{}, {}", kind(&first.measurement.job), figures::bytes(kind_wanted.2.into()));
    let lines = |is_rate| -> Vec<Series> {
        let line = |(colour, &stripe): (usize, &u32)| {
            let name = format!("stripe {}", figures::bytes(stripe.into()));
            Series::line(name, colour, best(raid, kind_wanted, stripe, is_rate))
        };
        stripes.iter().take(LINES_MAX - 1).enumerate().map(line).collect()
    };
    let mut rates = lines(true);
    if let Some(one) = of_one(raid, kind_wanted) {
        let ideal = counts.iter().map(|&devices| (devices.into(), one * f64::from(devices))).collect();
        rates.push(Series::dashed("ideal", 7, ideal));
    }
    let x = || Axis { is_log: false, from_zero: true, ..Axis::log_at("devices", count_ticks(&counts)) };
    let mut plots = vec![LinePlot::new(title.clone(), x(), Axis::linear("IOPS"), rates)];
    let cpu = lines(false);
    // A simulated device takes no time of a processor.
    if cpu.iter().flat_map(|series| &series.points).any(|point| point.1 > 0.0) {
        let y = Axis { ticks: Ticks::Round(figures::nanoseconds), ..Axis::linear("processor time") };
        plots.push(LinePlot::new(format!("Processor time of a transfer: {title}"), x(), y, cpu));
    }
    plots.into_iter().map(Plot::Lines).collect()
}

fn table(raid: &[RaidMeasurement]) -> Table {
    let kinds = distinct(raid.iter().map(kind_of));
    let ideals: BTreeMap<Kind, f64> =
        kinds.into_iter().filter_map(|kind| Some((kind, of_one(raid, kind)?))).collect();
    let row = |one: &RaidMeasurement| {
        let load = &one.measurement;
        let ideal = ideals.get(&kind_of(one)).map(|rate| rate * f64::from(one.devices));
        let share = rate(load).zip(ideal).and_then(|(rate, ideal)| figures::ratio(rate, ideal));
        vec![
            format!(
                "{}, {}, depth {}",
                kind(&load.job),
                figures::bytes(load.job.block_bytes.into()),
                load.job.depth
            ),
            one.devices.to_string(),
            figures::bytes(one.stripe_bytes.into()),
            figures::number_or_dash(rate(load)),
            figures::number_or_dash(throughput(load)),
            share.map_or_else(|| figures::DASH.into(), figures::percent),
            figures::nanoseconds(load.cpu_ns_per_io()),
        ]
    };
    let columns = ["", "devices", "stripe", "IOPS", "MB/s", "of the ideal", "processor time"];
    Table::new("", columns, raid.iter().map(row).collect())
}
