//! The probe beside fio: medians, ratios, and whether both rank the loads alike.
//!
//! Rounds of both stand in pairs, one after the other. The ratio is the median over pairs: what the machine's neighbours do from minute to minute
//! meets both sides of a pair.

use std::collections::BTreeMap;

use super::{markdown, number};
use crate::probe_fio::sample::ProbeFio;
use crate::sample::{Record, median};

/// One load's medians.
struct Row {
    name: String,
    runs: usize,
    probe_iops: f64,
    fio_iops: f64,
    /// Median of the pairs' ratios.
    ratio: f64,
}

fn rows(records: &[Record]) -> Vec<Row> {
    let mut cells: BTreeMap<u32, Vec<&ProbeFio>> = BTreeMap::new();
    for record in records {
        let Record::ProbeFio(sample) = record else { continue };
        cells.entry(sample.cell).or_default().push(sample);
    }
    let of_runs = |runs: &[&ProbeFio], figure: fn(&ProbeFio) -> f64| {
        median(runs.iter().map(|run| figure(run)).collect()).unwrap_or(f64::NAN)
    };
    cells
        .into_values()
        .map(|runs| Row {
            name: runs[0].job.to_string(),
            runs: runs.len(),
            probe_iops: of_runs(&runs, |run| run.probe_iops),
            fio_iops: of_runs(&runs, |run| run.fio_iops),
            ratio: of_runs(&runs, |run| run.probe_iops / run.fio_iops),
        })
        .collect()
}

/// Place of each row when they are ranked by a figure, the largest first.
fn ranks(rows: &[Row], figure: fn(&Row) -> f64) -> Vec<usize> {
    let rank = |row: &Row| 1 + rows.iter().filter(|other| figure(other) > figure(row)).count();
    rows.iter().map(rank).collect()
}

/// The table; empty without samples.
pub fn render(records: &[Record]) -> String {
    let rows = rows(records);
    let (by_probe, by_fio) = (ranks(&rows, |row| row.probe_iops), ranks(&rows, |row| row.fio_iops));
    let lines: Vec<Vec<String>> = rows
        .iter()
        .enumerate()
        .map(|(at, row)| {
            vec![
                row.name.clone(),
                number(Some(row.probe_iops), 0),
                number(Some(row.fio_iops), 0),
                number(Some(row.ratio), 3),
                by_probe[at].to_string(),
                by_fio[at].to_string(),
                row.runs.to_string(),
            ]
        })
        .collect();
    let columns =
        ["load", "probe IOPS", "fio IOPS", "probe by fio, in pairs", "rank by probe", "rank by fio", "runs"];
    markdown("The probe beside fio", &columns, &lines)
}

#[cfg(test)]
mod tests {
    use aquifer_probe::report::{Job, Pattern, WriteMode};

    use super::*;
    use crate::machine::Context;

    #[test]
    fn the_ratio_is_of_pairs() {
        let sample = |run, cell, probe_iops, fio_iops| {
            let (pattern, write_mode) = (Pattern::Random, WriteMode::Cached);
            let job =
                Job { pattern, read_percent: 100, block_bytes: 4096, depth: 1, write_mode, span_bytes: 1 };
            let context = Context::default();
            Record::ProbeFio(Box::new(ProbeFio { run, cell, job, probe_iops, fio_iops, context }))
        };
        // A slow minute in the middle meets both.
        let pairs = [(1, 1, 100.0, 100.0), (2, 1, 11.0, 10.0), (3, 1, 120.0, 100.0), (1, 2, 5.0, 5.0)];
        let records: Vec<Record> = pairs.map(|(run, cell, ours, fios)| sample(run, cell, ours, fios)).into();
        let rows = rows(&records);
        assert_eq!((rows[0].probe_iops, rows[0].fio_iops, rows[0].ratio), (100.0, 100.0, 1.1));
        assert_eq!(ranks(&rows, |row| row.probe_iops), [1, 2]);
    }
}
