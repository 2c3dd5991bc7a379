//! Markdown tables from result files: medians over the runs, with the ratios that matter, under the
//! command lines and machines that made them.

mod layered;
mod page_size;
mod rumble;

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::Result;
use crate::machine::Context;
use crate::page_size as page_size_study;
use crate::sample::Record;
use crate::study::{self, markdown};

/// Prints the tables of all `files` together.
///
/// # Errors
/// [`crate::Error::Io`], [`crate::Error::Input`].
pub fn run(files: &[PathBuf]) -> Result<()> {
    print!("{}", pages(files)?);
    Ok(())
}

/// All tables for which `files` have records.
///
/// # Errors
/// [`crate::Error::Io`], [`crate::Error::Input`].
pub fn pages(files: &[PathBuf]) -> Result<String> {
    Ok(render(&read_all(files)?) + &study::render_all(study::STUDIES, &of_studies(files)?))
}

/// The records of studies in `files`.
///
/// # Errors
/// [`crate::Error::Io`], [`crate::Error::Input`].
pub fn of_studies(files: &[PathBuf]) -> Result<Vec<study::Record>> {
    let of_study = |line| match line {
        Line::Study(record) => Some(*record),
        Line::Old(_) => None,
    };
    Ok(read_lines(files)?.into_iter().filter_map(of_study).collect())
}

/// Draws the tables of all `files` together into `out_dir`.
///
/// # Errors
/// [`crate::Error::Io`], [`crate::Error::Input`].
pub fn plot(files: &[PathBuf], out_dir: &Path) -> Result<()> {
    let mut drawn = page_size_study::draw(&read_all(files)?, out_dir)?;
    if drawn.is_empty() {
        drawn = study::plot(study::STUDIES, &of_studies(files)?, out_dir)?;
    }
    drawn.iter().for_each(|path| println!("{}", path.display()));
    Ok(())
}

/// A line of a result file.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Study(Box<study::Record>),
    Old(Box<Record>),
}

fn read_lines(files: &[PathBuf]) -> Result<Vec<Line>> {
    files.iter().try_fold(Vec::new(), |mut lines, file| {
        lines.extend(study::read(file)?);
        Ok(lines)
    })
}

/// The records of all `files` that are not of studies.
///
/// # Errors
/// [`crate::Error::Io`], [`crate::Error::Input`].
pub fn read_all(files: &[PathBuf]) -> Result<Vec<Record>> {
    let old = |line| match line {
        Line::Old(record) => Some(*record),
        Line::Study(_) => None,
    };
    Ok(read_lines(files)?.into_iter().filter_map(old).collect())
}

/// All tables for which there are records.
pub fn render(records: &[Record]) -> String {
    let tables = [
        heading(records),
        rumble::render(records),
        page_size::render(records),
        layered::render(records),
        skipped(records),
    ];
    tables.iter().filter(|table| !table.is_empty()).map(|table| format!("{table}\n")).collect()
}

/// Every command and machine once, in order.
fn heading(records: &[Record]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for record in records {
        let context = context(record);
        let line = format!("- `{}` ({})\n", context.command, context.summary());
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.concat()
}

fn context(record: &Record) -> &Context {
    match record {
        Record::Skipped(skipped) => &skipped.context,
        Record::Rumble(sample) => &sample.context,
        Record::PageSize(run) => &run.context,
        Record::Layered(run) => &run.context,
    }
}

/// Who did not run.
fn skipped(records: &[Record]) -> String {
    let rows: Vec<_> = records
        .iter()
        .filter_map(|record| match record {
            Record::Skipped(skipped) => Some(vec![skipped.peer.clone(), skipped.reason.clone()]),
            _ => None,
        })
        .collect();
    markdown("Skipped", &["peer", "reason"], &rows)
}

/// A number with `digits` decimals, or a dash.
fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

/// Bytes in MiB, or a dash.
fn mebibytes(bytes: Option<f64>) -> String {
    number(bytes.map(|bytes| bytes / f64::from(1 << 20)), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gives_no_table() {
        assert_eq!(render(&[]), "");
    }
}
