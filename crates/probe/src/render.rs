//! Forms of a report for people: a page, Markdown, CSV.
//!
//! Each form is made of the same document, so that they cannot say different things.

mod csv;
pub(crate) mod document;
pub(crate) mod escape;
pub(crate) mod figures;
pub(crate) mod markdown;
pub(crate) mod page;
mod sections;
mod svg;

use crate::report::Report;

/// The report as one HTML page that needs nothing else: tables, and plots as inline SVG; no script, no font, no picture from outside.
///
/// It follows the reader's choice of a light or a dark screen, and is black on white on paper. Whatever the texts in a report hold, they
/// add no markup. The page is well-formed XML as well.
#[must_use]
pub fn html(report: &Report) -> String {
    page::html(&sections::document(report))
}

/// The report as Markdown: what the page says, without its plots.
#[must_use]
pub fn markdown(report: &Report) -> String {
    markdown::markdown(&sections::document(report))
}

/// What one wants to know first, as a few lines of plain text without control characters.
#[must_use]
pub fn summary(report: &Report) -> String {
    let document = sections::document(report);
    let warnings = document.warnings.iter().map(|warning| format!("! {warning}"));
    let findings = document.summary.iter().map(|finding| format!("- {finding}"));
    let notes = report.notes.iter().map(|note| format!("  ({note})"));
    let lines = std::iter::once(document.title.clone()).chain(warnings).chain(findings).chain(notes);
    lines.fold(String::new(), |text, line| text + &line.replace(char::is_control, " ") + "\n")
}

/// All figures as CSV (RFC 4180, lines end in a line feed), one line for each round of each load and for each interval of the saturation curve.
///
/// The first line names the columns. Texts of the report are not in it, so that a spreadsheet finds no formula.
///
/// | column | content |
/// |---|---|
/// | `section` | member of the report: `saturation`, `flush`, `steady`, `matrix`, `mixes`, `latency`, `fill`, `trim`, `idle`, `interference`, `log`, `working_set`, `raid` |
/// | `part` | what tells loads with the same job apart, such as `70 % full fresh`; of an interval its number |
/// | `pattern`, `read_percent`, `block_bytes`, `depth`, `write_mode`, `span_bytes` | the job; empty for an interval |
/// | `round` | from 0 |
/// | `duration_s`, `ios`, `bytes`, `cpu_s` | raw figures of the round; of an interval `duration_s` is its length and `bytes` what was written since the first one |
/// | `iops`, `megabytes_per_s`, `cpu_ns_per_io` | derived from them; a megabyte is 10^6 bytes |
/// | `mean_ns`, `p50_ns`, `p99_ns`, `p999_ns`, `max_ns` | latencies of the round |
/// | `write_amplification` | of an interval, where the device tells |
///
/// A figure that is not a finite number, such as a rate in no time at all, is an empty field.
#[must_use]
pub fn csv(report: &Report) -> String {
    csv::csv(report)
}
