//! A long random run of the heap against a model in plain memory.
//!
//! Threads allocate, free, reallocate, read, write, prefetch and pin objects that they share, each
//! object under a lock of its own. The model keeps of most objects only a key and versions, from which
//! their bytes follow, and of some every byte. Whatever is read is compared. At quiescent
//! points all threads rest, the heap proves that its parts agree, and its counts must be the model's.
//!
//! | file | noun |
//! |---|---|
//! | `object` | an object and its model: bytes that follow from a key and a version |
//! | `sizes` | how large objects are |
//! | `worker` | one thread and its operations |
//! | `run` | all threads, quiescent points, the outcome; the end of a run that hangs |
//! | `outcome` | what was done and what was found |

mod object;
mod outcome;
mod run;
mod sizes;
mod worker;

use std::time::Duration;

use aquifer::Options;

pub use outcome::{Counts, Outcome, Snapshot};
pub use run::run;

/// What is run.
#[derive(Clone)]
pub struct Config {
    /// Of the heap; the flash holds at least one and a half times what `objects` need.
    pub options: Options,
    /// Operations of all threads together.
    pub operations: u64,
    /// Threads that do them.
    pub threads: usize,
    /// Objects that live at a time; they have 2 KiB on average.
    pub objects: usize,
    /// Decides everything but the order in which threads meet.
    pub seed: u64,
    /// Operations between two quiescent points.
    pub operations_per_phase: u64,
    /// The run ends at the first quiescent point after this time.
    pub time_limit: Option<Duration>,
}

/// Bytes that the objects of a run have on average, rounded up to size classes.
pub const OBJECT_BYTES_MEAN: u64 = 2048;
