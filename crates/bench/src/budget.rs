//! Does the memory of the process stay within the budget for as long as one cares to look?

use std::path::PathBuf;
use std::time::{Duration, Instant};

use aquifer_base::units::parse_size;
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::child::{Event, Parent, Task};
use crate::device::Device;
use crate::distribution::{Distribution, HOT_SPACING};
use crate::error::{Error, Result};
use crate::ledger::Ledger;
use crate::machine::Context;
use crate::objects::in_memory;
use crate::peer::aquifer::Aquifer;
use crate::peer::{Kind, Peer, Setup, flash_bytes_for};
use crate::process::Memory;
use crate::progress::Progress;
use crate::runner::Runner;
use crate::sample::{Budget, Output, Record};
use crate::scale::{check_disk, parse_count};
use crate::table;
use crate::verified::Verified;
use crate::workdir::WorkDir;
use crate::workload::{self, Phase, Point};

/// Time between two looks at the memory.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The mixed run takes these in turn.
const MIX: [(Distribution, u32); 6] = [
    (Distribution::Uniform, 100),
    (Distribution::Zipf, 50),
    (Distribution::ScatteredHot, 75),
    (Distribution::Uniform, 0),
    (Distribution::ScatteredHot, 0),
    (Distribution::Zipf, 100),
];
/// Length of one turn.
const TURN: Duration = Duration::from_secs(10);

/// Options of `budget`.
#[derive(Clone, Debug, Args)]
pub struct BudgetOptions {
    /// Length of the mixed run, after the fill
    #[arg(long, default_value_t = 10.0)]
    pub minutes: f64,
    /// Number of objects, as in 40M (decimal)
    #[arg(long, value_parser = parse_count, default_value = "40M")]
    pub objects: u64,
    /// Bytes of one object, a multiple of 8
    #[arg(long, value_parser = parse_size, default_value = "128")]
    pub object: u64,
    /// Threads
    #[arg(long, default_value_t = 32)]
    pub threads: usize,
    /// RAM budget; 76M makes 40M objects of 128 bytes 64 times the RAM
    #[arg(long, value_parser = parse_size, default_value = "256M")]
    pub ram: u64,
    /// Percent of the log that live records take
    #[arg(long, default_value_t = 67, value_parser = clap::value_parser!(u32).range(1..=95))]
    pub fill: u32,
    /// Directory for the log
    #[arg(long, default_value = "/var/tmp")]
    pub dir: PathBuf,
    /// Append the result as a JSON line to this file
    #[arg(long)]
    pub out: Option<PathBuf>,
}

/// What the child is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BudgetTask {
    /// Heap and array.
    pub setup: Setup,
    /// Threads.
    pub threads: usize,
    /// Length of the mixed run.
    pub seconds: f64,
}

/// Measures in a child and prints the table.
///
/// # Errors
/// [`Error::Input`], [`Error::Unavailable`], [`Error::Child`].
pub fn run(options: &BudgetOptions) -> Result<()> {
    let seconds = options.minutes * 60.0;
    let sizes_ok = options.objects >= HOT_SPACING && options.object > 0 && options.object.is_multiple_of(8);
    if !sizes_ok || options.threads == 0 || !(0.0..1e6).contains(&seconds) {
        let rule = "--objects is at least 100, --object a multiple of 8, --threads and --minutes positive";
        return Err(Error::Input(rule.to_owned()));
    }
    let workdir = WorkDir::acquire(&options.dir)?;
    let context = Context::here(&Device::holding(workdir.path())?);
    let mut output = Output::open(options.out.as_deref())?;
    let data_bytes = options.objects * options.object;
    let setup = Setup {
        dir: options.dir.clone(),
        data_bytes,
        object_bytes: options.object,
        ram_bytes: options.ram,
        flash_bytes: flash_bytes_for(data_bytes, options.object, f64::from(options.fill) / 100.0),
    };
    check_disk(&options.dir, &setup, &[Kind::Aquifer], 0)?;
    let progress = Progress::new(1);
    let task = BudgetTask { setup, threads: options.threads, seconds };
    let mut runner = Runner::start("budget", Task::Budget(task), None, &context)?;
    let records = runner.records(&progress)?;
    for record in &records {
        output.write(record)?;
    }
    progress.note(&table::render(&records));
    Ok(())
}

/// The child's part.
///
/// # Errors
/// [`Error::Unavailable`] without the library; [`Error::WrongData`].
pub fn work(task: &BudgetTask, context: &Context, parent: &mut Parent) -> Result<()> {
    rehearse(task.threads)?;
    let count = task.setup.objects();
    let ledger = Ledger::new("aquifer", count);
    let mut watch = Watch::new(Memory::now()?);
    let heap = Aquifer::open(&task.setup, false)?;
    let objects = Verified::new(heap.objects(), &ledger);
    workload::fill(objects, task.threads, |done| {
        watch.look(&heap);
        parent.progress("filling", done, count);
    });
    let (mut ops, started) = (0, Instant::now());
    let length = Duration::from_secs_f64(task.seconds);
    for (turn, &(distribution, read_percent)) in MIX.iter().cycle().enumerate() {
        if started.elapsed() >= length {
            break;
        }
        let point = Point { distribution, read_percent, threads: task.threads };
        let turn_ends = Instant::now() + TURN.min(length.saturating_sub(started.elapsed()));
        let measured = workload::run(objects, point, turn as u64, || {
            watch.look(&heap);
            parent.progress("mixed run", started.elapsed().as_secs(), length.as_secs());
            Ok(if Instant::now() >= turn_ends { Phase::Stop } else { Phase::Measure })
        })?;
        ops += measured.ops;
    }
    let seconds = started.elapsed().as_secs_f64();
    objects.read_watched()?;
    parent.tell(&Event::Record(Box::new(Record::Budget(Box::new(Budget {
        objects: count,
        object_bytes: task.setup.object_bytes,
        ram_bytes: task.setup.ram_bytes,
        flash_bytes: task.setup.flash_bytes,
        threads: task.threads,
        seconds,
        samples: watch.looks,
        baseline: watch.baseline,
        max: watch.max,
        max_used_bytes: watch.max_used_bytes,
        max_metadata_bytes: watch.max_metadata_bytes,
        ops,
        context: context.clone(),
    })))));
    Ok(())
}

/// Runs the threads once on a little memory of our own, so that their stacks and the harness's
/// code are in the baseline and not mistaken for the heap's.
fn rehearse(threads: usize) -> Result<()> {
    in_memory(8, HOT_SPACING, |objects| {
        let ledger = Ledger::new("memory of the benchmark", HOT_SPACING);
        let objects = Verified::new(objects, &ledger);
        workload::fill(objects, threads, |_| {});
        for (distribution, read_percent) in MIX {
            let mut phases = [Phase::WarmUp, Phase::Measure, Phase::Stop].into_iter();
            let point = Point { distribution, read_percent, threads };
            workload::run(objects, point, 0, || Ok(phases.next().unwrap_or(Phase::Stop)))?;
        }
        Ok(())
    })
}

/// Keeps the largest memory seen.
struct Watch {
    baseline: Memory,
    looked: Instant,
    looks: u64,
    max: Memory,
    max_used_bytes: u64,
    max_metadata_bytes: u64,
}

impl Watch {
    fn new(baseline: Memory) -> Self {
        Self {
            baseline,
            looked: Instant::now(),
            looks: 0,
            max: baseline,
            max_used_bytes: 0,
            max_metadata_bytes: 0,
        }
    }

    fn look(&mut self, heap: &Aquifer) {
        if self.looks > 0 && self.looked.elapsed() < LOOK_EVERY {
            return;
        }
        self.looked = Instant::now();
        self.looks += 1;
        self.max = self.max.max(Memory::now().unwrap_or_default());
        let stats = heap.stats().unwrap_or_default();
        self.max_used_bytes = self.max_used_bytes.max(stats.ram_used_bytes);
        self.max_metadata_bytes = self.max_metadata_bytes.max(stats.metadata_bytes);
    }
}
