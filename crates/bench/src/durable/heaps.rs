//! Heaps on memory as fast as it is, and slowed down; and what one phase of transactions on them takes.

use std::fmt;
use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use aquifer_durable::in_place::{InPlaceHeap, Kind};
use aquifer_durable::persist::{Emulated, Latency, MemoryFile, Persist};
use aquifer_durable::{DurableHeap, Options, Transactional, Tuning};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::store::{Persisted, Setup, failed};
use crate::error::{Error, Result};
use crate::process::cpu_ns;

/// Transactions between two looks at the clock.
const CLOCK_EVERY: u64 = 64;

/// What the files are on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Medium {
    /// Memory that is as slow to persist as the options say.
    Emulated,
    /// Memory as fast as it is.
    Raw,
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Emulated => "emulated",
            Self::Raw => "raw",
        })
    }
}

/// A heap that counts what it persists.
pub trait Measured: Transactional {
    /// All so far.
    fn persisted(&self) -> Persisted;

    /// Chunks that were cleaned so far, where there are any.
    fn cleaned_chunks(&self) -> Option<u64> {
        None
    }

    /// The share of the file's memory that is objects, where that is known.
    fn live_share(&self) -> Option<f64> {
        None
    }
}

impl Measured for DurableHeap {
    fn persisted(&self) -> Persisted {
        Persisted::to(&[self.persist()])
    }

    fn cleaned_chunks(&self) -> Option<u64> {
        Some(self.cleaned().chunks)
    }

    fn live_share(&self) -> Option<f64> {
        let usage = self.usage();
        Some(usage.live_bytes as f64 / usage.file_bytes as f64)
    }
}

impl Measured for InPlaceHeap {
    fn persisted(&self) -> Persisted {
        Persisted::to(&self.persists())
    }
}

impl Medium {
    /// A new file, which must be in memory.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it would not be, and those of the file.
    pub fn file(self, setup: &Setup, name: &str) -> Result<Box<dyn Persist>> {
        Ok(self.over(setup, memory_file(setup, name)?))
    }

    /// `file`, slowed down if need be.
    pub fn over(self, setup: &Setup, file: MemoryFile) -> Box<dyn Persist> {
        let latency = Latency { latency_ns: setup.latency_ns, bytes_per_s: setup.bandwidth_bytes_per_s };
        match self {
            Self::Emulated => Box::new(Emulated::new(file, latency)),
            Self::Raw => Box::new(file),
        }
    }
}

/// A new file in memory.
///
/// # Errors
/// As [`Medium::file`].
pub fn memory_file(setup: &Setup, name: &str) -> Result<MemoryFile> {
    if !setup.is_memory {
        let dir = setup.dir.display();
        return Err(Error::Unavailable(format!("{dir} is not in memory")));
    }
    let path = setup.dir.join(name);
    MemoryFile::open(&path, setup.capacity_bytes).map_err(|error| failed("opening", &path, error))
}

/// Where a durable heap is, for messages too.
pub fn path(setup: &Setup) -> PathBuf {
    setup.dir.join("heap")
}

/// A durable heap on `persist`.
///
/// # Errors
/// Its own.
pub fn durable(setup: &Setup, persist: Box<dyn Persist>, utilisation_percent: u32) -> Result<DurableHeap> {
    tuned(setup, persist, utilisation_percent, Tuning::ALL)
}

/// The same, with some optimisations.
///
/// # Errors
/// Its own.
pub fn tuned(
    setup: &Setup,
    persist: Box<dyn Persist>,
    utilisation_percent: u32,
    tuning: Tuning,
) -> Result<DurableHeap> {
    let capacity_bytes = setup.capacity_bytes;
    let options = Options { capacity_bytes, utilisation_percent, tuning, ..Options::default() };
    let path = path(setup);
    DurableHeap::on(persist, &options, &path.display().to_string())
        .map_err(|error| failed("opening", &path, error))
}

/// A heap in two new files, whose data are written twice.
///
/// # Errors
/// Its own, and those of [`Medium::file`].
pub fn in_place(setup: &Setup, medium: Medium, kind: Kind) -> Result<InPlaceHeap> {
    let (journal, home) = (medium.file(setup, "journal")?, medium.file(setup, "heap")?);
    InPlaceHeap::on(journal, home, kind).map_err(|error| failed("opening", &path(setup), error))
}

/// What a phase of transactions took.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Phase {
    /// Transactions of all threads.
    pub transactions: u64,
    /// Processor time of the whole process from the first begin to the last end: threads of the heap's own are included. What the cleaner
    /// owes at the end is not, and what it owed at the begin is.
    pub cpu_ns: u64,
    /// From the first begin to the last end.
    pub wall_ns: u64,
}

impl Phase {
    /// A part of a sum for each transaction.
    pub fn per_transaction(&self, sum: u64) -> f64 {
        sum as f64 / self.transactions.max(1) as f64
    }

    /// Runs each of `steps` in a thread of its own again and again: so many transactions of all together, or until `limit`.
    ///
    /// # Errors
    /// The first one of a step.
    pub fn run<S: FnMut() -> Result<()> + Send>(
        steps: Vec<S>,
        transactions: u64,
        limit: Duration,
    ) -> Result<Self> {
        let wanted = transactions / steps.len() as u64;
        let (barrier, cpu_before) = (Barrier::new(steps.len()), cpu_ns());
        let parts = thread::scope(|scope| {
            let part = |step| {
                let barrier = &barrier;
                scope.spawn(move || part(step, wanted, limit, barrier))
            };
            let parts: Vec<_> = steps.into_iter().map(part).collect();
            parts.into_iter().map(|part| part.join().expect("it does not panic")).collect::<Result<Vec<_>>>()
        })?;
        let begin = parts.iter().map(|part| part.1).min();
        let end = parts.iter().map(|part| part.2).max();
        let wall = end.zip(begin).map_or(Duration::ZERO, |(end, begin)| end - begin);
        let transactions = parts.iter().map(|part| part.0).sum();
        Ok(Self { transactions, cpu_ns: cpu_ns() - cpu_before, wall_ns: wall.as_nanos() as u64 })
    }
}

/// Transactions of one thread, and when they began and ended.
fn part(
    mut step: impl FnMut() -> Result<()>,
    wanted: u64,
    limit: Duration,
    barrier: &Barrier,
) -> Result<(u64, Instant, Instant)> {
    barrier.wait();
    let (begin, mut done) = (Instant::now(), 0);
    while done < wanted && (done == 0 || begin.elapsed() < limit) {
        for _ in 0..CLOCK_EVERY.min(wanted - done) {
            step()?;
            done += 1;
        }
    }
    Ok((done, begin, Instant::now()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_the_transactions() {
        let mut counts = [0; 2];
        let steps = counts
            .iter_mut()
            .map(|count| {
                move || {
                    *count += 1;
                    Ok(())
                }
            })
            .collect();
        let phase = Phase::run(steps, 1001, Duration::MAX).expect("cannot fail");
        assert_eq!((phase.transactions, counts), (1000, [500, 500]));
    }

    #[test]
    fn the_limit_ends_a_phase() {
        let phase = Phase::run(vec![|| Ok(())], 1000, Duration::ZERO).expect("cannot fail");
        assert_eq!(phase.transactions, CLOCK_EVERY);
    }
}
