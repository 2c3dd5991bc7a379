//! What TRIM and rest bring.

use super::loads::{KINDS_MAX, LATENCY_COLUMNS, latency_cells, rate};
use crate::render::document::{Part, Section, Table};
use crate::render::figures;
use crate::render::svg::{Axis, BarPlot, Bars, Plot};
use crate::report::{IdleTest, Measurement, Report, TrimTest};

pub(super) fn section(report: &Report) -> Option<Section> {
    let mut parts = Vec::new();
    let (trim, idle) = (report.trim.as_ref(), report.idle.as_ref());
    let plots: Vec<Plot> = trim.map(trim_plot).into_iter().chain(idle.map(idle_plot)).collect();
    if plots.is_empty() {
        return None;
    }
    parts.push(Part::Plots(plots));
    parts.extend(trim.map(|trim| Part::Table(trim_table(trim))));
    parts.extend(idle.map(|idle| Part::Table(idle_table(idle))));
    let text = "Random writes to the full target, and to one half of it after the other half was discarded (TRIM): what is discarded need not be moved when blocks are cleaned. \
                Short bursts of random writes after pauses: a device that cleans while it rests is faster after a longer one.";
    Some(Section { id: "recovery", title: "TRIM and rest", text: text.into(), parts })
}

fn bars(title: &str, x_name: &str, categories: Vec<String>, values: Vec<Option<f64>>) -> Plot {
    let bars = vec![Bars { name: "writes per second".into(), values, colour: super::loads::WRITE }];
    let (title, x_name) = (title.into(), x_name.into());
    Plot::Bars(BarPlot { title, categories, x_name, y: Axis::linear("IOPS"), bars })
}

fn trim_plot(trim: &TrimTest) -> Plot {
    let categories = vec!["before".into(), "after".into()];
    bars("Random writes before and after TRIM", "", categories, vec![rate(&trim.before), rate(&trim.after)])
}

fn idle_plot(idle: &IdleTest) -> Plot {
    let bursts = idle.pauses_s.iter().zip(&idle.bursts).take(KINDS_MAX);
    let (categories, values) =
        bursts.map(|(&pause_s, burst)| (figures::seconds(pause_s), rate(burst))).unzip();
    bars("Bursts of random writes after rest", "rest before the burst", categories, values)
}

fn row(name: String, load: &Measurement) -> Vec<String> {
    let mut row = vec![name, figures::number_or_dash(rate(load))];
    row.extend(latency_cells(load));
    row
}

fn trim_table(trim: &TrimTest) -> Table {
    let speed = figures::ratio(trim.bytes as f64 / 1e6, trim.duration_s);
    let caption = format!(
        "TRIM of {} took {} ({} MB/s)",
        figures::bytes(trim.bytes),
        figures::seconds(trim.duration_s),
        figures::number_or_dash(speed)
    );
    let rows = vec![row("before".into(), &trim.before), row("after".into(), &trim.after)];
    Table::new(caption, ["random writes", "IOPS"].into_iter().chain(LATENCY_COLUMNS), rows)
}

fn idle_table(idle: &IdleTest) -> Table {
    let bursts = idle.pauses_s.iter().zip(&idle.bursts);
    let rows = bursts.map(|(&pause_s, burst)| row(figures::seconds(pause_s), burst)).collect();
    Table::new("Bursts after rest", ["rest", "IOPS"].into_iter().chain(LATENCY_COLUMNS), rows)
}
