//! The picture: one row of panels for each load, one line for each page size, over the buffer.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use aquifer_base::units::format_size;
use aquifer_bench::error::{Error, Result};
use aquifer_bench::study::{Record, Study, median_of};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::PageSize;

const PANEL_WIDTH: u32 = 420;
const PANEL_HEIGHT: u32 = 300;
const HEADER_HEIGHT: u32 = 60;
const FONT: &str = "sans-serif";
/// Room above the highest point.
const HEADROOM: f64 = 1.1;
/// Room left and right of the first and the last buffer, in steps of a buffer.
const SIDE: f64 = 0.25;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = std::result::Result<(), String>;

/// A figure that is worth a panel.
struct Measure {
    title: &'static str,
    figure: &'static str,
    divisor: f64,
}

const MEASURES: [Measure; 3] = [
    Measure { title: "transactions/s", figure: "ops_per_s", divisor: 1.0 },
    Measure { title: "CPU, us/transaction", figure: "cpu_ns_each", divisor: 1e3 },
    Measure { title: "read + written, KiB/transaction", figure: "moved_bytes_each", divisor: 1024.0 },
];

/// Draws one picture for each journal; the files made.
///
/// # Errors
/// [`Error::Io`]; [`Error::Input`] if a picture cannot be drawn.
pub fn draw(records: &[Record], out_dir: &Path) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(out_dir).map_err(Error::io("creating", out_dir))?;
    let is_measured = |run: &&Record| run.study == PageSize::NAME && run.figures.get("ops_per_s").is_some();
    let runs: Vec<&Record> = records.iter().filter(is_measured).collect();
    let journals: BTreeSet<String> = runs.iter().map(|run| run.point.text("journal")).collect();
    let mut drawn = Vec::new();
    for journal in journals {
        let path = out_dir.join(format!("page-size-{journal}.svg"));
        let runs: Vec<_> = runs.iter().copied().filter(|run| run.point.text("journal") == journal).collect();
        let failed = |error| Error::Input(format!("{} cannot be drawn: {error}", path.display()));
        picture(&path, &journal, &runs).map_err(failed)?;
        drawn.push(path);
    }
    Ok(drawn)
}

/// A whole number of the point.
fn number(run: &Record, field: &str) -> u64 {
    run.point.number(field).unwrap_or(0.0) as u64
}

fn pages(runs: &[&Record]) -> BTreeSet<u64> {
    runs.iter().map(|run| page_bytes(run)).collect()
}

fn page_bytes(run: &Record) -> u64 {
    run.figures.number("page_bytes").unwrap_or(0.0) as u64
}

fn picture(path: &Path, journal: &str, runs: &[&Record]) -> Drawn {
    let loads: BTreeSet<String> = runs.iter().map(|run| run.point.text("load")).collect();
    let columns = MEASURES.len();
    let size = (PANEL_WIDTH * columns as u32, HEADER_HEIGHT + PANEL_HEIGHT * loads.len() as u32);
    let root = SVGBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE).map_err(|error| error.to_string())?;
    let (head, body) = root.split_vertically(HEADER_HEIGHT);
    header(&head, journal, runs)?;
    let areas = body.split_evenly((loads.len(), columns));
    for (load, row) in loads.iter().zip(areas.chunks(columns)) {
        let of_load: Vec<&Record> =
            runs.iter().copied().filter(|run| run.point.text("load") == *load).collect();
        for (measure, area) in MEASURES.iter().zip(row) {
            panel(area, load, measure, &of_load)?;
        }
    }
    root.present().map_err(|error| error.to_string())
}

/// Title and legend.
fn header(area: &Area<'_>, journal: &str, runs: &[&Record]) -> Drawn {
    let text = |words: String, at, size: i32| {
        area.draw(&Text::new(words, at, (FONT, size).into_font())).map_err(|error| error.to_string())
    };
    let data = runs.first().map_or(0, |run| number(run, "data_bytes"));
    let title = format!(
        "SQLite, {} of data, journal {journal}, by buffer; medians, bars from least to most",
        format_size(data)
    );
    text(title, (20, 10), 18)?;
    let mut x = 20;
    for page_bytes in pages(runs) {
        let square = Rectangle::new([(x, 38), (x + 12, 50)], color(page_bytes).filled());
        area.draw(&square).map_err(|error| error.to_string())?;
        text(format!("{} pages", format_size(page_bytes)), (x + 17, 38), 14)?;
        x += 130;
    }
    Ok(())
}

fn panel(area: &Area<'_>, load: &str, measure: &Measure, runs: &[&Record]) -> Drawn {
    let fail = |error: DrawingAreaErrorKind<_>| error.to_string();
    let buffers: Vec<u64> =
        runs.iter().map(|run| number(run, "buffer_bytes")).collect::<BTreeSet<_>>().into_iter().collect();
    let lines: Vec<_> =
        pages(runs).into_iter().map(|page| (page, points(runs, page, &buffers, measure))).collect();
    let highest =
        lines.iter().flat_map(|(_, points)| points).map(|point| point.most).fold(f64::MIN_POSITIVE, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{load}-like: {}", measure.title), (FONT, 15))
        .margin(10)
        .x_label_area_size(28)
        .y_label_area_size(50)
        .build_cartesian_2d(-SIDE..buffers.len() as f64 - 1.0 + SIDE, 0.0..highest * HEADROOM)
        .map_err(fail)?;
    let name = |x: &f64| nth(&buffers, *x).map_or(String::new(), format_size);
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh().light_line_style(WHITE).label_style((FONT, 13));
    mesh.x_labels(buffers.len())
        .x_label_formatter(&name)
        .y_label_formatter(&|y| format!("{y:.0}"))
        .draw()
        .map_err(fail)?;
    for (page, points) in &lines {
        let style = color(*page).stroke_width(2);
        let line = points.iter().map(|point| (point.x, point.median));
        chart.draw_series(LineSeries::new(line, style)).map_err(fail)?;
        let marks = points.iter().map(|point| Circle::new((point.x, point.median), 3, color(*page).filled()));
        chart.draw_series(marks).map_err(fail)?;
        let bar =
            |point: &Point| PathElement::new([(point.x, point.least), (point.x, point.most)], color(*page));
        chart.draw_series(points.iter().map(bar)).map_err(fail)?;
    }
    Ok(())
}

/// The buffer at a place of the axis; none between two.
fn nth(buffers: &[u64], x: f64) -> Option<u64> {
    let nearest = x.round();
    let is_there = (x - nearest).abs() < 0.01 && nearest >= 0.0;
    is_there.then(|| buffers.get(nearest as usize).copied()).flatten()
}

/// A cell's place in a panel.
struct Point {
    x: f64,
    least: f64,
    median: f64,
    most: f64,
}

fn points(runs: &[&Record], page: u64, buffers: &[u64], measure: &Measure) -> Vec<Point> {
    let point = |(x, &buffer): (usize, &u64)| {
        let of_cell =
            runs.iter().filter(|run| page_bytes(run) == page && number(run, "buffer_bytes") == buffer);
        let values = of_cell.filter_map(|run| Some(run.figures.number(measure.figure)? / measure.divisor));
        let values: Vec<f64> = values.collect();
        Some(Point {
            x: x as f64,
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            most: values.iter().copied().fold(0.0, f64::max),
            median: median_of(values)?,
        })
    };
    buffers.iter().enumerate().filter_map(point).collect()
}

/// Colours that stay apart for colour-blind readers (Okabe and Ito 2008), from small pages to large ones.
fn color(page_bytes: u64) -> RGBColor {
    match page_bytes {
        0..=4096 => RGBColor(0, 158, 115),
        4097..=8192 => RGBColor(0, 114, 178),
        8193..=16_384 => RGBColor(230, 159, 0),
        _ => RGBColor(213, 94, 0),
    }
}

#[cfg(test)]
mod tests {
    use aquifer_bench::machine::Context;
    use aquifer_bench::study::Fields;

    use super::*;

    fn run(page_bytes: u64, buffer_bytes: u64) -> Record {
        let point =
            Fields::default().with("load", "tpc-b").with("journal", "wal").with("data_bytes", 512 << 20);
        let figures = Fields::default().with("ops_per_s", 500).with("page_bytes", page_bytes);
        Record {
            study: PageSize::NAME.to_owned(),
            peer: String::new(),
            run: 1,
            point: point.with("buffer_bytes", buffer_bytes),
            figures,
            left_out: None,
            context: Context::default(),
        }
    }

    #[test]
    fn the_picture_names_pages_buffers_and_loads() {
        let dir = std::env::temp_dir().join(format!("aquifer-research-plot-{}", std::process::id()));
        let records = [run(4096, 8 << 20), run(4096, 16 << 20), run(16_384, 8 << 20), run(16_384, 16 << 20)];
        let drawn = draw(&records, &dir).expect("a temporary directory");
        assert_eq!(drawn, [dir.join("page-size-wal.svg")]);
        let svg = fs::read_to_string(&drawn[0]).expect("just drawn");
        for part in [
            "4 KiB pages",
            "16 KiB pages",
            "8 MiB",
            "16 MiB",
            "tpc-b-like: transactions/s",
            "512 MiB of data",
        ] {
            assert!(svg.contains(part), "{part}");
        }
        assert!(draw(&[], &dir).expect("nothing to do").is_empty());
        fs::remove_dir_all(&dir).expect("exists");
    }
}
