//! Pictures from result files: SVG bars of throughput, and of bytes written per byte changed. The page-size study draws its own.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use aquifer_base::units::format_size;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::distribution::Distribution;
use crate::error::{Error, Result};
use crate::page_size;
use crate::peer::Kind;
use crate::sample::Record;
use crate::table::{self, Group, Row};

const WIDTH: u32 = 1000;
const PANEL_HEIGHT: u32 = 300;
const HEADER_HEIGHT: u32 = 60;
/// Part of a group's width that its bars take.
const BARS_SHARE: f64 = 0.84;
/// Widest bar, as part of the panel's width.
const BAR_WIDTH_MAX: f64 = 0.1;
/// Part of a bar's width left free beside it.
const BAR_GAP: f64 = 0.06;
/// Room above the highest bar, for its number.
const HEADROOM: f64 = 1.15;
const FONT: &str = "sans-serif";

/// Draws all `files` together into `out_dir`.
///
/// # Errors
/// [`Error::Io`]; [`Error::Input`] if the files are malformed or hold nothing to draw.
pub fn run(files: &[PathBuf], out_dir: &Path) -> Result<()> {
    let records = table::read_all(files)?;
    let mut drawn = plot(&records, out_dir)?;
    drawn.extend(page_size::draw(&records, out_dir)?);
    if drawn.is_empty() {
        return Err(Error::Input("the files hold no sample of micro or page-size".to_owned()));
    }
    drawn.iter().for_each(|path| println!("{}", path.display()));
    Ok(())
}

/// Draws the micro-benchmark's samples; the files made.
///
/// # Errors
/// [`Error::Io`]; [`Error::Input`] if a picture cannot be drawn.
pub fn plot(records: &[Record], out_dir: &Path) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(out_dir).map_err(Error::io("creating", out_dir))?;
    let mut drawn = Vec::new();
    for group in table::groups(records) {
        for picture in pictures(&group) {
            let path = out_dir.join(format!("{}-{}.svg", picture.name, scale_name(&group)));
            picture.draw(&path)?;
            drawn.push(path);
        }
    }
    Ok(drawn)
}

fn scale_name(group: &Group) -> String {
    let name = format!("{}-{}", format_size(group.data_bytes), format_size(group.ram_bytes));
    name.to_lowercase().replace([' ', '.'], "")
}

/// One file: panels above each other, one per number of threads.
struct Picture {
    name: String,
    title: String,
    panels: Vec<Panel>,
}

/// Groups of bars, one bar per peer.
struct Panel {
    title: String,
    /// Name of the group, and a height for each peer that has one.
    bars: Vec<(String, Vec<(Kind, f64)>)>,
    /// What the device itself can do, as a line across.
    device: Option<f64>,
}

fn pictures(group: &Group) -> Vec<Picture> {
    let scale = format!(
        "{} of {}-byte objects, {} of RAM",
        format_size(group.data_bytes),
        group.object_bytes,
        format_size(group.ram_bytes)
    );
    let mut pictures: Vec<Picture> = [Distribution::Uniform, Distribution::Zipf, Distribution::ScatteredHot]
        .into_iter()
        .map(|distribution| Picture {
            name: format!("throughput-{distribution}"),
            title: format!("Thousand accesses per second, {distribution}, {scale}"),
            panels: panels(group, Some(distribution), |row| Some(row.ops_per_s / 1e3)),
        })
        .collect();
    pictures.push(Picture {
        name: "written".to_owned(),
        title: format!("Bytes written to the device per byte changed, {scale}"),
        panels: panels(group, None, |row| row.written_per_changed),
    });
    pictures.retain(|picture| !picture.panels.is_empty());
    pictures
}

/// One panel per number of threads, of all distributions or one; groups by share of reads.
fn panels(group: &Group, only: Option<Distribution>, height: impl Fn(&Row) -> Option<f64>) -> Vec<Panel> {
    let wanted = |distribution| only.is_none_or(|only| only == distribution);
    let threads: BTreeSet<usize> = group.points.keys().map(|point| point.threads).collect();
    let panel = |threads| {
        let mut bars = Vec::new();
        let points = group.points.iter().rev();
        for (point, rows) in
            points.filter(|(point, _)| point.threads == threads && wanted(point.distribution))
        {
            let shown = rows.iter().filter(|row| row.peer != Kind::Fio);
            let heights: Vec<_> = shown.filter_map(|row| Some((row.peer, height(row)?))).collect();
            let reads = format!("{} % reads", point.read_percent);
            let label = if only.is_some() { reads } else { format!("{}, {reads}", point.distribution) };
            if !heights.is_empty() {
                bars.push((label, heights));
            }
        }
        // Where only bytes are drawn, the device's speed has no place.
        let device = only.and_then(|_| group.fio(threads)).map(|reads_per_s| reads_per_s / 1e3);
        Panel { title: format!("{threads} thread{}", if threads == 1 { "" } else { "s" }), bars, device }
    };
    threads.into_iter().map(panel).filter(|panel| !panel.bars.is_empty()).collect()
}

impl Picture {
    fn draw(&self, path: &Path) -> Result<()> {
        let height = HEADER_HEIGHT + PANEL_HEIGHT * self.panels.len() as u32;
        let root = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
        let drawn = self.draw_on(&root).and_then(|()| root.present().map_err(|error| error.to_string()));
        drawn.map_err(|error| Error::Input(format!("{} cannot be drawn: {error}", path.display())))
    }

    fn draw_on(&self, root: &DrawingArea<SVGBackend<'_>, Shift>) -> std::result::Result<(), String> {
        root.fill(&WHITE).map_err(|error| error.to_string())?;
        let (header, body) = root.split_vertically(HEADER_HEIGHT);
        self.draw_header(&header)?;
        for (panel, area) in self.panels.iter().zip(body.split_evenly((self.panels.len(), 1))) {
            panel.draw_on(&area)?;
        }
        Ok(())
    }

    /// Title and legend.
    fn draw_header(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> std::result::Result<(), String> {
        let text = |words: &str, at, size: i32| {
            area.draw(&Text::new(words.to_owned(), at, (FONT, size).into_font()))
                .map_err(|error| error.to_string())
        };
        text(&self.title, (20, 10), 18)?;
        let mut x = 20;
        for peer in self.peers() {
            let square = Rectangle::new([(x, 38), (x + 12, 50)], color(peer).filled());
            area.draw(&square).map_err(|error| error.to_string())?;
            let name = if peer == Kind::Fio { "fio, 4 KiB reads".to_owned() } else { peer.to_string() };
            text(&name, (x + 17, 38), 14)?;
            x += 130;
        }
        Ok(())
    }

    fn peers(&self) -> BTreeSet<Kind> {
        let bars = self.panels.iter().flat_map(|panel| &panel.bars);
        let device = self.panels.iter().filter_map(|panel| panel.device).map(|_| Kind::Fio);
        bars.flat_map(|(_, heights)| heights).map(|(peer, _)| *peer).chain(device).collect()
    }
}

impl Panel {
    fn draw_on(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> std::result::Result<(), String> {
        let fail = |error: DrawingAreaErrorKind<_>| error.to_string();
        let heights = self.bars.iter().flat_map(|(_, heights)| heights).map(|(_, height)| *height);
        let highest = heights.chain(self.device).fold(f64::MIN_POSITIVE, f64::max) * HEADROOM;
        let groups = GroupAxis(self.bars.iter().map(|(label, _)| label.clone()).collect());
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, (FONT, 15))
            .margin(10)
            .x_label_area_size(28)
            .y_label_area_size(50)
            .build_cartesian_2d(groups, 0.0..highest)
            .map_err(fail)?;
        let mut mesh = chart.configure_mesh();
        mesh.disable_x_mesh().light_line_style(WHITE).label_style((FONT, 13));
        mesh.draw().map_err(fail)?;
        if let Some(height) = self.device {
            let ends = [(0.0, height), (self.bars.len() as f64, height)];
            chart.draw_series([PathElement::new(ends, color(Kind::Fio).stroke_width(2))]).map_err(fail)?;
        }
        for bar in self.bars() {
            let rectangle =
                Rectangle::new([(bar.left, 0.0), (bar.right, bar.height)], color(bar.peer).filled());
            let anchor = Pos::new(HPos::Center, VPos::Bottom);
            let style = TextStyle::from((FONT, 12).into_font()).pos(anchor);
            let number = Text::new(short(bar.height), (0.5 * (bar.left + bar.right), bar.height), style);
            chart.draw_series([rectangle]).map_err(fail)?;
            chart.draw_series([number]).map_err(fail)?;
        }
        Ok(())
    }

    fn bars(&self) -> Vec<Bar> {
        let mut bars = Vec::new();
        for (group, (_, heights)) in self.bars.iter().enumerate() {
            let count = heights.len() as f64;
            let width = (BARS_SHARE / count).min(BAR_WIDTH_MAX * self.bars.len() as f64);
            let first = group as f64 + 0.5 * (1.0 - count * width);
            for (nth, &(peer, height)) in heights.iter().enumerate() {
                let left = first + nth as f64 * width;
                bars.push(Bar { peer, left, right: left + (1.0 - BAR_GAP) * width, height });
            }
        }
        bars
    }
}

struct Bar {
    peer: Kind,
    left: f64,
    right: f64,
    height: f64,
}

/// An axis with one unit and one label in its middle for each group of bars.
struct GroupAxis(Vec<String>);

impl Ranged for GroupAxis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, pixels: (i32, i32)) -> i32 {
        pixels.0 + (f64::from(pixels.1 - pixels.0) * value / self.0.len() as f64) as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        (0..self.0.len()).map(|group| group as f64 + 0.5).collect()
    }

    fn range(&self) -> Range<f64> {
        0.0..self.0.len() as f64
    }
}

impl ValueFormatter<f64> for GroupAxis {
    fn format_ext(&self, value: &f64) -> String {
        self.0.get(*value as usize).cloned().unwrap_or_default()
    }
}

/// Three digits are enough on a bar.
fn short(height: f64) -> String {
    match height {
        h if h >= 100.0 => format!("{h:.0}"),
        h if h >= 10.0 => format!("{h:.1}"),
        h => format!("{h:.2}"),
    }
}

/// Colours that stay apart for colour-blind readers (Okabe and Ito 2008).
fn color(peer: Kind) -> RGBColor {
    match peer {
        Kind::Swap => RGBColor(230, 159, 0),
        Kind::Mmap => RGBColor(86, 180, 233),
        Kind::MmapDefault => RGBColor(0, 114, 178),
        Kind::Memkind => RGBColor(204, 121, 167),
        Kind::MemkindDefault => RGBColor(213, 94, 0),
        Kind::Aquifer => RGBColor(0, 158, 115),
        Kind::AquiferPages => RGBColor(204, 121, 167),
        Kind::Fio => RGBColor(130, 130, 130),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::sample;

    #[test]
    fn pictures_show_every_peer_and_number() {
        let dir = std::env::temp_dir().join(format!("aquifer-bench-plots-{}", std::process::id()));
        let record = |peer, ops| Record::Sample(Box::new(sample(peer, ops)));
        let records = [record(Kind::Swap, 20_000.0), record(Kind::Aquifer, 123_000.0)];
        let drawn = plot(&records, &dir).expect("a temporary directory");
        let names: Vec<_> = drawn.iter().filter_map(|path| path.file_name()?.to_str()).collect();
        assert_eq!(names, ["throughput-scattered-hot-4gib-256mib.svg", "written-4gib-256mib.svg"]);
        let svg = fs::read_to_string(&drawn[0]).expect("just drawn");
        for part in ["swap", "aquifer", "20.0", "123", "8 threads", "50 % reads"] {
            assert!(svg.contains(part), "{part}");
        }
        fs::remove_dir_all(&dir).expect("exists");
    }
}
