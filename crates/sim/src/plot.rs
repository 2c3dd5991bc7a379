//! Pictures: occupied memory by rank of machine, as the paper shows it, and imbalance by placer.

use std::fs;
use std::path::{Path, PathBuf};

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::contender::{Contender, Placer};
use crate::error::SimError;
use crate::report::Report;

const SIZE: (u32, u32) = (820, 460);
const FONT: &str = "sans-serif";
/// Room above the highest bar, for its number.
const HEADROOM: f64 = 1.15;
/// Part of its place that a bar takes.
const BAR_SHARE: f64 = 0.8;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), String>;

/// Draws both into a directory; the files made.
///
/// # Errors
/// [`SimError::Io`], [`SimError::Plot`].
pub fn draw(reports: &[Report], out_dir: &Path) -> Result<Vec<PathBuf>, SimError> {
    let Some(first) = reports.first() else { return Ok(Vec::new()) };
    fs::create_dir_all(out_dir).map_err(|reason| SimError::Io {
        doing: "creating",
        path: out_dir.to_owned(),
        reason,
    })?;
    let scale = first.scenario.replace(' ', "-");
    let (ranks, imbalance) = (format!("sim-ranks-{scale}.svg"), format!("sim-imbalance-{scale}.svg"));
    Ok(vec![
        picture(out_dir.join(ranks), |area| draw_ranks(area, reports))?,
        picture(out_dir.join(imbalance), |area| draw_imbalance(area, reports))?,
    ])
}

fn picture(path: PathBuf, draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<PathBuf, SimError> {
    let root = SVGBackend::new(&path, SIZE).into_drawing_area();
    let drawn = root
        .fill(&WHITE)
        .map_err(|error| error.to_string())
        .and_then(|()| draw(&root))
        .and_then(|()| root.present().map_err(|error| error.to_string()));
    drop(root);
    match drawn {
        Ok(()) => Ok(path),
        Err(reason) => Err(SimError::Plot { path, reason }),
    }
}

fn draw_ranks(area: &Area<'_>, reports: &[Report]) -> Drawn {
    let fail = |error: DrawingAreaErrorKind<_>| error.to_string();
    let machines = reports.iter().map(|report| report.machines).max().unwrap_or(1) as f64;
    let title = format!("Occupied memory by rank of machine, {}", reports[0].scenario);
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 18))
        .margin(14)
        .x_label_area_size(40)
        .y_label_area_size(50)
        .build_cartesian_2d(1.0..machines.max(2.0), 0.0..100.0)
        .map_err(fail)?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh().light_line_style(WHITE).label_style((FONT, 13));
    mesh.x_label_formatter(&|rank| format!("{rank:.0}"))
        .x_desc("rank")
        .y_desc("% occupied")
        .draw()
        .map_err(fail)?;
    // Other evictions would lie on the line of the first.
    let mut placers = Vec::new();
    for report in reports {
        let placer = report.outcome.contender.placer;
        if placers.contains(&placer) {
            continue;
        }
        placers.push(placer);
        let ranks = &report.outcome.by_rank;
        let step = (machines - 1.0) / (ranks.len().max(2) - 1) as f64;
        let line = ranks.iter().enumerate().map(|(nth, share)| (1.0 + nth as f64 * step, 100.0 * share));
        let style = color(report.outcome.contender).stroke_width(2);
        let mean = 100.0 * mean(&report.outcome.by_rank);
        let label = format!("{}: {placer}, {mean:.1} %", placer.word());
        let drawn = chart.draw_series(LineSeries::new(line, style)).map_err(fail)?;
        drawn.label(label).legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    let mut labels = chart.configure_series_labels();
    labels.position(SeriesLabelPosition::UpperRight);
    labels.border_style(BLACK.mix(0.2)).background_style(WHITE).label_font((FONT, 13)).draw().map_err(fail)
}

fn draw_imbalance(area: &Area<'_>, reports: &[Report]) -> Drawn {
    let fail = |error: DrawingAreaErrorKind<_>| error.to_string();
    let highest = reports.iter().map(|report| report.outcome.max_to_median).fold(1.0, f64::max) * HEADROOM;
    let names: Vec<String> = reports.iter().map(|report| name(report.outcome.contender)).collect();
    let title = format!("Fullest machine over median machine, {}", reports[0].scenario);
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 18))
        .margin(14)
        .x_label_area_size(30)
        .y_label_area_size(50)
        .build_cartesian_2d((0..reports.len().saturating_sub(1).max(1)).into_segmented(), 0.0..highest)
        .map_err(fail)?;
    let label = |at: &SegmentValue<usize>| match at {
        SegmentValue::CenterOf(nth) => names.get(*nth).cloned().unwrap_or_default(),
        _ => String::new(),
    };
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh().light_line_style(WHITE).label_style((FONT, 13)).y_desc("max / median");
    mesh.x_labels(reports.len()).x_label_formatter(&label).draw().map_err(fail)?;
    for (nth, report) in reports.iter().enumerate() {
        let height = report.outcome.max_to_median;
        let corners = [(SegmentValue::Exact(nth), 0.0), (SegmentValue::Exact(nth + 1), height)];
        let mut bar = Rectangle::new(corners, color(report.outcome.contender).filled());
        let side = (f64::from(SIZE.0) / reports.len() as f64 * (1.0 - BAR_SHARE) / 2.0) as u32;
        bar.set_margin(0, 0, side, side);
        chart.draw_series([bar]).map_err(fail)?;
        let number = Text::new(
            format!("{height:.2}"),
            (SegmentValue::CenterOf(nth), height + 0.05 * highest),
            (FONT, 13).into_font(),
        );
        chart.draw_series([number]).map_err(fail)?;
    }
    Ok(())
}

fn name(contender: Contender) -> String {
    match contender.placer {
        Placer::Nobody => contender.placer.word().to_string(),
        placer => format!("{} {}", placer.word(), contender.eviction),
    }
}

fn mean(shares: &[f64]) -> f64 {
    shares.iter().sum::<f64>() / shares.len().max(1) as f64
}

/// Colours that stay apart for colour-blind readers (Okabe and Ito 2008).
fn color(contender: Contender) -> RGBColor {
    match contender.placer {
        Placer::Nobody => RGBColor(130, 130, 130),
        Placer::TwoChoices => RGBColor(0, 158, 115),
        Placer::TwoMostFree => RGBColor(86, 180, 233),
        Placer::TwoNew => RGBColor(213, 94, 0),
        Placer::TwoNewMostFree => RGBColor(204, 121, 167),
        Placer::OneChoice => RGBColor(230, 159, 0),
        Placer::Greedy => RGBColor(0, 114, 178),
    }
}
