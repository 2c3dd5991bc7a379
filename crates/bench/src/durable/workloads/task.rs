//! The child that makes one sample: new files, what the program needs in them, a warm-up, the measured transactions, a look at
//! what they left.

use std::time::Duration;

use aquifer_durable::in_place::Kind;
use aquifer_durable::structures::{BTree, HashMap};
use serde::{Deserialize, Serialize};

use super::client::{Client, Clients};
use super::engine::{Contender, Engine, Program};
use super::map::{self, Hundred};
use super::sample::Workload;
use super::{queue, tpcc};
use crate::child::{Event, Parent};
use crate::durable::heaps::{self, Measured, Medium, Phase};
use crate::durable::store::{Persisted, Setup, failed};
use crate::durable::task::WARMUP_PART;
use crate::error::{Error, Result};
use crate::machine::Context;
use crate::sample::Record;

/// What the child is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkloadTask {
    /// The system to open.
    pub contender: Contender,
    /// What its files are on.
    pub medium: Medium,
    /// What the transactions do.
    pub program: Program,
    /// Threads.
    pub threads: u64,
    /// Number of the run.
    pub run: u32,
    /// Entries of the structures.
    pub entries: u64,
    /// Measured transactions of all threads.
    pub transactions: u64,
    /// The measured transactions end after this time.
    pub limit: Duration,
    /// What the system is given.
    pub setup: Setup,
}

/// The child's part.
///
/// # Errors
/// [`Error::Unavailable`] if the files would not be in memory, [`Error::WrongData`], and those of the system.
pub fn work(task: &WorkloadTask, context: &Context, parent: &mut Parent) -> Result<()> {
    let (setup, medium) = (&task.setup, task.medium);
    let sample = match task.contender.engine {
        Engine::Aquifer => {
            let percent = task.contender.utilisation_percent.expect("every durable heap has one");
            task.measure(&heaps::durable(setup, medium.file(setup, "heap")?, percent)?, context)?
        }
        Engine::Redo => task.measure(&heaps::in_place(setup, medium, Kind::Redo)?, context)?,
        Engine::Undo => task.measure(&heaps::in_place(setup, medium, Kind::Undo)?, context)?,
    };
    parent.tell(&Event::Record(Box::new(Record::Workloads(Box::new(sample)))));
    Ok(())
}

impl WorkloadTask {
    /// Decides all choices.
    fn seed(&self) -> u64 {
        u64::from(self.run)
    }

    /// Fills the heap with what the program needs, and runs it.
    ///
    /// # Errors
    /// [`Error::WrongData`], and those of the heap.
    pub fn measure<H: Measured>(&self, heap: &H, context: &Context) -> Result<Workload> {
        let mut clients = self.clients(heap).map_err(|error| self.failed("filling", &error))?;
        let part = WARMUP_PART;
        let warmed =
            self.phase(heap, &mut clients, self.transactions / u64::from(part), self.limit / part)?;
        let (before, cleaned) = (heap.persisted(), heap.cleaned_chunks());
        let ran = self.phase(heap, &mut clients, self.transactions, self.limit)?;
        let persisted = heap.persisted().since(before);
        let cleaned = heap.cleaned_chunks().zip(cleaned).map(|(after, before)| after - before);
        let live_share = heap.live_share();
        self.check(heap, &mut clients)?;
        let sample = self.sample(&warmed, &ran, persisted, context);
        Ok(Workload { cleaned_chunks: cleaned, live_share, ..sample })
    }

    fn clients<H: Measured>(&self, heap: &H) -> aquifer_durable::Result<Clients<H>> {
        let (entries, threads, seed) = (self.entries, self.threads, self.seed());
        match self.program {
            Program::HashMap => map::clients::<HashMap<u64, Hundred>, _>(heap, entries, threads, seed),
            Program::Btree => map::clients::<BTree<u64, [u64; 2]>, _>(heap, entries, threads, seed),
            Program::Queue => queue::clients(heap, entries, threads, seed),
            Program::Tpcc => tpcc::clients(heap, entries, threads, seed),
        }
    }

    fn phase<H: Measured>(
        &self,
        heap: &H,
        clients: &mut Clients<H>,
        transactions: u64,
        limit: Duration,
    ) -> Result<Phase> {
        let step =
            |client: &mut Box<dyn Client<H>>| client.step(heap).map_err(|error| self.failed("using", &error));
        let steps = clients.iter_mut().map(|client| move || step(client)).collect();
        Phase::run(steps, transactions, limit)
    }

    /// Whether everything that has run is in the heap.
    fn check<H: Measured>(&self, heap: &H, clients: &mut Clients<H>) -> Result<()> {
        for client in clients {
            let wrong = client.wrong(heap).map_err(|error| self.failed("reading", &error))?;
            if let Some(what) = wrong {
                let peer = format!("{}, {}", self.contender, self.program);
                return Err(Error::WrongData { peer, what });
            }
        }
        Ok(())
    }

    fn failed(&self, doing: &'static str, error: &aquifer_durable::Error) -> Error {
        failed(doing, &heaps::path(&self.setup), error)
    }

    fn sample(&self, warmed: &Phase, ran: &Phase, persisted: Persisted, context: &Context) -> Workload {
        Workload {
            contender: self.contender,
            medium: self.medium,
            program: self.program,
            threads: self.threads,
            run: self.run,
            seed: self.seed(),
            entries: self.entries,
            setup: self.setup.clone(),
            warmup_transactions: warmed.transactions,
            transactions: ran.transactions,
            cpu_ns: ran.per_transaction(ran.cpu_ns),
            wall_ns: ran.per_transaction(ran.wall_ns),
            fences: ran.per_transaction(persisted.fences),
            bytes: ran.per_transaction(persisted.bytes),
            lines: ran.per_transaction(persisted.lines),
            cleaned_chunks: None,
            live_share: None,
            context: context.clone(),
        }
    }
}
