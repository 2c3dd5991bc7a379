//! The cost of single mechanisms, like the table of the SSDAlloc paper: lookup, materialise,
//! dematerialise, fault; beside what the kernel alone costs on the same machine in the same run.

pub mod first_write;
pub mod floor;
pub mod heap;
pub mod kernel;
pub mod lookup;
mod sigbus;

use std::path::PathBuf;

use aquifer_base::units::parse_size;
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::child::{Event, Parent, Task};
use crate::device::Device;
use crate::error::Result;
use crate::machine::Context;
use crate::omissions::Omissions;
use crate::progress::Progress;
use crate::runner::Runner;
use crate::sample::{Output, Overhead, Record, median};
use crate::table;
use crate::workdir::WorkDir;

/// Name of the row with the kernel's own fault, the unit of the others.
pub const KERNEL_FAULT: &str = "kernel: anonymous page fault";
/// Name of the row with the lookup.
pub const LOOKUP: &str = "aquifer: lookup";
/// Name of the row with the whole hit.
pub const FAULT: &str = "aquifer: fault, materialise + dematerialise";

/// Options of `overhead`.
#[derive(Clone, Debug, Args)]
pub struct OverheadOptions {
    /// RAM budget of the heap
    #[arg(long, value_parser = parse_size, default_value = "256M")]
    pub ram: u64,
    /// Directory for the heap's file
    #[arg(long, default_value = "/var/tmp")]
    pub dir: PathBuf,
    /// Times each cost is measured; the median counts
    #[arg(long, default_value_t = 5)]
    pub runs: u32,
    /// Append one JSON line per cost to this file
    #[arg(long)]
    pub out: Option<PathBuf>,
}

/// What the child is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OverheadTask {
    /// RAM budget of the heap.
    pub ram_bytes: u64,
    /// Directory for its file.
    pub dir: PathBuf,
    /// Times each cost is measured.
    pub runs: u32,
}

/// A measured cost.
#[derive(Debug)]
pub struct Cost {
    /// Row of the table.
    pub name: &'static str,
    /// One value per run.
    pub ns: Vec<f64>,
    /// How it was measured.
    pub note: String,
}

/// Measures in a child and prints the table.
///
/// # Errors
/// [`crate::Error::WrongData`]; [`crate::Error::Child`] if the child fails. What cannot be measured is a row with the reason; if it was not
/// the machine that lacked something, that is the error when all other rows are there.
pub fn run(options: &OverheadOptions) -> Result<()> {
    let workdir = WorkDir::acquire(&options.dir)?;
    let context = Context::here(&Device::holding(workdir.path())?);
    let mut output = Output::open(options.out.as_deref())?;
    let progress = Progress::new(1);
    progress.doing("overhead");
    let task = OverheadTask { ram_bytes: options.ram, dir: options.dir.clone(), runs: options.runs.max(1) };
    let mut runner = Runner::start("overhead", Task::Overhead(task), None, &context)?;
    let mut records = Vec::new();
    let measured = runner.each_record(&progress, |record| {
        output.write(&record)?;
        records.push(record);
        Ok(())
    });
    progress.note(&table::render(&records));
    measured
}

/// The child's part.
///
/// # Errors
/// [`crate::Error::WrongData`] at once, others when all is measured: a cost that cannot be measured is a record without a number.
pub fn work(task: &OverheadTask, context: &Context, parent: &mut Parent) -> Result<()> {
    let mut omissions = Omissions::default();
    let mut tell = |name: &str, ns: Option<f64>, note: String| {
        let (name, context) = (name.to_owned(), context.clone());
        let overhead = Overhead { name, ns, runs: task.runs, note, context };
        parent.tell(&Event::Record(Box::new(Record::Overhead(overhead))));
    };
    for (group, costs) in [
        ("kernel", kernel::measure(task.runs)),
        ("floor", floor::measure(task.runs)),
        ("first write", first_write::measure(task.runs)),
        ("lookup", Ok(vec![lookup::measure(task)])),
        ("aquifer", heap::measure(task)),
    ] {
        match costs {
            Ok(costs) => costs.into_iter().for_each(|cost| tell(cost.name, median(cost.ns), cost.note)),
            Err(error) => tell(group, None, omissions.reason(error)?),
        }
    }
    omissions.end()
}
