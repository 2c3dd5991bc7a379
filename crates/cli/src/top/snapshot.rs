//! The view as plain text, once.

use std::fmt::Write;

use crate::amounts::{grouped, percent};
use crate::borrowed::rows;
use crate::error::printable;

use super::histogram::{quantiles, ranges};
use super::panel::{Panel, panels};
use super::picture::Picture;
use super::tiers::levels;

/// Columns of a number.
const CELL_COLUMNS: usize = 14;
/// More ranges than powers of two.
const RANGES_MAX: usize = 128;

/// All that the view shows, without bars.
pub fn snapshot(picture: &Picture) -> String {
    let sample = &picture.now.sample;
    let (subject, version) = (sample.subject.word(), printable(&sample.version));
    let mut out = format!("{subject} of process {}, aquifer {version}\n\nTiers\n", sample.pid);
    for level in levels(sample) {
        let [used, limit, share] = level.figures();
        let _ =
            writeln!(out, "  {:<22}{used:>CELL_COLUMNS$} of {limit:>10}{share:>CELL_COLUMNS$}", level.label);
    }
    for panel in panels(sample, picture.rates.as_ref()) {
        out.push_str(&panel_text(&panel));
    }
    out + &remote_text(picture) + &latency_text(picture)
}

fn remote_text(picture: &Picture) -> String {
    let Some((borrowed, earlier)) = picture.borrowed() else { return String::new() };
    let totals = rows::totals(borrowed, earlier);
    let donors = rows::donors(borrowed, earlier, usize::MAX);
    let line = |row: &rows::Row| format!("  {}\n", row.text);
    format!("\nRemote memory\n{}", totals.iter().chain(&donors).map(line).collect::<String>())
}

fn panel_text(panel: &Panel) -> String {
    let line = |label: &str, cells: [&str; 3]| {
        let cells = cells.map(|cell| format!("{cell:>CELL_COLUMNS$}")).concat();
        format!("{label:<24}{cells}").trim_end().to_owned() + "\n"
    };
    let head = line(panel.title, panel.columns);
    let row =
        |row: &super::panel::Row| line(&format!("  {}", row.label), row.cells.each_ref().map(String::as_str));
    format!("\n{head}{}", panel.rows.iter().map(row).collect::<String>())
}

fn latency_text(picture: &Picture) -> String {
    let mut out = String::from("\nLatency of reads from flash\n");
    match &picture.now.latency {
        Err(reason) => {
            let _ = writeln!(out, "  not known: {reason}");
        }
        Ok(overall) => {
            if let Some(now) = picture.latency.as_ref().filter(|latency| latency.total() > 0) {
                let _ = writeln!(out, "  {:<9}{}", "now", quantiles(now));
            }
            let _ = writeln!(out, "  {:<9}{}", "overall", quantiles(overall));
            for range in ranges(overall, RANGES_MAX) {
                let (count, share) = (grouped(range.count), percent(range.share));
                let _ = writeln!(out, "  {:<22}{count:>CELL_COLUMNS$}{share:>CELL_COLUMNS$}", range.label);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::picture::tests::{borrowing, measurement, picture};
    use super::*;
    use crate::heap::{Measurement, NOT_COUNTED};
    use std::time::Instant;

    #[test]
    fn everything_in_plain_text() {
        let text = snapshot(&picture());
        let parts = [
            "heap of process 4711, aquifer 0.1.0\n",
            "RAM used                     250 MiB of    256 MiB        97.7 %\n",
            "found in RAM",
            "write amplification",
            "writer waits",
            "overall  p50 ",
            "≤ 65.5 µs",
        ];
        for part in parts {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn donors_have_a_part_of_their_own() {
        let text = snapshot(&borrowing());
        for part in [
            "\nRemote memory\n  4 of 5 parts placed",
            "pages/s from donors 200",
            "  alpha:7447",
            "tcp, rack 1",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(!snapshot(&picture()).contains("Remote"));
    }

    #[test]
    fn without_rates_and_latency() {
        let first = Measurement { latency: Err(NOT_COUNTED), ..measurement(1, 0, Instant::now()) };
        let text = snapshot(&Picture::first(first));
        assert!(text.contains("not known: this program does not count them\n"), "{text}");
        assert!(text.contains("found in RAM                       -             -"), "{text}");
    }

    #[test]
    fn a_peer_cannot_command_the_terminal() {
        let mut picture = picture();
        picture.now.sample.version = "\x1b[2J\n".into();
        picture.now.sample.stats.values_mut().for_each(|number| *number = u64::MAX);
        let text = snapshot(&picture);
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    }
}
