//! The child that makes one sample: a new file with objects in it, updates until cleaning is in its stride, the measured ones.

use std::time::Duration;

use aquifer_durable::DurableHeap;
use aquifer_durable::persist::Persist;
use aquifer_durable::structures::HashMap;
use aquifer_durable::superblock::{SUPERBLOCK_BYTES, Superblock};
use serde::{Deserialize, Serialize};

use super::objects;
use super::sample::{Cleaning, Updates};
use crate::child::{Event, Parent};
use crate::durable::heaps::{self, Medium, Phase};
use crate::durable::store::{Setup, failed};
use crate::durable::workloads::client::{Client, Clients};
use crate::durable::workloads::map::{self, Hundred};
use crate::error::{Error, Result};
use crate::machine::Context;
use crate::sample::Record;

/// Bytes that a transaction changes.
const CHANGED_BYTES: f64 = 100.0;
/// What is written before anything is measured, in files.
const FILES_WRITTEN: u64 = 3;
const CHUNK_BYTES: u32 = 1 << 20;
/// The heap with room grows whatever is in it.
const UTILISATION_PERCENT_MIN: u32 = 5;

/// What the child is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CleaningTask {
    /// What is updated.
    pub updates: Updates,
    /// What the file is on.
    pub medium: Medium,
    /// The file grows only while at least this share of it is objects; none for room for everything.
    pub utilisation_percent: Option<u32>,
    /// Threads.
    pub threads: u64,
    /// Number of the run.
    pub run: u32,
    /// Entries or objects.
    pub entries: u64,
    /// Measured transactions of all threads.
    pub transactions: u64,
    /// The measured transactions end after this time.
    pub limit: Duration,
    /// What the heap is given.
    pub setup: Setup,
}

/// The child's part.
///
/// # Errors
/// [`Error::Unavailable`] if the file would not be in memory, [`Error::WrongData`], and those of the heap.
pub fn work(task: &CleaningTask, context: &Context, parent: &mut Parent) -> Result<()> {
    let heap = task.open()?;
    let (entries, threads, seed) = (task.entries, task.threads, u64::from(task.run));
    let clients = match task.updates {
        Updates::Objects => objects::clients(&heap, entries, threads, seed),
        Updates::HashMap => map::updaters::<HashMap<u64, Hundred>, _>(&heap, entries, threads, seed),
    };
    let mut clients = clients.map_err(|error| task.failed("filling", &error))?;
    let warmup_transactions = task.warm_up(&heap, &mut clients, parent)?;
    let (before, cleaned) = (heap.persist().counts().bytes(), heap.cleaned().chunks);
    let ran = task.phase(&heap, &mut clients, task.transactions, task.limit)?;
    let bytes = heap.persist().counts().bytes() - before;
    let cleaned_chunks = heap.cleaned().chunks - cleaned;
    let usage = heap.usage();
    task.check(&heap, &mut clients)?;
    let sample = Cleaning {
        updates: task.updates,
        medium: task.medium,
        utilisation_percent: task.utilisation_percent,
        threads,
        run: task.run,
        entries,
        setup: task.setup.clone(),
        warmup_transactions,
        transactions: ran.transactions,
        cpu_ns: ran.per_transaction(ran.cpu_ns),
        wall_ns: ran.per_transaction(ran.wall_ns),
        written_per_changed: ran.per_transaction(bytes) / CHANGED_BYTES,
        cleaned_chunks,
        live_share: usage.live_bytes as f64 / usage.file_bytes as f64,
        context: context.clone(),
    };
    parent.tell(&Event::Record(Box::new(Record::Cleaning(Box::new(sample)))));
    Ok(())
}

impl CleaningTask {
    fn open(&self) -> Result<DurableHeap> {
        let file = heaps::memory_file(&self.setup, "heap")?;
        if self.utilisation_percent.is_none() {
            self.touch(&file).map_err(|error| self.failed("touching", &error))?;
        }
        let percent = self.utilisation_percent.unwrap_or(UTILISATION_PERCENT_MIN);
        heaps::durable(&self.setup, self.medium.over(&self.setup, file), percent)
    }

    /// Makes a file of its full length with memory that this process has mapped, so that none of that is measured.
    fn touch(&self, file: &dyn Persist) -> aquifer_durable::Result<()> {
        Superblock { chunk_bytes: CHUNK_BYTES, id: u64::from(self.run) }.create(file)?;
        let (first, chunk) = (SUPERBLOCK_BYTES as u64, u64::from(CHUNK_BYTES));
        let chunks = (self.setup.capacity_bytes - first) / chunk;
        file.grow(first + chunks * chunk)?;
        let zeros = vec![0; CHUNK_BYTES as usize];
        (0..chunks).try_for_each(|number| file.persist(first + number * chunk, &zeros))
    }

    /// Updates until several times the file was written, or a part of it where nothing is cleaned; returns how many.
    fn warm_up(
        &self,
        heap: &DurableHeap,
        clients: &mut Clients<DurableHeap>,
        parent: &mut Parent,
    ) -> Result<u64> {
        let (part, before) = ((self.transactions / 4).max(1), heap.persist().counts().bytes());
        let mut transactions = 0;
        loop {
            transactions += self.phase(heap, clients, part, Duration::MAX)?.transactions;
            let written = heap.persist().counts().bytes() - before;
            let wanted = FILES_WRITTEN * heap.usage().file_bytes;
            if self.utilisation_percent.is_none() || written >= wanted {
                return Ok(transactions);
            }
            parent.progress("warming up", written, wanted);
        }
    }

    fn phase(
        &self,
        heap: &DurableHeap,
        clients: &mut Clients<DurableHeap>,
        transactions: u64,
        limit: Duration,
    ) -> Result<Phase> {
        let step = |client: &mut Box<dyn Client<DurableHeap>>| {
            client.step(heap).map_err(|error| self.failed("using", &error))
        };
        Phase::run(clients.iter_mut().map(|client| move || step(client)).collect(), transactions, limit)
    }

    fn check(&self, heap: &DurableHeap, clients: &mut Clients<DurableHeap>) -> Result<()> {
        for client in clients {
            if let Some(what) = client.wrong(heap).map_err(|error| self.failed("reading", &error))? {
                return Err(Error::WrongData { peer: self.updates.to_string(), what });
            }
        }
        Ok(())
    }

    fn failed(&self, doing: &'static str, error: &aquifer_durable::Error) -> Error {
        failed(doing, &heaps::path(&self.setup), error)
    }
}
