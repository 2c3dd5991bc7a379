//! The child that iterates.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::super::file::MappedFile;
use super::super::meter::Meter;
use super::super::peer::{Peer, Setup};
use super::layout::Layout;
use super::ranks::Ranks;
use crate::child::Parent;
use crate::error::{Error, Result};
use crate::study::Fields;

/// The ranks' sum may be so far from one.
const SUM_ERROR_MAX: f64 = 1e-6;

/// Some iterations over a graph.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PagerankTask {
    /// The mapped file.
    pub setup: Setup,
    /// What is in it.
    pub layout: Layout,
    /// Iterations.
    pub iterations: u32,
    /// Threads.
    pub threads: u32,
    /// Seconds after which the iterations are stopped.
    pub limit_s: f64,
}

/// Iterates and measures. The first vector is filled before.
///
/// # Errors
/// [`Error::WrongData`] if the ranks do not sum to one; those of `MappedFile`.
pub fn work(task: &PagerankTask, parent: &mut Parent) -> Result<Fields> {
    let layout = task.layout;
    let file = MappedFile::open(&task.setup)?;
    if task.setup.peer == Peer::MmapSequential {
        file.advise_sequential(layout.sources() * 8..layout.degrees() * 8)?;
    }
    let limit = Duration::from_secs_f64(task.limit_s);
    let edges = AtomicU64::new(0);
    let (words, threads) = (file.words(), task.threads);
    let mut ranks = Ranks { words, layout, threads, end: Instant::now() + limit, edges: &edges };
    let mut leftover = ranks.begin();
    if ranks.is_over() {
        let peer = task.setup.peer.to_string();
        return Err(Error::Unavailable(format!("{peer} did not even fill the first vector in --limit")));
    }
    file.sync()?;
    let meter = Meter::start(&task.setup.path)?;
    ranks.end = Instant::now() + limit;
    for iteration in 0..task.iterations {
        if ranks.is_over() {
            break;
        }
        leftover = ranks.iterate(iteration, leftover, iteration + 1 == task.iterations);
        parent.progress("iterations", u64::from(iteration) + 1, task.iterations.into());
    }
    let (is_over, start) = (ranks.is_over(), Instant::now());
    file.sync()?;
    let sync_s = start.elapsed().as_secs_f64();
    let cost = meter.stop()?;
    let edges_done = edges.load(Ordering::Relaxed);
    let is_whole = edges_done == layout.edges * u64::from(task.iterations) && !is_over;
    let digest = if is_whole { Some(digest_of(&ranks, task)?) } else { None };
    file.close()?;
    // With a part of one.
    let done = edges_done.max(1) as f64 / layout.edges as f64;
    let of_iteration = |total: u64| total as f64 / done;
    Ok(cost
        .figures(edges_done as f64)
        .with("iterations_done", done)
        .with("iteration_s", cost.seconds / done)
        .with("iteration_cpu_s", of_iteration(cost.usage.cpu_ns()) / 1e9)
        .with("iteration_read_bytes", of_iteration(cost.io.read_bytes))
        .with("iteration_written_bytes", of_iteration(cost.io.written_bytes))
        .with("sync_s", sync_s)
        .with("digest", digest.map(|digest| format!("{digest:016x}"))))
}

/// Of ranks that sum to one.
fn digest_of(ranks: &Ranks<'_>, task: &PagerankTask) -> Result<u64> {
    let (sum, digest) = ranks.total(task.iterations);
    if (sum - 1.0).abs() <= SUM_ERROR_MAX {
        return Ok(digest);
    }
    Err(Error::WrongData { peer: task.setup.peer.to_string(), what: format!("the ranks sum to {sum}") })
}
