//! A call of one of the benchmarks: children in control groups of one size, one after the other, and their records.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::options::CommonOptions;
use super::peer::Setup;
use super::source::Source;
use super::task::VolumeTask;
use crate::cgroup::Cgroup;
use crate::child::Task;
use crate::cleanup;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::machine::Context;
use crate::omissions::Omissions;
use crate::progress::Progress;
use crate::rng::Rng;
use crate::runner::Runner;
use crate::sample::{Output, Record, Skipped};
use crate::table;
use crate::workdir::WorkDir;

/// Longest wait for one peer's late writes before the next one runs.
const SETTLE_LIMIT: Duration = Duration::from_secs(3);

/// What every sample says of its run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Number, from 1; it decides all choices.
    pub run: u32,
    /// The mapped file and its memory.
    pub setup: Setup,
    /// Machine and command.
    pub context: Context,
}

/// Progress, records and what went wrong.
pub struct Study {
    /// Machine and command.
    pub context: Context,
    /// What the person at the terminal sees.
    pub progress: Progress,
    output: Option<Output>,
    records: Vec<Record>,
    omissions: Omissions,
    device: Device,
    _workdir: WorkDir,
}

impl Study {
    /// Locks the folder and opens the output. Control groups are tried before any file is made, which takes minutes.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Input`]; [`Error::Unavailable`] without control groups.
    pub fn open(options: &CommonOptions, steps: u64) -> Result<Self> {
        let study = Self::open_unlimited(options, steps)?;
        drop(Cgroup::create("volume", options.ram, false)?);
        Ok(study)
    }

    /// The same for a benchmark whose memory is not limited.
    ///
    /// # Errors
    /// As [`Study::open`].
    pub fn open_unlimited(options: &CommonOptions, steps: u64) -> Result<Self> {
        let workdir = WorkDir::acquire(&options.dir)?;
        let device = Device::holding(workdir.path())?;
        Ok(Self {
            context: Context::here(&device),
            progress: Progress::new(steps),
            output: options.out.as_deref().map(|path| Output::open(Some(path))).transpose()?,
            records: Vec::new(),
            omissions: Omissions::default(),
            device,
            _workdir: workdir,
        })
    }

    /// As [`Study::limited`], when the disk is quiet and the kernel has nothing of the host's file.
    ///
    /// # Errors
    /// As [`Study::limited`].
    pub fn child(&mut self, name: &str, source: &Source, setup: &Setup, task: VolumeTask) -> Result<()> {
        self.prepare(name, source)?;
        self.limited(name, setup.limit_bytes, task)
    }

    /// Runs a child in a control group of its own. A run that fails is left out and recorded as such; the others go on.
    ///
    /// # Errors
    /// [`Error::WrongData`]; [`Error::Io`] of the output, [`Error::Unavailable`] without control groups.
    pub fn limited(&mut self, name: &str, limit_bytes: u64, task: VolumeTask) -> Result<()> {
        let group = Cgroup::create("volume", limit_bytes, false)?;
        let mut child = Runner::start(name, Task::Volume(Box::new(task)), Some(group), &self.context)?;
        match child.records(&self.progress) {
            Ok(records) => records.into_iter().try_for_each(|record| self.keep(record))?,
            Err(error) => self.leave_out(name, error)?,
        }
        self.progress.step();
        Ok(())
    }

    /// Runs a child without a limit, which must not fail.
    ///
    /// # Errors
    /// The child's.
    pub fn unlimited(&mut self, task: VolumeTask) -> Result<()> {
        let mut child = Runner::start("volume", Task::Volume(Box::new(task)), None, &self.context)?;
        child.records(&self.progress)?;
        self.progress.step();
        Ok(())
    }

    /// Waits for the disk and empties the page cache of the host's file.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn prepare(&self, name: &str, source: &Source) -> Result<()> {
        cleanup::stop_if_interrupted();
        self.progress.doing(name.to_owned());
        source.forget_cached()?;
        self.settle()
    }

    /// Waits until hardly anything is written to the disk any more, but not for long.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn settle(&self) -> Result<()> {
        self.device.settle(SETTLE_LIMIT).map(drop)
    }

    /// Records a run that failed.
    ///
    /// # Errors
    /// [`Error::WrongData`] if that is why; [`Error::Io`] of the output.
    pub fn leave_out(&mut self, name: &str, error: Error) -> Result<()> {
        let reason = self.omissions.reason(error)?;
        self.skip(name, &reason)
    }

    /// Records that something is not measured because the machine lacks what it needs.
    ///
    /// # Errors
    /// [`Error::Io`] of the output.
    pub fn skip(&mut self, name: &str, reason: &str) -> Result<()> {
        self.progress.note(&format!("{name} is left out: {reason}"));
        let (peer, reason, context) = (name.to_owned(), reason.to_owned(), self.context.clone());
        self.keep(Record::Skipped(Skipped { peer, reason, context }))
    }

    /// Records a result.
    ///
    /// # Errors
    /// [`Error::Io`] of the output.
    pub fn keep(&mut self, record: Record) -> Result<()> {
        if let Some(summary) = super::summary(&record) {
            self.progress.note(&summary);
        }
        if let Some(output) = &mut self.output {
            output.write(&record)?;
        }
        self.records.push(record);
        Ok(())
    }

    /// The records so far.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Prints the tables to standard output.
    ///
    /// # Errors
    /// The first of a run that was left out.
    pub fn finish(self) -> Result<()> {
        let Study { records, progress, omissions, .. } = self;
        drop(progress);
        print!("{}", table::render(&records));
        omissions.end()
    }
}

/// `cells` in an order that the run decides: what disturbs the machine for a while does not meet one peer only.
pub fn shuffled<T: Clone>(cells: &[T], run: u32) -> Vec<T> {
    let mut cells = cells.to_vec();
    Rng::new(run.into()).shuffle(&mut cells);
    cells
}
