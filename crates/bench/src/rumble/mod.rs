//! Memory that systems need for objects whose sizes change: the eight workloads of Rumble, Kejriwal and Ousterhout,
//! "Log-structured Memory for DRAM-based Storage", FAST 2014.
//!
//! Each system runs each workload in a process of its own. The figure is the largest memory over the whole run, over the most
//! bytes of objects that are live at a time.
//!
//! | file | noun |
//! |---|---|
//! | `options` | systems, workloads, sizes, runs |
//! | `workload` | W1 to W8 |
//! | `churn` | allocating and deleting, and looking at the memory meanwhile |
//! | `books` | which objects there are |
//! | `store` | what a system must offer |
//! | `system` | the systems, and the processes that they need |
//! | `malloc` | the C library's allocator and those that stand in front of it |
//! | `pmemobj` | libpmemobj |
//! | `durable` | the durable heap |
//! | `breakdown` | where the memory of a durable heap is |
//! | `resident` | memory of a process, exactly |
//! | `task` | the child |
//! | `sample` | lines of results |

mod books;
pub mod breakdown;
mod churn;
mod durable;
mod malloc;
mod options;
mod pmemobj;
mod resident;
pub mod sample;
mod store;
pub mod system;
pub mod task;
pub mod workload;

use std::fs;
use std::path::PathBuf;

use crate::child::Task;
use crate::cleanup;
use crate::error::{Error, Result};
use crate::machine::Context;
use crate::progress::Progress;
use crate::runner::Runner;
use crate::sample::{Output, Record, Skipped};
use crate::table;
use sample::Settings;
use system::System;
use task::RumbleTask;
use workload::Workload;

pub use options::{EXAMPLES, RumbleOptions};

/// Runs everything, and prints the table on standard output.
///
/// # Errors
/// [`Error::Input`], [`Error::Io`]; [`Error::Child`] if a system fails. Systems that are not installed are left out.
pub fn run(options: &RumbleOptions) -> Result<()> {
    options.check()?;
    let settings: Vec<_> = options
        .systems
        .iter()
        .flat_map(|&system| options.settings(system).into_iter().map(move |s| (system, s)))
        .collect();
    let steps = settings.len() * options.workloads.len() * options.runs as usize;
    let mut comparison = Comparison {
        options,
        context: Context::with_files_on("none"),
        progress: Progress::new(steps as u64),
        output: options.out.as_deref().map(|path| Output::open(Some(path))).transpose()?,
        records: Vec::new(),
    };
    settings.into_iter().try_for_each(|(system, settings)| comparison.measure(system, settings))?;
    let Comparison { progress, records, .. } = comparison;
    drop(progress);
    print!("{}", table::render(&records));
    Ok(())
}

struct Comparison<'a> {
    options: &'a RumbleOptions,
    context: Context,
    progress: Progress,
    output: Option<Output>,
    records: Vec<Record>,
}

impl Comparison<'_> {
    /// All workloads of a system.
    fn measure(&mut self, system: System, settings: Settings) -> Result<()> {
        for &workload in &self.options.workloads {
            for run in 1..=self.options.runs {
                match self.one(system, workload, settings, run) {
                    Ok(record) => self.keep(record)?,
                    Err(Error::Unavailable(reason)) => return self.skip(system, reason),
                    Err(error) => return Err(error),
                }
                self.progress.step();
            }
        }
        Ok(())
    }

    fn one(&self, system: System, workload: Workload, settings: Settings, run: u32) -> Result<Record> {
        let options = self.options;
        let path = self.path(system);
        let removed = path.clone();
        // Registered before the child, which is killed first then. Not every system makes a file.
        let _file = cleanup::register(move || drop(fs::remove_file(removed)));
        let task = RumbleTask {
            system,
            workload,
            run,
            live_bytes: options.live,
            batch: options.batch.into(),
            seed: options.seed + u64::from(run) - 1,
            settings,
            wants_breakdown: options.breakdown,
            path,
        };
        let name = system.to_string();
        let mut runner =
            Runner::start_in(&name, Task::Rumble(task), None, &self.context, &system.environment())?;
        let records = runner.records(&self.progress)?;
        let what = "ended without a result".to_owned();
        records.into_iter().next().ok_or(Error::Child { peer: name, what })
    }

    fn path(&self, system: System) -> PathBuf {
        self.options.dir.join(format!("aquifer-rumble-{system}-{}", std::process::id()))
    }

    fn keep(&mut self, record: Record) -> Result<()> {
        if let Record::Rumble(sample) = &record {
            self.progress.note(&sample.summary());
        }
        if let Some(output) = &mut self.output {
            output.write(&record)?;
        }
        self.records.push(record);
        Ok(())
    }

    fn skip(&mut self, system: System, reason: String) -> Result<()> {
        self.progress.note(&format!("{system} is skipped: {reason}"));
        self.keep(Record::Skipped(Skipped {
            peer: system.to_string(),
            reason,
            context: self.context.clone(),
        }))
    }
}
