//! All systems in turn, and again: what disturbs the machine for a while disturbs all of them. Each sample is made in a new
//! file by a process of its own, so that none finds what another one left.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use aquifer_durable::persist::is_memory;

use super::load::Workload;
use super::options::TransactionsOptions;
use super::store::{Setup, failed};
use super::system::Contestant;
use super::task::TransactionsTask;
use crate::child::Task;
use crate::cleanup::{self, Guard};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::machine::Context;
use crate::progress::Progress;
use crate::runner::Runner;
use crate::sample::{Output, Record, Skipped};
use crate::table;
use crate::workdir::{WorkDir, free_bytes};

/// Below the directory of the command line; ours alone, because that one is locked.
const DIR: &str = "aquifer-bench-durable";

/// Measures all systems and prints the table to standard output.
///
/// # Errors
/// [`Error::Input`], [`Error::Io`], [`Error::Unavailable`] without room. A system that the machine lacks something for is recorded as
/// skipped. So is one that fails, which is the error when all others have run.
pub fn run(options: &TransactionsOptions) -> Result<()> {
    options.check()?;
    let workdir = WorkDir::acquire(&options.dir)?;
    let dir = Directory::create(workdir.path())?;
    let is_memory = dir.is_memory()?;
    let setup = options.setup(dir.path.clone(), is_memory);
    check_room(&setup)?;
    let mut transactions = TransactionsRun {
        options,
        context: Context::with_files_on(&name_of(&dir.path, is_memory)),
        setup,
        progress: Progress::new(samples(options)),
        output: options.out.as_deref().map(|path| Output::open(Some(path))).transpose()?,
        records: Vec::new(),
        left_out: BTreeSet::new(),
        failed: None,
        dir,
    };
    transactions.take_turns()?;
    let TransactionsRun { records, progress, failed, .. } = transactions;
    drop(progress);
    print!("{}", table::render(&records));
    failed.map_or(Ok(()), Err)
}

fn samples(options: &TransactionsOptions) -> u64 {
    let points = options.workloads().len() * options.threads.len() * options.contestants().len();
    points as u64 * u64::from(options.runs)
}

/// One store is there at a time.
fn check_room(setup: &Setup) -> Result<()> {
    let free = free_bytes(&setup.dir)?;
    if free < setup.capacity_bytes {
        let size = aquifer_base::units::format_size;
        let (needed, free) = (size(setup.capacity_bytes), size(free));
        let dir = setup.dir.display();
        return Err(Error::Unavailable(format!("{needed} are needed in {dir}, which has {free} left")));
    }
    Ok(())
}

fn name_of(dir: &Path, is_memory: bool) -> String {
    match Device::holding(dir) {
        Ok(device) => device.name().to_owned(),
        Err(_) if is_memory => "tmpfs".to_owned(),
        Err(_) => "unknown".to_owned(),
    }
}

/// The directory for the stores; removed when dropped, and by an interrupt.
struct Directory {
    path: PathBuf,
    _removed: Guard,
}

impl Directory {
    fn create(parent: &Path) -> Result<Self> {
        let path = parent.join(DIR);
        let removed = path.clone();
        let removed = cleanup::register(move || {
            if let Err(error) = fs::remove_dir_all(&removed) {
                eprintln!("removing {}: {error}", removed.display());
            }
        });
        let directory = Self { path, _removed: removed };
        fs::create_dir_all(&directory.path).map_err(Error::io("creating", &directory.path))?;
        directory.make_empty()?;
        Ok(directory)
    }

    /// Removes the files of the last store, or what a benchmark left that was killed. The directory stays: an interrupt may be
    /// removing it, and must not find it made again.
    fn make_empty(&self) -> Result<()> {
        cleanup::stop_if_interrupted();
        for entry in fs::read_dir(&self.path).map_err(Error::io("reading", &self.path))? {
            let file = entry.map_err(Error::io("reading", &self.path))?.path();
            fs::remove_file(&file).map_err(Error::io("removing", &file))?;
        }
        Ok(())
    }

    fn is_memory(&self) -> Result<bool> {
        let probe = self.path.join("probe");
        let found = is_memory(&probe).map_err(|error| failed("looking at", &probe, error))?;
        fs::remove_file(&probe).map_err(Error::io("removing", &probe))?;
        Ok(found)
    }
}

struct TransactionsRun<'a> {
    options: &'a TransactionsOptions,
    context: Context,
    setup: Setup,
    progress: Progress,
    output: Option<Output>,
    records: Vec<Record>,
    /// What could not run once is not tried again.
    left_out: BTreeSet<(Contestant, Workload)>,
    /// What first went wrong.
    failed: Option<Error>,
    dir: Directory,
}

impl TransactionsRun<'_> {
    fn take_turns(&mut self) -> Result<()> {
        let (workloads, contestants) = (self.options.workloads(), self.options.contestants());
        for workload in workloads {
            for &threads in &self.options.threads {
                for run in 1..=self.options.runs {
                    for &contestant in &contestants {
                        self.take_turn(contestant, workload, threads, run)?;
                        self.progress.step();
                    }
                }
            }
        }
        Ok(())
    }

    fn take_turn(
        &mut self,
        contestant: Contestant,
        workload: Workload,
        threads: u64,
        run: u32,
    ) -> Result<()> {
        if self.left_out.contains(&(contestant, workload)) {
            return Ok(());
        }
        self.progress.doing(format!("{contestant}: {workload}, {threads} threads, run {run}"));
        self.dir.make_empty()?;
        let task = TransactionsTask {
            contestant,
            workload,
            threads,
            run,
            transactions: self.options.count,
            limit: self.options.limit(),
            setup: self.setup.clone(),
        };
        let runner = Runner::start(&contestant.to_string(), Task::Transactions(task), None, &self.context);
        let measured = runner.and_then(|mut runner| runner.records(&self.progress));
        match measured {
            Ok(records) => records.into_iter().try_for_each(|record| self.keep(record)),
            Err(error) => self.leave_out(contestant, workload, error),
        }
    }

    fn leave_out(&mut self, contestant: Contestant, workload: Workload, error: Error) -> Result<()> {
        self.progress.note(&format!("{contestant} is skipped for {workload}: {error}"));
        self.left_out.insert((contestant, workload));
        let (peer, context) = (format!("{contestant}, {workload}"), self.context.clone());
        self.keep(Record::Skipped(Skipped { peer, reason: error.to_string(), context }))?;
        if !matches!(error, Error::Unavailable(_)) {
            self.failed.get_or_insert(error);
        }
        Ok(())
    }

    fn keep(&mut self, record: Record) -> Result<()> {
        if let Record::Transactions(sample) = &record {
            self.progress.note(&sample.summary());
        }
        if let Some(output) = &mut self.output {
            output.write(&record)?;
        }
        self.records.push(record);
        Ok(())
    }
}
