//! Objects by reference and in batches, beside what they replace: a handle hit beside a fault on an
//! object that is just as much in RAM, and batches of one thread beside the device's own random
//! reads at queue depth 32.
//!
//! | file | noun |
//! |---|---|
//! | `options` | sizes, runs, seconds |
//! | `data` | the bytes that follow from an object's number |
//! | `handles` | the child that measures hits and faults, on objects that all fit in RAM |
//! | `batches` | the child that reads batches of objects that do not fit |
//! | `device` | fio, before and after each run of batches |
//! | `sample` | lines of results |

pub mod batches;
pub mod data;
mod device;
pub mod handles;
mod options;
pub mod sample;

use crate::cgroup::Cgroup;
use crate::child::{Event, Task};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::machine::Context;
use crate::peer::{Kind, Setup};
use crate::progress::Progress;
use crate::runner::Runner;
use crate::sample::{Output, Record, Skipped};
use crate::scale::check_disk;
use crate::table;
use crate::workdir::WorkDir;
use batches::{BatchRequest, BatchesTask};
use device::{Probe, SETTLE_LIMIT};
use handles::HandlesTask;
use sample::Batches;

pub use options::ReferencesOptions;

/// Bytes of one object.
pub const OBJECT_BYTES: u64 = 128;

/// Measures handles, faults and batches, and prints the tables.
///
/// # Errors
/// [`Error::Input`], [`Error::Unavailable`] without the library or a disk, [`Error::Child`]; without
/// fio it goes on, and says so.
pub fn run(options: &ReferencesOptions) -> Result<()> {
    options.check()?;
    let setup = options.scale().setup()?;
    let workdir = WorkDir::acquire(&options.dir)?;
    let device = Device::holding(workdir.path())?;
    check_disk(workdir.path(), &setup, &[Kind::Aquifer, Kind::Fio], 0)?;
    // The handles, fio's file, the fill, and for each run one step of batches and one of fio.
    let steps = 4 + 2 * u64::from(options.runs);
    let mut references = References {
        options,
        context: Context::here(&device),
        setup,
        device,
        progress: Progress::new(steps),
        output: Output::open(options.out.as_deref())?,
        records: Vec::new(),
    };
    references.handles()?;
    references.batches()?;
    references.progress.note(&table::render(&references.records));
    Ok(())
}

struct References<'a> {
    options: &'a ReferencesOptions,
    context: Context,
    setup: Setup,
    device: Device,
    progress: Progress,
    output: Output,
    records: Vec<Record>,
}

impl References<'_> {
    fn keep(&mut self, record: Record) -> Result<()> {
        self.output.write(&record)?;
        self.records.push(record);
        Ok(())
    }

    fn handles(&mut self) -> Result<()> {
        self.progress.doing("handles: opening");
        let task = HandlesTask {
            dir: self.options.dir.clone(),
            ram_bytes: self.options.ram,
            runs: self.options.runs,
        };
        let mut runner = Runner::start("handles", Task::Handles(task), None, &self.context)?;
        for record in runner.records(&self.progress)? {
            self.keep(record)?;
        }
        self.progress.step();
        Ok(())
    }

    fn batches(&mut self) -> Result<()> {
        let probe = self.probe()?;
        self.progress.step();
        let mut runner = self.open_batches()?;
        runner.expect_ready(&self.progress)?;
        self.progress.step();
        let mut before = self.reads(probe.as_ref(), 0)?;
        for run in 1..=self.options.runs {
            let mut sample = self.batch_run(&mut runner, run)?;
            let after = self.reads(probe.as_ref(), run)?;
            sample.fio = before.iter().filter_map(|reads| reads.with_after(&after)).collect();
            self.progress.note(&sample.summary());
            self.keep(Record::Batches(Box::new(sample)))?;
            before = after;
        }
        Ok(())
    }

    /// fio with its file, or nothing after recording why not.
    fn probe(&mut self) -> Result<Option<Probe>> {
        match Probe::create(&self.setup, self.options.seconds, &self.progress) {
            Ok(probe) => Ok(Some(probe)),
            Err(Error::Unavailable(reason)) => {
                self.progress.note(&format!("fio is skipped: {reason}"));
                let context = self.context.clone();
                self.keep(Record::Skipped(Skipped { peer: Kind::Fio.to_string(), reason, context }))?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn reads(&self, probe: Option<&Probe>, run: u32) -> Result<Vec<device::Reads>> {
        let reads = probe.map_or(Ok(Vec::new()), |probe| probe.measure(&self.device, &self.progress, run))?;
        self.progress.step();
        Ok(reads)
    }

    fn open_batches(&self) -> Result<Runner> {
        self.progress.doing("batches: opening");
        let limit_bytes = self.options.scale().limit_bytes();
        // The heap keeps its budget by itself; the group only proves it, as in the micro-benchmark.
        let cgroup = match Cgroup::create("batches", limit_bytes, false) {
            Ok(cgroup) => Some(cgroup),
            Err(error) => {
                self.progress.note(&format!("batches run without a cgroup: {error}"));
                None
            }
        };
        let limit_bytes = cgroup.is_some().then_some(limit_bytes);
        let task = Task::Batches(BatchesTask { setup: self.setup.clone(), limit_bytes });
        Runner::start("batches", task, cgroup, &self.context)
    }

    fn batch_run(&self, runner: &mut Runner, run: u32) -> Result<Batches> {
        let background_write_bytes_per_s = self.device.settle(SETTLE_LIMIT)?;
        self.progress.doing(format!("batches: run {run}"));
        runner.send(&BatchRequest { run, seconds: self.options.seconds, background_write_bytes_per_s })?;
        let sample = match runner.next(&self.progress)? {
            Event::Record(record) => match *record {
                Record::Batches(sample) => Ok(*sample),
                record => Err(format!("answered {record:?}")),
            },
            event => Err(format!("answered {event:?}")),
        };
        self.progress.step();
        sample.map_err(|what| Error::Child { peer: "batches".to_owned(), what })
    }
}
