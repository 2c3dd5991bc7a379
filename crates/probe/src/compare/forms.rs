//! A comparison as text for a terminal, as Markdown and as a page.

use super::{Comparison, Row, Verdict};
use crate::render::document::{Document, Part, Section, Table};
use crate::render::escape::one_line;
use crate::render::{figures, markdown, page};
use serde_json::json;

impl Comparison {
    /// An aligned table, with the warnings above it, for terminals.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for warning in &self.warnings {
            text.push_str(&format!("warning: {}\n", terminal(warning)));
        }
        for (at, name) in self.names.iter().enumerate() {
            text.push_str(&format!("{}: {}\n", at + 1, terminal(name)));
        }
        for section in self.sections() {
            text.push_str(&format!("\n{section}\n"));
            text.push_str(&aligned(&self.table(section)));
        }
        for finding in self.summary() {
            text.push_str(&format!("\n{}", terminal(&finding)));
        }
        text.push('\n');
        text
    }

    /// The same as one line of JSON; each figure that is compared with the first report's has a `ratio` and a `verdict`.
    #[must_use]
    pub fn json(&self) -> String {
        let rows = self.rows.iter().map(|row| {
            let figures = row.figures.iter().enumerate().map(|(at, figures)| {
                let Some(figures) = figures else { return serde_json::Value::Null };
                let verdict = (at > 0).then(|| row.verdict(at)).flatten();
                json!({
                    "iops": figures.iops, "iops_low": figures.iops_low, "iops_high": figures.iops_high,
                    "rounds": figures.rounds, "p99_ns": figures.p99_ns,
                    "ratio": (at > 0).then(|| row.ratio(at)).flatten(),
                    "verdict": verdict.map(|verdict| format!("{verdict:?}").to_lowercase()),
                })
            });
            json!({ "section": row.section, "part": row.part, "job": row.job, "figures": figures.collect::<Vec<_>>() })
        });
        let rows: Vec<_> = rows.collect();
        let all = json!({ "reports": self.names, "warnings": self.warnings, "loads": rows, "unmatched": self.unmatched });
        format!("{all}\n")
    }

    /// The same as Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        markdown::markdown(&self.document())
    }

    /// The same as one HTML page that needs nothing else, as [`crate::render::html`] makes it.
    #[must_use]
    pub fn html(&self) -> String {
        page::html(&self.document())
    }

    fn document(&self) -> Document {
        let names = self.names.iter().enumerate().map(|(at, name)| format!("Report {}: {name}", at + 1));
        let tables = self.sections().into_iter().map(|section| Part::Table(self.table(section)));
        let section = Section {
            id: "loads",
            title: "Loads that the reports share",
            text: "Rates are medians of the rounds, and the spread is the fastest minus the slowest round by the median. A difference counts as noise if some round of one report was as fast as some round of the other; with a \
                   single round nothing can be said. Ratios are to report 1; of rates higher is better, of p99 latencies lower."
                .into(),
            parts: tables.collect(),
        };
        Document {
            title: "Flash probe: comparison".into(),
            warnings: self.warnings.clone(),
            summary: names.chain(self.summary()).collect(),
            sections: vec![section],
        }
    }

    /// Members of the reports that have rows, in their order.
    fn sections(&self) -> Vec<&'static str> {
        let mut sections: Vec<&'static str> = self.rows.iter().map(|row| row.section).collect();
        sections.dedup();
        sections
    }

    /// A sentence for each report but the first.
    fn summary(&self) -> Vec<String> {
        let of_report = |report| {
            let count = |wanted| self.rows.iter().filter(|row| row.verdict(report) == Some(wanted)).count();
            let [faster, slower, noise, unknown] =
                [Verdict::Faster, Verdict::Slower, Verdict::Noise, Verdict::Unknown].map(count);
            format!(
                "Report {} against report 1: {faster} loads faster, {slower} slower, {noise} within the noise, {unknown} with too few rounds to tell; \
                 {} loads are in one report only.",
                report + 1,
                self.unmatched
            )
        };
        (1..self.names.len()).map(of_report).collect()
    }

    fn table(&self, section: &str) -> Table {
        let mut columns = vec!["load".to_owned(), "IOPS 1".into(), "spread".into(), "p99 1".into()];
        for report in 2..=self.names.len() {
            columns.extend([
                format!("IOPS {report}"),
                "spread".into(),
                "ratio".into(),
                "difference".into(),
                format!("p99 {report}"),
                "p99 ratio".into(),
            ]);
        }
        let rows = self.rows.iter().filter(|row| row.section == section);
        let rows = rows.map(|row| cells(row, self.names.len())).collect();
        Table { caption: section.replace('_', " "), columns, rows }
    }
}

fn cells(row: &Row, reports: usize) -> Vec<String> {
    let figure = |report: usize| row.figures.get(report).copied().flatten();
    let rate = |report| figures::number_or_dash(figure(report).map(|figures| figures.iops));
    let spread = |report| {
        let share = figure(report).and_then(|figures| figures.spread());
        share.map_or_else(|| figures::DASH.into(), figures::percent)
    };
    let p99 = |report| {
        figure(report).map_or_else(|| figures::DASH.into(), |found| figures::nanoseconds(found.p99_ns as f64))
    };
    let load = if row.part.is_empty() { row.job.to_string() } else { format!("{}: {}", row.part, row.job) };
    let mut cells = vec![load, rate(0), spread(0), p99(0)];
    for report in 1..reports {
        cells.extend([
            rate(report),
            spread(report),
            figures::number_or_dash(row.ratio(report)),
            mark(row.verdict(report)).into(),
            p99(report),
            figures::number_or_dash(row.p99_ratio(report)),
        ]);
    }
    cells
}

fn mark(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Faster) => "faster",
        Some(Verdict::Slower) => "slower",
        Some(Verdict::Noise) => "noise",
        Some(Verdict::Unknown) => "one round",
        None => figures::DASH,
    }
}

/// Columns as wide as their widest cell; the first one begins at the left, the others end at the right.
fn aligned(table: &Table) -> String {
    let lines: Vec<Vec<String>> = std::iter::once(&table.columns)
        .chain(&table.rows)
        .map(|cells| cells.iter().map(|cell| terminal(cell)).collect())
        .collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let mut shown = String::new();
        for (column, (cell, &width)) in line.iter().zip(&widths).enumerate() {
            match column {
                0 => shown.push_str(&format!("{cell:<width$}")),
                _ => shown.push_str(&format!("  {cell:>width$}")),
            }
        }
        text.push_str(shown.trim_end());
        text.push('\n');
    }
    text
}

/// In one line, with spaces that terminals and `grep` know.
fn terminal(text: &str) -> String {
    one_line(text).replace(['\u{a0}', '\u{202F}'], " ")
}
