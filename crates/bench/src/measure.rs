//! What benchmarks of an array of objects have in common: they fill it, and look at all counters before and after.

use std::thread;
use std::time::{Duration, Instant};

use crate::child::Parent;
use crate::device::{Counters, Device};
use crate::error::Result;
use crate::peer::Peer;
use crate::peer::abi::Stats;
use crate::verified::Verified;
use crate::workload;

const FILL_THREADS_MAX: usize = 8;

/// Fills `objects` on all processors.
pub fn fill(objects: Verified<'_>, parent: &mut Parent) {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(FILL_THREADS_MAX);
    workload::fill(objects, threads, |done| parent.progress("filling", done, objects.count()));
}

/// What is known at one end of a measured phase.
#[derive(Clone, Debug)]
pub struct Snapshot {
    at: Instant,
    device: Counters,
    stats: Option<Stats>,
}

/// What happened between two snapshots.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Length.
    pub time: Duration,
    /// The kernel's counters of the device.
    pub device: Counters,
    /// The library's counters.
    pub stats: Option<Stats>,
}

impl Snapshot {
    /// Reads all counters.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn take(peer: &dyn Peer, device: &Device) -> Result<Self> {
        Ok(Self { at: Instant::now(), device: device.counters()?, stats: peer.stats() })
    }

    /// The time since then.
    pub fn elapsed(&self) -> Duration {
        self.at.elapsed()
    }

    /// What happened from this to `later`.
    pub fn until(&self, later: &Self) -> Interval {
        let stats = later.stats.zip(self.stats).map(|(later, earlier)| later.since(&earlier));
        Interval { time: later.at - self.at, device: later.device.since(self.device), stats }
    }
}
