//! Records held against promises, and against earlier records.

use std::collections::BTreeSet;
use std::path::PathBuf;

use aquifer_base::units::format_size;
use clap::Args;

use super::STUDIES;
use super::page;
use super::promise::{self, Verdict, worse};
use super::record::{Record, read};
use crate::error::{Error, Result};

const EXAMPLES: &str = "\
Examples:
  aquifer-bench check results.jsonl
  aquifer-bench check results.jsonl --baseline bench/baseline

A figure got worse if its median did by more than its runs differ, now or then, and by more than a twentieth. Where the machines differ, so do the
figures: compare runs of one machine.";

/// Options of `check`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckOptions {
    /// Result files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Earlier result files, or folders with some
    #[arg(long, num_args = 1..)]
    baseline: Vec<PathBuf>,
}

/// Says what is promised, and what got worse.
///
/// # Errors
/// [`Error::Input`] if a promise is not kept or a figure got worse; [`Error::WrongData`] never reaches a file. [`Error::Io`].
pub fn check(options: &CheckOptions) -> Result<()> {
    let (records, earlier) = (read_all(&options.files)?, read_all(&options.baseline)?);
    tell_of_machines(&records, &earlier);
    let (mut verdicts, mut lost) = (Vec::new(), Vec::new());
    for entry in STUDIES {
        let [own, before] = [&records, &earlier].map(|records| of_study(records, entry.name));
        verdicts.extend(entry.promises.iter().flat_map(|promise| promise.judge(&own)));
        lost.extend(entry.tables.iter().flat_map(|table| worse(table, &own, &before)));
    }
    print!("{}", promise::render(&verdicts));
    lost.iter().for_each(|sentence| println!("worse: {sentence}"));
    let broken = verdicts.iter().filter(|verdict| !Verdict::is_kept(verdict)).count();
    if broken + lost.len() > 0 {
        let (promises, figures) = (verdicts.len(), lost.len());
        return Err(Error::Input(format!(
            "{broken} of {promises} promises are not kept, {figures} figures got worse"
        )));
    }
    println!("{} promises are kept, nothing of {} earlier records got worse", verdicts.len(), earlier.len());
    Ok(())
}

/// All records in files, and in the files of folders.
///
/// # Errors
/// [`Error::Io`], [`Error::Input`].
pub fn read_all(paths: &[PathBuf]) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for path in paths {
        let files = if path.is_dir() { page::result_files(path)? } else { vec![path.clone()] };
        for file in files {
            records.extend(read(&file)?);
        }
    }
    Ok(records)
}

/// Says which machines are compared, if they are not the same.
fn tell_of_machines(records: &[Record], earlier: &[Record]) {
    let machines = |records: &[Record]| {
        let machine = |Record { context, .. }: &Record| {
            format!("{} x {}, {}", context.cpus, context.cpu, format_size(context.machine_ram_bytes))
        };
        records.iter().map(machine).collect::<BTreeSet<_>>()
    };
    let (now, before) = (machines(records), machines(earlier));
    if !before.is_empty() && now != before {
        println!("the machines differ: {now:?}, {before:?} before; only ratios can be compared");
    }
}

/// The records of one study.
pub(super) fn of_study(records: &[Record], name: &str) -> Vec<Record> {
    records.iter().filter(|record| record.study == name).cloned().collect()
}
