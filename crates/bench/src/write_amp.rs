//! Bytes that reach the device per byte that the program writes, with the log filled to several
//! levels by live records, against the formula.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use aquifer_base::units::parse_size;
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::child::{Event, Parent, Task};
use crate::device::Device;
use crate::distribution::Distribution;
use crate::error::{Error, Result};
use crate::ledger::Ledger;
use crate::machine::Context;
use crate::measure::{Snapshot, fill};
use crate::peer::aquifer::Aquifer;
use crate::peer::{Kind, Peer, Setup};
use crate::progress::Progress;
use crate::runner::Runner;
use crate::sample::{Output, Record, WriteAmp};
use crate::scale::check_disk;
use crate::table;
use crate::theory::{RECORD_HEADER_BYTES, record_overhead, write_amplification};
use crate::verified::Verified;
use crate::workdir::WorkDir;
use crate::workload::{self, Phase, Point};

/// A leaf of 512 objects that were rewritten at random takes about a KiB, which is live in the log too.
const LEAF_BYTES_PER_OBJECT: u64 = 2;

/// Options of `write-amp`.
#[derive(Clone, Debug, Args)]
pub struct WriteAmpOptions {
    /// Percentages of the log that live records take, leaves included
    #[arg(long, value_delimiter = ',', default_value = "50,67,80,90", value_parser = clap::value_parser!(u32).range(1..=95))]
    pub fill: Vec<u32>,
    /// Size of the log
    #[arg(long, value_parser = parse_size, default_value = "2G")]
    pub flash: u64,
    /// RAM budget
    #[arg(long, value_parser = parse_size, default_value = "64M")]
    pub ram: u64,
    /// Bytes of one object, a multiple of 8
    #[arg(long, value_parser = parse_size, default_value = "128")]
    pub object: u64,
    /// Writing threads
    #[arg(long, default_value_t = 8)]
    pub threads: usize,
    /// How many times to rewrite the data until the state counts as steady
    #[arg(long, default_value_t = 2.5)]
    pub warm: f64,
    /// How many times to rewrite the data while measuring
    #[arg(long, default_value_t = 1.0)]
    pub measured: f64,
    /// Longest time for one fill; if it is not enough, the row says so
    #[arg(long, default_value_t = 1800.0)]
    pub seconds_max: f64,
    /// Directory for the log, on the disk to be measured
    #[arg(long, default_value = "/var/tmp")]
    pub dir: PathBuf,
    /// Append one JSON line per fill to this file
    #[arg(long)]
    pub out: Option<PathBuf>,
}

/// What the child is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WriteAmpTask {
    /// Heap and array.
    pub setup: Setup,
    /// Percent of the log that live records take, leaves included.
    pub fill_percent: u32,
    /// Writing threads.
    pub threads: usize,
    /// How many times the data is rewritten first.
    pub warm_rewrites: f64,
    /// How many times the data is rewritten while measuring.
    pub measured_rewrites: f64,
    /// Longest time for both.
    pub seconds_max: f64,
}

/// Measures each fill in a child of its own and prints the table.
///
/// # Errors
/// [`Error::Input`], [`Error::Unavailable`], [`Error::Child`].
pub fn run(options: &WriteAmpOptions) -> Result<()> {
    let seconds = options.seconds_max;
    if options.object == 0
        || !options.object.is_multiple_of(8)
        || options.threads == 0
        || !seconds.is_finite()
    {
        return Err(Error::Input(
            "--object is a multiple of 8, --threads and --seconds-max are positive".into(),
        ));
    }
    let workdir = WorkDir::acquire(&options.dir)?;
    let context = Context::here(&Device::holding(workdir.path())?);
    let mut output = Output::open(options.out.as_deref())?;
    let progress = Progress::new(options.fill.len() as u64);
    let mut records = Vec::new();
    for &fill_percent in &options.fill {
        let task = options.task(fill_percent)?;
        let name = format!("write-amp {fill_percent} %");
        let mut runner = Runner::start(&name, Task::WriteAmp(task), None, &context)?;
        for record in runner.records(&progress)? {
            output.write(&record)?;
            records.push(record);
        }
        progress.step();
    }
    progress.note(&table::render(&records));
    Ok(())
}

impl WriteAmpOptions {
    fn task(&self, fill_percent: u32) -> Result<WriteAmpTask> {
        let per_object = self.object + RECORD_HEADER_BYTES + LEAF_BYTES_PER_OBJECT;
        let records = self.flash as f64 * f64::from(fill_percent) / 100.0 / per_object as f64;
        let setup = Setup {
            dir: self.dir.clone(),
            data_bytes: records as u64 * self.object,
            object_bytes: self.object,
            ram_bytes: self.ram,
            flash_bytes: self.flash,
        };
        check_disk(&self.dir, &setup, &[Kind::Aquifer], 0)?;
        Ok(WriteAmpTask {
            setup,
            fill_percent,
            threads: self.threads,
            warm_rewrites: self.warm,
            measured_rewrites: self.measured,
            seconds_max: self.seconds_max,
        })
    }
}

/// The child's part.
///
/// # Errors
/// [`Error::Unavailable`] without the library; [`Error::WrongData`].
pub fn work(task: &WriteAmpTask, context: &Context, parent: &mut Parent) -> Result<()> {
    let device = Device::holding(&task.setup.dir)?;
    let heap = Aquifer::open(&task.setup, false)?;
    let ledger = Ledger::new("aquifer", task.setup.objects());
    let objects = Verified::new(heap.objects(), &ledger);
    fill(objects, parent);
    let mut writing = Writing {
        heap: &heap,
        device: &device,
        task,
        parent,
        started: Instant::now(),
        written_at_start: objects_written_bytes(&heap)?,
        begin: None,
        end: None,
        steady: true,
    };
    let point = Point { distribution: Distribution::Uniform, read_percent: 0, threads: task.threads };
    let measured = workload::run(objects, point, 1, || writing.phase())?;
    objects.read_watched()?;
    let steady = writing.steady;
    let (begin, end) = writing.begin.zip(writing.end).expect("set before a run without failure ends");
    let interval = begin.until(&end);
    let setup = &task.setup;
    let record = Record::WriteAmp(Box::new(WriteAmp {
        fill_percent: task.fill_percent,
        flash_bytes: setup.flash_bytes,
        ram_bytes: setup.ram_bytes,
        object_bytes: setup.object_bytes,
        data_bytes: setup.data_bytes,
        threads: task.threads,
        warm_rewrites: task.warm_rewrites,
        steady,
        seconds: interval.time.as_secs_f64(),
        ops_per_s: measured.ops_per_s,
        changed_bytes: measured.writes * setup.object_bytes,
        device: interval.device,
        stats: interval.stats.unwrap_or_default(),
        theory: write_amplification(f64::from(task.fill_percent) / 100.0),
        record_overhead: record_overhead(setup.object_bytes),
        context: context.clone(),
    }));
    parent.tell(&Event::Record(Box::new(record)));
    Ok(())
}

/// Warm-up and measurement by the bytes of objects that were written.
struct Writing<'a> {
    heap: &'a Aquifer,
    device: &'a Device,
    task: &'a WriteAmpTask,
    parent: &'a mut Parent,
    started: Instant,
    written_at_start: u64,
    begin: Option<Snapshot>,
    end: Option<Snapshot>,
    steady: bool,
}

impl Writing<'_> {
    fn phase(&mut self) -> Result<Phase> {
        let written = (objects_written_bytes(self.heap)? - self.written_at_start) as f64;
        let rewrites = written / self.task.setup.data_bytes as f64;
        let needed = self.task.warm_rewrites + self.task.measured_rewrites;
        self.parent.progress("writing", (rewrites * 100.0) as u64, (needed * 100.0) as u64);
        let late = self.started.elapsed() >= Duration::from_secs_f64(self.task.seconds_max.max(0.0));
        // Out of time, a last short measurement is better than none; the record tells.
        if self.begin.is_none() && (rewrites >= self.task.warm_rewrites || late) {
            self.steady = rewrites >= self.task.warm_rewrites;
            self.begin = Some(Snapshot::take(self.heap, self.device)?);
            return Ok(Phase::Measure);
        }
        if self.begin.is_none() {
            return Ok(Phase::WarmUp);
        }
        if rewrites < needed && !late {
            return Ok(Phase::Measure);
        }
        self.end = Some(Snapshot::take(self.heap, self.device)?);
        Ok(Phase::Stop)
    }
}

fn objects_written_bytes(heap: &Aquifer) -> Result<u64> {
    let stats = heap.stats().ok_or_else(|| Error::Unavailable("aq_heap_stats_get failed".to_owned()))?;
    Ok(stats.objects_written_bytes)
}
