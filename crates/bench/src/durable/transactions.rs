//! All systems in turn, and again: what disturbs the machine for a while disturbs all of them.

use super::options::TransactionsOptions;
use super::task::TransactionsTask;
use super::turns::Turns;
use crate::child::Task;
use crate::error::Result;

/// Measures all systems and prints the table to standard output.
///
/// # Errors
/// [`Error::Input`](crate::Error::Input), [`Error::Io`](crate::Error::Io), [`Error::Unavailable`](crate::Error::Unavailable) without
/// room. A system that the machine lacks something for is recorded as skipped. So is one that fails, which is the error when all
/// others have run.
pub fn run(options: &TransactionsOptions) -> Result<()> {
    options.check()?;
    let mut turns = Turns::begin(&options.dir, options.out.as_deref(), samples(options))?;
    let setup = options.setup(turns.path(), turns.dir().is_memory());
    turns.dir().check_room(setup.capacity_bytes)?;
    let (workloads, contestants) = (options.workloads(), options.contestants());
    for workload in workloads {
        for &threads in &options.threads {
            for run in 1..=options.runs {
                for &contestant in &contestants {
                    let task = TransactionsTask {
                        contestant,
                        workload,
                        threads,
                        run,
                        transactions: options.count,
                        limit: options.limit(),
                        setup: setup.clone(),
                    };
                    let what = format!("{contestant}, {workload}");
                    turns.take(&what, &format!("{threads} threads, run {run}"), Task::Transactions(task))?;
                }
            }
        }
    }
    turns.end()
}

fn samples(options: &TransactionsOptions) -> u64 {
    let points = options.workloads().len() * options.threads.len() * options.contestants().len();
    points as u64 * u64::from(options.runs)
}
