//! Cells in a shuffled order, again and again: what disturbs the machine for a while does not meet one page size only.

use super::files::Files;
use super::options::PageSizeOptions;
use super::sample::Cell;
use super::task::{CellTask, FillTask};
use crate::cgroup::Cgroup;
use crate::child::Task;
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

/// Measures all cells and prints the tables to standard output.
///
/// # Errors
/// [`Error::Input`], [`Error::Io`]; [`Error::Unavailable`] without SQLite, room or control groups; [`Error::WrongData`]; when all others have
/// been measured, the first error of a cell.
pub fn run(options: &PageSizeOptions) -> Result<()> {
    options.check()?;
    let workdir = WorkDir::acquire(&options.dir)?;
    let context = Context::here(&Device::holding(workdir.path())?);
    // Asked before the databases are made, which takes minutes.
    drop(group(options, options.cells()[0])?);
    let files = Files::create(workdir.path(), options.needed_bytes())?;
    let cells = options.cells();
    let databases = options.loads().len() * options.pages.len();
    let mut study = Study {
        options,
        context,
        files,
        progress: Progress::new((databases + cells.len() * options.runs as usize) as u64),
        output: options.out.as_deref().map(|path| Output::open(Some(path))).transpose()?,
        records: Vec::new(),
        omissions: Omissions::default(),
    };
    study.fill()?;
    for run in 1..=options.runs {
        shuffled(&cells, run).into_iter().try_for_each(|cell| study.cell(cell, run))?;
    }
    let Study { records, progress, omissions, .. } = study;
    drop(progress);
    print!("{}", table::render(&records));
    omissions.end()
}

/// A call of the benchmark.
struct Study<'o> {
    options: &'o PageSizeOptions,
    context: Context,
    files: Files,
    progress: Progress,
    output: Option<Output>,
    records: Vec<Record>,
    omissions: Omissions,
}

impl Study<'_> {
    /// Makes all databases.
    fn fill(&mut self) -> Result<()> {
        for load in self.options.loads() {
            for &page_bytes in &self.options.pages {
                let path = self.files.filled(load, page_bytes);
                if path.exists() {
                    continue;
                }
                let data_bytes = self.options.data;
                let task = FillTask { load, page_bytes, data_bytes, path };
                let mut child = Runner::start(
                    &format!("{load} {page_bytes}"),
                    Task::PageSizeFill(task),
                    None,
                    &self.context,
                )?;
                child.records(&self.progress)?;
                self.progress.step();
            }
        }
        Ok(())
    }

    /// Measures a cell once.
    fn cell(&mut self, cell: Cell, run: u32) -> Result<()> {
        self.progress.doing(format!("{cell}, run {run}"));
        let path = self.files.restore(cell.load, cell.page_bytes)?;
        let task = CellTask {
            cell,
            settings: self.options.settings(cell, path),
            data_bytes: self.options.data,
            limit_bytes: self.options.limit_bytes(cell),
            run,
            warmup_s: self.options.warmup,
            seconds: self.options.seconds,
        };
        let group = group(self.options, cell)?;
        let mut child = Runner::start("page-size", Task::PageSizeCell(task), group, &self.context)?;
        match child.records(&self.progress) {
            Ok(records) => records.into_iter().try_for_each(|record| self.keep(record))?,
            Err(error) => self.leave_out(cell, run, error)?,
        }
        self.progress.step();
        Ok(())
    }

    /// Records a run that failed, for instance because it needed more memory than its limit; the others go on.
    fn leave_out(&mut self, cell: Cell, run: u32, error: Error) -> Result<()> {
        let reason = self.omissions.reason(error)?;
        let (peer, context) = (format!("{cell}, run {run}"), self.context.clone());
        self.progress.note(&format!("{peer} is left out: {reason}"));
        self.keep(Record::Skipped(Skipped { peer, reason, context }))
    }

    fn keep(&mut self, record: Record) -> Result<()> {
        if let Record::PageSize(sample) = &record {
            self.progress.note(&sample.summary());
        }
        if let Some(output) = &mut self.output {
            output.write(&record)?;
        }
        self.records.push(record);
        Ok(())
    }
}

/// The control group of a cell, unless it is to have none.
fn group(options: &PageSizeOptions, cell: Cell) -> Result<Option<Cgroup>> {
    options.limit_bytes(cell).map(|limit_bytes| Cgroup::create("sqlite", limit_bytes, false)).transpose()
}

/// The cells in an order that the run decides.
fn shuffled(cells: &[Cell], run: u32) -> Vec<Cell> {
    let mut cells = cells.to_vec();
    Rng::new(run.into()).shuffle(&mut cells);
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_size::Kind;

    #[test]
    fn every_run_has_all_cells_in_an_order_of_its_own() {
        let cell = |page_bytes| Cell { load: Kind::TpcB, buffer_bytes: 1, page_bytes };
        let cells: Vec<_> = (0..20).map(cell).collect();
        let (first, mut second) = (shuffled(&cells, 1), shuffled(&cells, 2));
        assert_ne!(first, second);
        assert_ne!(first, cells);
        second.sort_unstable();
        assert_eq!(second, cells);
    }
}
