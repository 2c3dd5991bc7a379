//! All switches in turn, and again: what disturbs the machine for a while disturbs all of them.

use super::options::OptimisationsOptions;
use super::task::OptimisationTask;
use crate::child::Task;
use crate::durable::store::Setup;
use crate::durable::turns::Turns;
use crate::durable::workloads::engine::{Contender, Engine};
use crate::durable::workloads::options::capacity_bytes;
use crate::durable::workloads::run::{Point, points};
use crate::durable::workloads::task::WorkloadTask;
use crate::error::Result;

/// Measures all switches and prints the tables to standard output.
///
/// # Errors
/// [`Error::Input`](crate::Error::Input), [`Error::Io`](crate::Error::Io), [`Error::Unavailable`](crate::Error::Unavailable) without
/// room. A sample that fails is recorded as skipped, which is the error when all others have run.
pub fn run(options: &OptimisationsOptions) -> Result<()> {
    options.check()?;
    let (points, switches) =
        (points(&options.media(), &options.programs(), &options.threads), options.switches());
    let samples = points.len() * switches.len() * options.runs as usize;
    let mut turns = Turns::begin(&options.dir, options.out.as_deref(), samples as u64)?;
    let setup = Setup {
        dir: turns.path(),
        is_memory: turns.dir().is_memory(),
        capacity_bytes: capacity_bytes(options.entries, options.count),
        latency_ns: options.latency_ns,
        bandwidth_bytes_per_s: options.bandwidth,
    };
    turns.dir().check_room(setup.capacity_bytes)?;
    for point @ (medium, program, threads) in points {
        for run in 1..=options.runs {
            for &off in &switches {
                let task = OptimisationTask { off, workload: workload(options, &setup, point, run) };
                let what = format!("{program} without {off}, {medium}");
                turns.take(&what, &format!("{threads} threads, run {run}"), Task::Optimisation(task))?;
            }
        }
    }
    turns.end()
}

fn workload(
    options: &OptimisationsOptions,
    setup: &Setup,
    (medium, program, threads): Point,
    run: u32,
) -> WorkloadTask {
    WorkloadTask {
        contender: Contender { engine: Engine::Aquifer, utilisation_percent: Some(options.utilisation) },
        medium,
        program,
        threads,
        run,
        entries: options.entries,
        transactions: options.count,
        limit: options.limit(),
        setup: setup.clone(),
    }
}
