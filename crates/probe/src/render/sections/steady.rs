//! Whether the device had come to rest.

use super::loads::WRITE;
use crate::render::document::{Part, Section, Table};
use crate::render::figures;
use crate::render::svg::{Axis, LinePlot, Plot, Series, Ticks};
use crate::report::{Report, Round, SteadyState};

pub(super) fn section(report: &Report) -> Option<Section> {
    let steady = report.steady.as_ref()?;
    let parts = vec![
        Part::Verdict(steady.reached, verdict(steady)),
        Part::Plots(vec![Plot::Lines(plot(steady))]),
        Part::Table(table(steady)),
    ];
    let text = format!(
        "The same load ({}) round after round. Steady are five rounds whose highest and lowest differ by at most 20 % of their mean, \
         with a fitted line that changes by at most 10 % of it.",
        steady.rounds.job
    );
    Some(Section { id: "steady", title: "Steady state", text, parts })
}

/// The conclusion, in which nobody overlooks a device that was still changing.
pub(super) fn verdict(steady: &SteadyState) -> String {
    let (excursion, slope) = (figures::percent(steady.excursion), figures::percent(steady.slope));
    if steady.reached {
        format!(
            "Steady at {} IOPS: the window's rounds differ by {excursion} of their mean, the fitted line changes by {slope}.",
            figures::number(steady.mean_iops)
        )
    } else {
        format!(
            "NOT STEADY: the last rounds differ by {excursion} of their mean (20 % are allowed), the fitted line changes by {slope} \
             (10 % are allowed). All other figures are of a device that was still changing."
        )
    }
}

/// Number of the window's first and last round, from 1.
fn window(steady: &SteadyState) -> (f64, f64) {
    let last = steady.rounds.rounds.len().max(1);
    ((steady.window_start.min(last - 1) + 1) as f64, last as f64)
}

fn plot(steady: &SteadyState) -> LinePlot {
    let rounds = &steady.rounds.rounds;
    let points = rounds.iter().enumerate().map(|(at, round)| ((at + 1) as f64, round.iops())).collect();
    let (mean, half) = (steady.mean_iops, steady.slope / 2.0);
    let (first, last) = window(steady);
    let fitted = vec![(first, mean * (1.0 - half)), (last, mean * (1.0 + half))];
    let mut series = vec![Series::line("measured", WRITE, points)];
    if rounds.len() > 1 {
        series.push(Series::dashed("fitted in the window", 0, fitted));
    }
    let x = Axis { ticks: Ticks::Round(figures::count), from_zero: false, ..Axis::linear("round") };
    let y = Axis { from_zero: false, ..Axis::linear("IOPS (need not begin at 0)") };
    let mut plot = LinePlot::new("Rounds, and the window that is judged", x, y, series);
    plot.bounds = vec![(mean * 1.1, "mean + 10 %".into()), (mean * 0.9, "mean - 10 %".into())];
    plot.window = Some((first, last));
    plot
}

fn table(steady: &SteadyState) -> Table {
    let (first, _) = window(steady);
    let row = |(at, round): (usize, &Round)| {
        let by_mean = figures::ratio(round.iops(), steady.mean_iops).map(|share| share - 1.0);
        vec![
            (at + 1).to_string(),
            figures::number(round.iops()),
            figures::change(by_mean),
            figures::nanoseconds(round.latency.p99_ns as f64),
            if (at + 1) as f64 >= first { "yes".into() } else { String::new() },
        ]
    };
    let rows = steady.rounds.rounds.iter().enumerate().map(row).collect();
    Table::new("", ["round", "IOPS", "by the window's mean", "p99", "in the window"], rows)
}
