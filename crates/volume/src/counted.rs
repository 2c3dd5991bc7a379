//! A medium whose traffic is counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use aquifer_sys::counter::{Counter, Durations};

use crate::error::Result;
use crate::medium::{Beside, Geometry, Medium, Physical};
use crate::word::{PAGE_BYTES, PageBytes};

/// What a medium was asked for since the volume was opened.
#[derive(Default)]
pub struct Traffic {
    pub reads: Counter,
    pub read_bytes: Counter,
    pub writes: Counter,
    pub written_bytes: Counter,
    pub syncs: AtomicU64,
    pub errors: AtomicU64,
    /// How long reads took that somebody waited for.
    pub read_durations: Durations,
}

/// A medium, and what it was asked for.
pub struct Counted {
    medium: Box<dyn Medium>,
    traffic: Traffic,
}

impl Counted {
    /// Of a medium that nobody has asked yet.
    pub fn new(medium: Box<dyn Medium>) -> Self {
        Self { medium, traffic: Traffic::default() }
    }

    /// What it was asked for.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    fn outcome<T>(&self, outcome: Result<T>) -> Result<T> {
        if outcome.is_err() {
            self.traffic.errors.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    fn timed_read(
        &self,
        reads: usize,
        bytes: usize,
        read: impl FnOnce(&dyn Medium) -> Result<()>,
    ) -> Result<()> {
        let began = Instant::now();
        let outcome = read(&*self.medium);
        self.traffic.read_durations.add(began.elapsed());
        self.traffic.reads.add(reads as u64);
        self.traffic.read_bytes.add(bytes as u64);
        self.outcome(outcome)
    }
}

impl Medium for Counted {
    fn geometry(&self) -> Geometry {
        self.medium.geometry()
    }

    fn is_bad(&self, segment: u32) -> bool {
        self.medium.is_bad(segment)
    }

    fn anchor_segments(&self) -> u32 {
        self.medium.anchor_segments()
    }

    fn anchor_copies(&self) -> u32 {
        self.medium.anchor_copies()
    }

    fn erases(&self, segment: u32) -> u32 {
        self.medium.erases(segment)
    }

    fn read(&self, at: Physical, bytes: &mut PageBytes) -> Result<()> {
        self.timed_read(1, PAGE_BYTES, |medium| medium.read(at, bytes))
    }

    fn read_run(&self, at: Physical, bytes: &mut [u8]) -> Result<()> {
        self.timed_read(1, bytes.len(), |medium| medium.read_run(at, bytes))
    }

    fn read_readable(&self, at: Physical, bytes: &mut [u8]) -> Vec<bool> {
        self.traffic.reads.add(1);
        self.traffic.read_bytes.add(bytes.len() as u64);
        self.medium.read_readable(at, bytes)
    }

    fn read_many(&self, runs: &mut [(Physical, &mut [u8])]) -> Result<()> {
        let bytes = runs.iter().map(|(_, bytes)| bytes.len()).sum();
        self.timed_read(runs.len(), bytes, |medium| medium.read_many(runs))
    }

    fn append(&self, at: Physical, bytes: &[u8], beside: &[Beside]) -> Result<()> {
        self.traffic.writes.add(1);
        self.traffic.written_bytes.add(bytes.len() as u64);
        self.outcome(self.medium.append(at, bytes, beside))
    }

    fn prepare(&self, segment: u32) -> Result<()> {
        self.outcome(self.medium.prepare(segment))
    }

    fn wipe(&self, segment: u32) -> Result<()> {
        self.outcome(self.medium.wipe(segment))
    }

    fn discard(&self, segment: u32) -> Result<()> {
        self.outcome(self.medium.discard(segment))
    }

    fn sync(&self) -> Result<()> {
        self.traffic.syncs.fetch_add(1, Ordering::Relaxed);
        self.outcome(self.medium.sync())
    }
}
