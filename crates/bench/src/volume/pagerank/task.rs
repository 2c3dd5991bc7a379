//! The child that iterates.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::super::file::MappedFile;
use super::super::meter::Meter;
use super::super::peer::{Peer, Setup};
use super::super::study::Run;
use super::layout::Layout;
use super::ranks::Ranks;
use super::sample::Pagerank;
use crate::child::Parent;
use crate::error::{Error, Result};
use crate::machine::Context;

/// The ranks' sum may be so far from one.
const SUM_ERROR_MAX: f64 = 1e-6;

/// Some iterations over a graph.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PagerankTask {
    /// Number of the run.
    pub run: u32,
    /// The mapped file.
    pub setup: Setup,
    /// What is in it.
    pub layout: Layout,
    /// Iterations.
    pub iterations: u32,
    /// Threads.
    pub threads: u32,
    /// What the graph was made from; for the record.
    pub seed: u64,
}

/// Iterates and measures. The first vector is filled before.
///
/// # Errors
/// [`Error::WrongData`] if the ranks do not sum to one; those of [`MappedFile`].
pub fn work(task: &PagerankTask, context: &Context, parent: &mut Parent) -> Result<Pagerank> {
    let layout = task.layout;
    let file = MappedFile::open(&task.setup)?;
    if task.setup.peer == Peer::MmapSequential {
        file.advise_sequential(layout.sources() * 8..layout.degrees() * 8)?;
    }
    let ranks = Ranks { words: file.words(), layout, threads: task.threads };
    let mut leftover = ranks.begin();
    file.sync()?;
    let meter = Meter::start(&task.setup.path)?;
    for iteration in 0..task.iterations {
        leftover = ranks.iterate(iteration, leftover, iteration + 1 == task.iterations);
        parent.progress("iterations", u64::from(iteration) + 1, task.iterations.into());
    }
    let start = Instant::now();
    file.sync()?;
    let sync_s = start.elapsed().as_secs_f64();
    let cost = meter.stop()?;
    let (sum, digest) = ranks.total(task.iterations);
    if (sum - 1.0).abs() > SUM_ERROR_MAX {
        let what = format!("the ranks sum to {sum}");
        return Err(Error::WrongData { peer: task.setup.peer.to_string(), what });
    }
    file.close()?;
    Ok(Pagerank {
        layout,
        seed: task.seed,
        iterations: task.iterations,
        threads: task.threads,
        sync_s,
        digest,
        cost,
        run: Run { run: task.run, setup: task.setup.clone(), context: context.clone() },
    })
}
