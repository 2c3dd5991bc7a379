//! The probe beside fio: medians, ratios, and whether both rank the loads alike.

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
                number(Some(row.probe_iops / row.fio_iops), 3),
                by_probe[at].to_string(),
                by_fio[at].to_string(),
                row.runs.to_string(),
            ]
        })
        .collect();
    let columns = ["load", "probe IOPS", "fio IOPS", "probe by fio", "rank by probe", "rank by fio", "runs"];
    markdown("The probe beside fio", &columns, &lines)
}
