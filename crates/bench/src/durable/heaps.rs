//! Heaps on memory as fast as it is, and slowed down; and what they count.

use aquifer_durable::in_place::{InPlaceHeap, Kind};
use aquifer_durable::persist::{Counts, Emulated, Latency, MemoryFile, Persist};
use aquifer_durable::{Cleaned, DurableHeap, Transactional, Tuning};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::directory::{Setup, failed};
use super::load::Ran;
use super::log;
use super::options;
use crate::error::{Error, Result};
use crate::study::{Fields, each_once};

/// What the files are on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Medium {
    /// Memory that is as slow to persist as the options say
    Emulated,
    /// Memory as fast as it is
    Raw,
}

/// The chosen media, each once; all without a choice.
pub fn media(chosen: &[Medium]) -> Vec<Option<Medium>> {
    each_once(chosen).into_iter().map(Some).collect()
}

/// What a heap has persisted, and what it has cleaned.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Persisted {
    fences: u64,
    /// Bytes.
    pub bytes: u64,
    /// Lines of 64 bytes that these were in.
    lines: u64,
    /// What was cleaned, where there are chunks.
    cleaned: Option<Cleaned>,
}

impl Persisted {
    fn to(persists: &[&dyn Persist]) -> Self {
        let sum = |count: fn(&Counts) -> u64| persists.iter().map(|persist| count(persist.counts())).sum();
        let (fences, bytes, lines) = (sum(Counts::fences), sum(Counts::bytes), sum(Counts::lines));
        Self { fences, bytes, lines, cleaned: None }
    }

    /// What came after `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        let cleaned = self.cleaned.zip(earlier.cleaned);
        Self {
            fences: self.fences - earlier.fences,
            bytes: self.bytes - earlier.bytes,
            lines: self.lines - earlier.lines,
            cleaned: cleaned.map(|(after, before)| Cleaned {
                chunks: after.chunks - before.chunks,
                copied_bytes: after.copied_bytes - before.copied_bytes,
                ..after
            }),
        }
    }

    /// Figures for each transaction, and the chunks that were cleaned.
    pub fn figures(self, ran: &Ran) -> Fields {
        Fields::default()
            .with("fences", ran.each(self.fences))
            .with("bytes", ran.each(self.bytes))
            .with("lines", ran.each(self.lines))
            .with("cleaned_chunks", self.cleaned.map(|cleaned| cleaned.chunks))
    }

    /// What was written beside theory, by a heap that is in `state` at the end.
    pub fn beside_theory(self, ran: &Ran, state: &Fields) -> Fields {
        let copied_bytes = self.cleaned.map(|cleaned| ran.each(cleaned.copied_bytes));
        log::beside_theory(ran.each(self.bytes), copied_bytes, state)
    }
}

/// A heap that may count what it does.
pub trait Measured: Transactional {
    /// All so far, if it counts that.
    fn persisted(&self) -> Option<Persisted> {
        None
    }

    /// How it is at the end.
    fn state(&self) -> Fields {
        Fields::default()
    }
}

impl Measured for DurableHeap {
    fn persisted(&self) -> Option<Persisted> {
        Some(Persisted { cleaned: Some(self.cleaned()), ..Persisted::to(&[self.persist()]) })
    }

    fn state(&self) -> Fields {
        log::state(self)
    }
}

impl Measured for InPlaceHeap {
    fn persisted(&self) -> Option<Persisted> {
        Some(Persisted::to(&self.persists()))
    }
}

impl Medium {
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
/// [`Error::Unavailable`] if it would not be, and those of the file.
pub fn memory_file(setup: &Setup, name: &str) -> Result<MemoryFile> {
    if !setup.is_memory {
        let dir = setup.dir.display();
        return Err(Error::Unavailable(format!("{dir} is not in memory, whose latency could be emulated")));
    }
    let path = setup.dir.join(name);
    MemoryFile::open(&path, setup.capacity_bytes).map_err(|error| failed("opening", &path, error))
}

/// A durable heap in a new file on `medium`.
///
/// # Errors
/// Its own, and those of [`memory_file`].
pub fn durable(setup: &Setup, medium: Medium, percent: u32, tuning: Tuning) -> Result<DurableHeap> {
    durable_on(setup, medium.over(setup, memory_file(setup, "heap")?), percent, tuning)
}

/// A durable heap on `persist`.
pub fn durable_on(
    setup: &Setup,
    persist: Box<dyn Persist>,
    percent: u32,
    tuning: Tuning,
) -> Result<DurableHeap> {
    let heap =
        DurableHeap::on(persist, &options(setup, percent, tuning), &setup.path().display().to_string());
    heap.map_err(|error| setup.failed("opening", error))
}

/// A heap in two new files, whose data are written twice.
///
/// # Errors
/// Its own, and those of [`memory_file`].
pub fn in_place(setup: &Setup, medium: Medium, kind: Kind) -> Result<InPlaceHeap> {
    let file = |name| Ok(medium.over(setup, memory_file(setup, name)?));
    InPlaceHeap::on(file("journal")?, file("heap")?, kind).map_err(|error| setup.failed("opening", error))
}
