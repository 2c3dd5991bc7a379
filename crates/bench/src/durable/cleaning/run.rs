//! All utilisations in turn, and again: what disturbs the machine for a while disturbs all of them.

use super::options::{CleaningOptions, ENTRY_BYTES};
use super::sample::Updates;
use super::task::CleaningTask;
use crate::child::Task;
use crate::durable::heaps::Medium;
use crate::durable::turns::Turns;
use crate::error::Result;

/// A group of a table's rows.
type Point = (Medium, Updates, u64);

/// Measures all utilisations and prints the table to standard output.
///
/// # Errors
/// [`Error::Input`](crate::Error::Input), [`Error::Io`](crate::Error::Io), [`Error::Unavailable`](crate::Error::Unavailable) without
/// room. A sample that fails is recorded as skipped, which is the error when all others have run.
pub fn run(options: &CleaningOptions) -> Result<()> {
    options.check()?;
    let (points, utilisations) = (points(options), options.utilisations());
    let samples = points.len() * utilisations.len() * options.runs as usize;
    let mut turns = Turns::begin(&options.dir, options.out.as_deref(), samples as u64)?;
    let setup = options.setup(turns.path(), turns.dir().is_memory());
    turns.dir().check_room(setup.capacity_bytes)?;
    for (medium, updates, threads) in points {
        for run in 1..=options.runs {
            for &utilisation_percent in &utilisations {
                let task = CleaningTask {
                    updates,
                    medium,
                    utilisation_percent,
                    threads,
                    run,
                    entries: options.live / ENTRY_BYTES,
                    transactions: options.count,
                    limit: options.limit(),
                    setup: setup.clone(),
                };
                let what = format!("{}, {updates}, {medium}", name(utilisation_percent));
                turns.take(&what, &format!("{threads} threads, run {run}"), Task::Cleaning(task))?;
            }
        }
    }
    turns.end()
}

fn points(options: &CleaningOptions) -> Vec<Point> {
    let mut points = Vec::new();
    for medium in options.media() {
        for updates in options.updates() {
            points.extend(options.threads.iter().map(|&threads| (medium, updates, threads)));
        }
    }
    points
}

/// How full the file is, for a person.
pub fn name(utilisation_percent: Option<u32>) -> String {
    utilisation_percent.map_or("room for everything".to_owned(), |percent| format!("{percent} %"))
}
