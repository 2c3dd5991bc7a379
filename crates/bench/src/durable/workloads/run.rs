//! All systems in turn, and again: what disturbs the machine for a while disturbs all of them.

use super::engine::Program;
use super::options::WorkloadsOptions;
use super::task::WorkloadTask;
use crate::child::Task;
use crate::durable::heaps::Medium;
use crate::durable::turns::Turns;
use crate::error::Result;

/// A group of a table's rows: medium, program, threads.
pub type Point = (Medium, Program, u64);

/// Measures all systems and prints the tables to standard output.
///
/// # Errors
/// [`Error::Input`](crate::Error::Input), [`Error::Io`](crate::Error::Io), [`Error::Unavailable`](crate::Error::Unavailable) without
/// room. A system that fails is recorded as skipped, which is the error when all others have run.
pub fn run(options: &WorkloadsOptions) -> Result<()> {
    options.check()?;
    let (points, contenders) =
        (points(&options.media(), &options.programs(), &options.threads), options.contenders());
    let samples = points.len() * contenders.len() * options.runs as usize;
    let mut turns = Turns::begin(&options.dir, options.out.as_deref(), samples as u64)?;
    let setup = options.setup(turns.path(), turns.dir().is_memory());
    turns.dir().check_room(setup.capacity_bytes)?;
    for (medium, program, threads) in points {
        for run in 1..=options.runs {
            for &contender in &contenders {
                let task = WorkloadTask {
                    contender,
                    medium,
                    program,
                    threads,
                    run,
                    entries: options.entries,
                    transactions: options.count,
                    limit: options.limit(),
                    setup: setup.clone(),
                };
                let what = format!("{contender}, {program}, {medium}");
                turns.take(&what, &format!("{threads} threads, run {run}"), Task::Workload(task))?;
            }
        }
    }
    turns.end()
}

/// All of them, in the order of the table.
pub fn points(media: &[Medium], programs: &[Program], threads: &[u64]) -> Vec<Point> {
    let with_threads = |medium, program| threads.iter().map(move |&threads| (medium, program, threads));
    let with_programs = |&medium| programs.iter().flat_map(move |&program| with_threads(medium, program));
    media.iter().flat_map(with_programs).collect()
}
