//! The child that makes one sample: a program on a heap that lacks an optimisation.

use serde::{Deserialize, Serialize};

use super::sample::Optimisation;
use super::switch::Off;
use crate::child::{Event, Parent};
use crate::durable::heaps;
use crate::durable::workloads::task::WorkloadTask;
use crate::error::Result;
use crate::machine::Context;
use crate::sample::Record;

/// What the child is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OptimisationTask {
    /// What the heap lacks.
    pub off: Off,
    /// The program, and the heap otherwise.
    pub workload: WorkloadTask,
}

/// The child's part.
///
/// # Errors
/// [`Error::Unavailable`](crate::Error::Unavailable) if the file would not be in memory,
/// [`Error::WrongData`](crate::Error::WrongData), and those of the heap.
pub fn work(task: &OptimisationTask, context: &Context, parent: &mut Parent) -> Result<()> {
    let OptimisationTask { off, workload } = task;
    let (setup, percent) = (&workload.setup, workload.contender.utilisation_percent);
    let persist = workload.medium.file(setup, "heap")?;
    let heap = heaps::tuned(setup, persist, percent.expect("every durable heap has one"), off.tuning())?;
    let workload = workload.measure(&heap, context)?;
    let sample = Optimisation { off: *off, map_bytes: heap.usage().map_bytes, workload };
    parent.tell(&Event::Record(Box::new(Record::Optimisations(Box::new(sample)))));
    Ok(())
}
