//! Bars of the tables of studies: SVG files, one for each table, a panel for each value of its first key.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::record::Record;
use super::row::Row;
use super::table::Table;
use super::{Entry, check};
use crate::error::{Error, Result};

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
/// Colours that stay apart for colour-blind readers (Okabe and Ito 2008), and greys for more peers than that.
const COLORS: [RGBColor; 9] = [
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(240, 228, 66),
    RGBColor(130, 130, 130),
    RGBColor(60, 60, 60),
];

/// Draws the tables that `records` make of `studies` into `out_dir`; the files made.
///
/// # Errors
/// [`Error::Io`]; [`Error::Input`] if there is nothing to draw, or a picture cannot be drawn.
pub fn plot(studies: &[Entry], records: &[Record], out_dir: &Path) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(out_dir).map_err(Error::io("creating", out_dir))?;
    let mut drawn = Vec::new();
    for entry in studies {
        let own = check::of_study(records, entry.name);
        for picture in entry.tables.iter().flat_map(|table| Picture::of(table, &own)) {
            let path = out_dir.join(format!("{}.svg", slug(&format!("{} {}", entry.name, picture.title))));
            picture.draw(&path)?;
            drawn.push(path);
        }
    }
    if drawn.is_empty() {
        return Err(Error::Input("the files hold no record of a figure that has a better end".to_owned()));
    }
    Ok(drawn)
}

/// Lower case, with a hyphen for all that is neither letter nor digit.
fn slug(text: &str) -> String {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}

/// One file.
struct Picture {
    title: String,
    /// What the bars show.
    figure: String,
    /// Peers with bars, in the order of the table.
    peers: Vec<String>,
    panels: Vec<Panel>,
}

/// Groups of bars.
struct Panel {
    title: String,
    /// Name of the group, and the height of each peer that has one.
    groups: Vec<(String, Vec<(usize, f64)>)>,
}

impl Picture {
    /// Pictures of the first figure of `table` that has a better end.
    fn of(table: &Table, records: &[Record]) -> Vec<Self> {
        let Some(column) = table.columns.iter().find(|column| column.judged().is_some()) else {
            return Vec::new();
        };
        let (figure, _, heading) = column.judged().expect("just found");
        let mut pictures = Vec::new();
        for (title, rows) in table.titled_rows(records) {
            let mut picture =
                Self { title, figure: heading.to_owned(), peers: Vec::new(), panels: Vec::new() };
            for row in &rows {
                if let Some(median) = row.median(figure) {
                    picture.add(table, row, median / column.divisor());
                }
            }
            pictures.push(picture);
        }
        pictures.retain(|picture| !picture.panels.is_empty());
        pictures
    }

    fn add(&mut self, table: &Table, row: &Row<'_>, height: f64) {
        let mut keys = table.keys.iter().map(|key| format!("{} {}", key.heading(), key.shown(row)));
        let title = if table.keys.len() > 1 { keys.next().unwrap_or_default() } else { String::new() };
        let label = keys.collect::<Vec<_>>().join(", ");
        let name = row.peer().to_owned();
        let peer = self.peers.iter().position(|peer| *peer == name).unwrap_or_else(|| {
            self.peers.push(name);
            self.peers.len() - 1
        });
        if self.panels.last().is_none_or(|panel| panel.title != title) {
            self.panels.push(Panel { title, groups: Vec::new() });
        }
        let groups = &mut self.panels.last_mut().expect("just pushed").groups;
        match groups.last_mut().filter(|(group, _)| *group == label) {
            Some((_, bars)) => bars.push((peer, height)),
            None => groups.push((label, vec![(peer, height)])),
        }
    }

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
        let text = |words: String, at, size: i32| {
            area.draw(&Text::new(words, at, (FONT, size).into_font())).map_err(|error| error.to_string())
        };
        text(format!("{}: {}", self.figure, self.title), (20, 10), 18)?;
        let room = (WIDTH as i32 - 40) / self.peers.len().max(1) as i32;
        for (nth, peer) in self.peers.iter().enumerate() {
            let x = 20 + nth as i32 * room;
            let square = Rectangle::new([(x, 38), (x + 12, 50)], color(nth).filled());
            area.draw(&square).map_err(|error| error.to_string())?;
            text(peer.clone(), (x + 17, 38), 14)?;
        }
        Ok(())
    }
}

impl Panel {
    fn draw_on(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> std::result::Result<(), String> {
        let fail = |error: DrawingAreaErrorKind<_>| error.to_string();
        let heights = self.groups.iter().flat_map(|(_, bars)| bars).map(|(_, height)| *height);
        let highest = heights.fold(f64::MIN_POSITIVE, f64::max) * HEADROOM;
        let groups = GroupAxis(self.groups.iter().map(|(label, _)| label.clone()).collect());
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, (FONT, 15))
            .margin(10)
            .x_label_area_size(28)
            .y_label_area_size(60)
            .build_cartesian_2d(groups, 0.0..highest)
            .map_err(fail)?;
        let mut mesh = chart.configure_mesh();
        mesh.disable_x_mesh().light_line_style(WHITE).label_style((FONT, 13));
        mesh.draw().map_err(fail)?;
        for (peer, sides, height) in self.bars() {
            let middle = 0.5 * (sides.start + sides.end);
            let rectangle = Rectangle::new([(sides.start, 0.0), (sides.end, height)], color(peer).filled());
            let anchor = Pos::new(HPos::Center, VPos::Bottom);
            let style = TextStyle::from((FONT, 12).into_font()).pos(anchor);
            chart.draw_series([rectangle]).map_err(fail)?;
            chart.draw_series([Text::new(short(height), (middle, height), style)]).map_err(fail)?;
        }
        Ok(())
    }

    /// Peer, sides and height of each bar.
    fn bars(&self) -> Vec<(usize, Range<f64>, f64)> {
        let mut all = Vec::new();
        for (group, (_, bars)) in self.groups.iter().enumerate() {
            let count = bars.len() as f64;
            let width = (BARS_SHARE / count).min(BAR_WIDTH_MAX * self.groups.len() as f64);
            let first = group as f64 + 0.5 * (1.0 - count * width);
            all.extend(bars.iter().enumerate().map(|(nth, &(peer, height))| {
                let left = first + nth as f64 * width;
                (peer, left..left + (1.0 - BAR_GAP) * width, height)
            }));
        }
        all
    }
}

fn color(peer: usize) -> RGBColor {
    COLORS[peer.min(COLORS.len() - 1)]
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

#[cfg(test)]
mod tests {
    use super::super::fields::Fields;
    use super::super::table::{key, median};
    use super::*;
    use crate::machine::Context;

    #[test]
    fn pictures_show_every_peer_and_number() {
        const TABLE: Table = Table {
            title: "Reads in {ram_bytes:size}",
            keys: &[key("accesses", "access"), key("threads", "threads")],
            peers: &["swap", "aquifer"],
            columns: &[median("thousand/s", "ops_per_s").per(1e3).more()],
            note: "",
        };
        let record = |peer: &str, access, ops: f64| Record {
            study: "reads".to_owned(),
            peer: peer.to_owned(),
            run: 1,
            point: Fields::default().with("ram_bytes", 64 << 20).with("access", access).with("threads", 8),
            figures: Fields::default().with("ops_per_s", ops),
            left_out: None,
            context: Context::default(),
        };
        let records =
            [record("aquifer", "zipf", 123e3), record("swap", "zipf", 20e3), record("swap", "uniform", 7e3)];
        let pictures = Picture::of(&TABLE, &records);
        let [picture] = &pictures[..] else { panic!("{}", pictures.len()) };
        assert_eq!(slug(&picture.title), "reads-in-64-mib");
        assert_eq!((picture.peers.len(), picture.panels.len()), (2, 2));
        let path = std::env::temp_dir().join(format!("aquifer-bench-plot-{}.svg", std::process::id()));
        picture.draw(&path).expect("a temporary directory");
        let svg = fs::read_to_string(&path).expect("just drawn");
        for part in ["swap", "aquifer", "20.0", "123", "threads 8", "accesses zipf", "thousand/s"] {
            assert!(svg.contains(part), "{part}");
        }
        fs::remove_file(&path).expect("exists");
    }
}
