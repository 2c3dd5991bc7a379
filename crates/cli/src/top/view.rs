//! Panels drawn.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};

use crate::amounts::{count, grouped, percent};
use crate::borrowed::rows;
use crate::error::printable;
use crate::latency::Latency;

use super::bar::{bar, sparks};
use super::histogram::{Range, quantiles, ranges};
use super::keys;
use super::layout::{Part, Place, arrange};
use super::panel::{CELLS, Panel, Row, history, panels};
use super::picture::Picture;
use super::tiers::{self, Level, Medium, levels};

/// Longest version of a peer that is shown.
const VERSION_CHARS_MAX: usize = 16;
/// Widest column of numbers: further apart they are no row to the eye.
const CELL_COLUMNS_MAX: usize = 16;
/// Least columns of a bar that leave room for the limit beside it.
const BAR_COLUMNS_MIN: usize = 10;
/// Rows from which on latencies are shown both of late and overall.
const BOTH_QUANTILES_FROM: usize = 4;

const LABEL: Style = Style::new();
const QUIET: Style = Style::new().add_modifier(Modifier::DIM);
const TITLE: Style = Style::new().add_modifier(Modifier::BOLD);
const ALARM: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
const RAM: Style = Style::new().fg(Color::Cyan).bg(Color::DarkGray);
const FLASH: Style = Style::new().fg(Color::Magenta).bg(Color::DarkGray);
const READS: Style = Style::new().fg(Color::Magenta);
const SPARK: Style = Style::new().fg(Color::Green);

/// What is to be seen.
pub struct View<'a> {
    /// The numbers.
    pub picture: &'a Picture,
    /// Between two answers.
    pub interval: Duration,
    /// Whether the user holds the picture.
    pub is_paused: bool,
    /// Whether the keys are explained.
    pub has_help: bool,
    /// How long an answer has been missing.
    pub silence: Option<Duration>,
}

impl View<'_> {
    /// Draws everything that has room.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let donors = self.picture.borrowed().map_or(0, |(borrowed, _)| borrowed.donors.len());
        let [_, _, background] = panels(&self.picture.now.sample, None);
        let background_rows = background.rows.len();
        for place in arrange(frame.area(), donors, background_rows) {
            let block =
                Block::bordered().border_style(QUIET).title(Span::styled(self.title(place.part), TITLE));
            let inner = if place.is_framed { block.inner(place.area) } else { place.area };
            if place.is_framed {
                frame.render_widget(block, place.area);
            }
            let lines = self.lines(place, inner);
            frame.render_widget(Paragraph::new(lines), inner);
        }
    }

    fn lines(&self, place: Place, inner: Rect) -> Vec<Line<'static>> {
        let (columns, rows) = (usize::from(inner.width), usize::from(inner.height));
        let sample = &self.picture.now.sample;
        let [first, device, background] = panels(sample, self.picture.rates.as_ref());
        let panel = |panel: &Panel| panel_lines(panel, columns, rows, place.is_framed);
        match place.part {
            Part::Header => vec![self.header()],
            Part::Footer => vec![footer(self.has_help)],
            Part::Tiers => levels(sample).iter().map(|level| level_line(level, columns)).collect(),
            Part::Faults => panel(&first),
            Part::Device => panel(&device),
            Part::Background => panel(&background),
            Part::History => self.history(columns, rows, place.is_framed),
            Part::Latency => self.latency(columns, rows, place.is_framed),
            Part::Donors => self.donors(columns, rows, place.is_framed),
        }
    }

    fn title(&self, part: Part) -> String {
        let sample = &self.picture.now.sample;
        let [first, device, background] = panels(sample, None);
        match part {
            Part::Header | Part::Footer => String::new(),
            Part::Tiers => tiers::title(sample),
            Part::Faults => first.title.into(),
            Part::Device => device.title.into(),
            Part::Background => background.title.into(),
            Part::History => history_title(self.picture),
            Part::Latency => "Latency of reads from flash".into(),
            Part::Donors => "Remote memory".into(),
        }
    }

    fn header(&self) -> Line<'static> {
        let sample = &self.picture.now.sample;
        let version: String = printable(&sample.version).chars().take(VERSION_CHARS_MAX).collect();
        let about = format!(
            "{} of process {}, aquifer {version}, every {} s",
            sample.subject.word(),
            sample.pid,
            self.interval.as_secs_f64()
        );
        let mut spans = vec![Span::styled(about, TITLE)];
        if self.is_paused {
            spans.push(Span::styled("  paused", ALARM));
        }
        if let Some(silence) = self.silence {
            spans.push(Span::styled(format!("  no answer for {} s", silence.as_secs()), ALARM));
        }
        Line::from(spans)
    }

    fn history(&self, columns: usize, rows: usize, has_title: bool) -> Vec<Line<'static>> {
        let values = self.picture.history.iter().copied();
        let spark = |text: String| Line::styled(text, SPARK);
        let title = history_title(self.picture);
        match (has_title, rows) {
            (true, _) => sparks(values, columns, rows).into_iter().map(spark).collect(),
            (false, 0..=1) => {
                let left = columns.saturating_sub(title.chars().count() + 1);
                let spark = sparks(values, left, 1).concat();
                vec![Line::from(vec![Span::styled(title + " ", TITLE), Span::styled(spark, SPARK)])]
            }
            (false, _) => {
                let sparks = sparks(values, columns, rows - 1).into_iter().map(spark);
                std::iter::once(Line::styled(title, TITLE)).chain(sparks).collect()
            }
        }
    }

    /// Totals, titles and donors. Where there are too few rows, pages have none, and the last one says how many donors have none.
    fn donors(&self, columns: usize, rows: usize, has_title: bool) -> Vec<Line<'static>> {
        let Some((borrowed, earlier)) = self.picture.borrowed() else { return Vec::new() };
        let line = |row: rows::Row| Line::styled(row.text, if row.is_alarm { ALARM } else { LABEL });
        let [mut placed, pages] = rows::totals(borrowed, earlier);
        if !has_title {
            placed.text = format!("{}: {}", self.title(Part::Donors), placed.text);
        }
        let mut donors: Vec<_> = rows::donors(borrowed, earlier, columns).into_iter().map(line).collect();
        donors[0] = std::mem::take(&mut donors[0]).style(QUIET);
        let pages = (donors.len() + 2 <= rows).then(|| line(pages));
        let mut lines: Vec<_> = std::iter::once(line(placed)).chain(pages).chain(donors).collect();
        if lines.len() > rows && rows > 2 {
            let hidden = lines.len() - (rows - 1);
            lines.truncate(rows - 1);
            lines.push(Line::styled(format!("{hidden} more"), QUIET));
        }
        lines
    }

    fn latency(&self, columns: usize, rows: usize, has_title: bool) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        if !has_title && rows > 1 {
            lines.push(Line::styled(self.title(Part::Latency), TITLE));
        }
        let lead = if lines.is_empty() && !has_title { "flash reads " } else { "" };
        let latency = match &self.picture.now.latency {
            Ok(latency) => latency,
            Err(reason) => {
                lines.push(Line::styled(format!("{lead}not known: {reason}"), QUIET));
                return lines;
            }
        };
        let line =
            |name: &str, latency: &Latency| Line::raw(format!("{lead}{name:<8}{}", quantiles(latency)));
        let lately = self.picture.latency.as_ref().filter(|latency| latency.total() > 0);
        if let Some(lately) = lately {
            lines.push(line("now", lately));
        }
        if lately.is_none() || rows >= BOTH_QUANTILES_FROM {
            lines.push(line("overall", latency));
        }
        let left = rows.saturating_sub(lines.len());
        lines.extend(ranges(latency, left).iter().map(|range| range_line(range, columns)));
        lines
    }
}

fn history_title(picture: &Picture) -> String {
    let values = &picture.history;
    let (_, name) = history(picture.now.sample.subject);
    let Some(last) = values.back() else { return format!("{name}/s") };
    let max = values.iter().copied().fold(0.0, f64::max);
    format!("{name}/s: {}, at most {}", count(*last), count(max))
}

fn footer(has_help: bool) -> Line<'static> {
    if has_help { Line::styled(keys::HELP, TITLE) } else { Line::styled("h help", QUIET) }
}

fn level_line(level: &Level, columns: usize) -> Line<'static> {
    let [used, limit, share] = level.figures();
    let label = format!("{:<13}", level.label);
    let brief = format!("{used:>9}{share:>8}");
    let full = format!("{used:>9} of {limit:>8}{share:>8}");
    let left_beside = |figures: &str| columns.saturating_sub(label.chars().count() + figures.chars().count());
    let figures = if left_beside(&full) >= BAR_COLUMNS_MIN { full } else { brief };
    let style = match level.medium {
        Medium::Ram => RAM,
        Medium::Flash => FLASH,
    };
    let bar = bar(level.share(), left_beside(&figures));
    Line::from(vec![Span::styled(label, LABEL), Span::styled(bar, style), Span::raw(figures)])
}

/// The title and the titles of the columns, if there is room for more than the first three rows; then rows.
fn panel_lines(panel: &Panel, columns: usize, rows: usize, is_framed: bool) -> Vec<Line<'static>> {
    let label_columns = panel.label_columns();
    let cell_columns = (columns.saturating_sub(label_columns) / CELLS).min(CELL_COLUMNS_MAX);
    let cells = |cells: [&str; CELLS]| cells.map(|cell| format!("{cell:>cell_columns$}")).concat();
    let title = if is_framed { "" } else { panel.title };
    let head = Line::from(vec![
        Span::styled(format!("{title:<label_columns$}"), TITLE),
        Span::styled(cells(panel.columns), QUIET),
    ]);
    let line = |row: &Row| {
        let style = if row.is_alarm { ALARM } else { LABEL };
        let numbers = cells(row.cells.each_ref().map(String::as_str));
        Line::styled(format!("{:<label_columns$}{numbers}", row.label), style)
    };
    let head = (rows > 3).then_some(head);
    head.into_iter().chain(panel.rows.iter().map(line)).collect()
}

fn range_line(range: &Range, columns: usize) -> Line<'static> {
    let label = format!("{:>9} ", range.label);
    let figures = format!("{:>12}{:>8}", grouped(range.count), percent(range.share));
    let left = columns.saturating_sub(label.chars().count() + figures.chars().count());
    let bar = bar(range.of_max, left);
    Line::from(vec![Span::styled(label, LABEL), Span::styled(bar, READS), Span::raw(figures)])
}

#[cfg(test)]
mod tests;
