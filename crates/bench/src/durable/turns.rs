//! Samples one after the other, each made in a new file by a process of its own, so that none finds what another one left.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::directory::Directory;
use crate::child::Task;
use crate::error::{Error, Result};
use crate::machine::Context;
use crate::omissions::Omissions;
use crate::progress::Progress;
use crate::runner::Runner;
use crate::sample::{Output, Record, Skipped};
use crate::table;
use crate::workdir::WorkDir;

/// A run of samples.
pub struct Turns {
    context: Context,
    progress: Progress,
    output: Option<Output>,
    records: Vec<Record>,
    /// What could not run once is not tried again.
    left_out: BTreeSet<String>,
    omissions: Omissions,
    dir: Directory,
    _workdir: WorkDir,
}

impl Turns {
    /// A run of so many samples in a directory below `parent`, recorded in `out` too.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Input`] if somebody else uses the directory.
    pub fn begin(parent: &Path, out: Option<&Path>, samples: u64) -> Result<Self> {
        let workdir = WorkDir::acquire(parent)?;
        let dir = Directory::create(workdir.path())?;
        Ok(Self {
            context: Context::with_files_on(&dir.device_name()),
            progress: Progress::new(samples),
            output: out.map(|path| Output::open(Some(path))).transpose()?,
            records: Vec::new(),
            left_out: BTreeSet::new(),
            omissions: Omissions::default(),
            dir,
            _workdir: workdir,
        })
    }

    /// Where the files go.
    pub fn dir(&self) -> &Directory {
        &self.dir
    }

    /// The path of that.
    pub fn path(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// Makes one sample. `what` could not run if a sample fails, and is not tried again; `details` are for the person who waits.
    ///
    /// # Errors
    /// [`Error::WrongData`]; [`Error::Io`] of the directory and of the results. What else a sample lacks or does wrong is kept for the end.
    pub fn take(&mut self, what: &str, details: &str, task: Task) -> Result<()> {
        if !self.left_out.contains(what) {
            self.progress.doing(format!("{what}, {details}"));
            self.dir.make_empty()?;
            let runner = Runner::start(what, task, None, &self.context);
            match runner.and_then(|mut runner| runner.records(&self.progress)) {
                Ok(records) => records.into_iter().try_for_each(|record| self.keep(record))?,
                Err(error) => self.leave_out(what, error)?,
            }
        }
        self.progress.step();
        Ok(())
    }

    /// Prints the table to standard output.
    ///
    /// # Errors
    /// The first one of a sample, unless the machine lacked something.
    pub fn end(self) -> Result<()> {
        let Self { records, progress, omissions, .. } = self;
        drop(progress);
        print!("{}", table::render(&records));
        omissions.end()
    }

    fn leave_out(&mut self, what: &str, error: Error) -> Result<()> {
        let reason = self.omissions.reason(error)?;
        self.progress.note(&format!("{what} is skipped: {reason}"));
        self.left_out.insert(what.to_owned());
        let (peer, context) = (what.to_owned(), self.context.clone());
        self.keep(Record::Skipped(Skipped { peer, reason, context }))
    }

    fn keep(&mut self, record: Record) -> Result<()> {
        if let Some(summary) = summary(&record) {
            self.progress.note(&summary);
        }
        if let Some(output) = &mut self.output {
            output.write(&record)?;
        }
        self.records.push(record);
        Ok(())
    }
}

/// One line for the person who waits.
fn summary(record: &Record) -> Option<String> {
    match record {
        Record::Transactions(sample) => Some(sample.summary()),
        Record::Workloads(sample) => Some(sample.summary()),
        Record::Optimisations(sample) => Some(sample.summary()),
        Record::Cleaning(sample) => Some(sample.summary()),
        Record::Recovery(sample) => Some(sample.summary()),
        _ => None,
    }
}
