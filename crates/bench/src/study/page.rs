//! The page of measurements: made of stored runs, so that no figure in it is typed.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::record::{Record, read};
use super::{Entry, check, promise, render};
use crate::error::{Error, Result};

const EXAMPLES: &str = "\
Examples:
  aquifer-bench page > docs/reference/benchmarks.md
      As `make benchmarks-page` does
  aquifer-bench micro --out bench/baseline/micro.jsonl
      Measures a study again; remove the old file first

A study stands on the page once there is bench/baseline/STUDY.jsonl, with a hyphen for a space in its name. What explains
its tables stands in bench/notes/STUDY.md, which is prose without figures.";

const HEAD: &str = "\
# Measured

This page is made by `make benchmarks-page` from the runs in `bench/baseline`; no figure in it is typed. Above the tables
of a study stand its commands, and when and on which machine they ran. Machines are shared and noisy: the ratios of one
run say more than its figures. `aquifer-bench check results.jsonl --baseline bench/baseline` says what got worse.
";

/// Options of `page`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PageOptions {
    /// Folder with the stored runs
    #[arg(long, default_value = "bench/baseline")]
    baseline: PathBuf,
    /// Folder with what explains them
    #[arg(long, default_value = "bench/notes")]
    notes: PathBuf,
}

/// Prints the page of `studies`.
///
/// # Errors
/// [`Error::Io`], [`Error::Input`] if a file is malformed or belongs to no study.
pub fn page(studies: &[Entry], options: &PageOptions) -> Result<()> {
    print!("{}", made(studies, options)?);
    Ok(())
}

fn made(studies: &[Entry], options: &PageOptions) -> Result<String> {
    let mut page = HEAD.to_owned();
    let mut stored = result_files(&options.baseline)?;
    for entry in studies {
        let name = file_name(entry.name);
        let path = options.baseline.join(format!("{name}.jsonl"));
        if !stored.contains(&path) {
            continue;
        }
        stored.retain(|other| *other != path);
        let records: Vec<Record> = check::of_study(&read(&path)?, entry.name);
        let verdicts: Vec<_> = entry.promises.iter().flat_map(|promise| promise.judge(&records)).collect();
        let note = fs::read_to_string(options.notes.join(format!("{name}.md"))).unwrap_or_default();
        page += &format!("\n## {}\n\n{}.\n\n", entry.name, entry.about);
        let parts = [render(entry.tables, &records), promise::render(&verdicts), note];
        page += &parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n");
    }
    match stored.first() {
        None => Ok(page),
        Some(path) => {
            Err(Error::Input(format!("{} is of no study; its name is the study's", path.display())))
        }
    }
}

fn file_name(study: &str) -> String {
    study.replace(' ', "-")
}

/// The result files in a folder, in order.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn result_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).map_err(Error::io("reading", dir))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()).map_err(Error::io("reading", dir)));
    let mut paths = paths.collect::<Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|end| end == "jsonl"));
    paths.sort();
    Ok(paths)
}
