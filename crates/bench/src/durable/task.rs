//! The child that makes one sample: a new store, a warm-up, the measured transactions, a look at what they left.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::load::{Load, Ran, Workload};
use super::sample::Transactions;
use super::store::{self, BUCKETS, OBJECT_BYTES, OBJECTS, Persisted, Setup, Store};
use super::system::Contestant;
use crate::child::{Event, Parent};
use crate::error::Result;
use crate::machine::Context;
use crate::rest;
use crate::sample::Record;

/// The warm-up is this part of the transactions, and of the seconds.
pub const WARMUP_PART: u32 = 4;

/// What the child is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TransactionsTask {
    /// The system to open.
    pub contestant: Contestant,
    /// What a transaction does.
    pub workload: Workload,
    /// Threads.
    pub threads: u64,
    /// Number of the run.
    pub run: u32,
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
/// [`crate::Error::Unavailable`] if the machine lacks what the system needs, [`crate::Error::WrongData`],
/// and those of the system.
pub fn work(task: &TransactionsTask, context: &Context, parent: &mut Parent) -> Result<()> {
    let store = store::open(task.contestant, &task.setup, task.workload)?;
    let (store, measured) = (&*store, task.load());
    let warmup = Load {
        transactions: measured.transactions / u64::from(WARMUP_PART),
        limit: measured.limit / WARMUP_PART,
        seed: measured.seed + 1,
        ..measured
    };
    let warmed = warmup.run(store, rest::wait)?;
    let before = store.persisted();
    let ran = measured.run(store, rest::wait)?;
    let persisted = store.persisted().zip(before).map(|(after, before)| after.since(before));
    task.check(store, &[(warmup, &warmed), (measured, &ran)])?;
    let sample = task.sample(&warmed, &ran, persisted, context);
    parent.tell(&Event::Record(Box::new(Record::Transactions(Box::new(sample)))));
    Ok(())
}

impl TransactionsTask {
    fn load(&self) -> Load {
        Load {
            workload: self.workload,
            threads: self.threads,
            transactions: self.transactions,
            limit: self.limit,
            // Each run has two seeds, one for its warm-up.
            seed: 2 * u64::from(self.run),
        }
    }

    /// Whether everything that has run is in the store.
    fn check(&self, store: &dyn Store, phases: &[(Load, &Ran)]) -> Result<()> {
        let peer = self.contestant.to_string();
        match self.workload {
            Workload::TwoWords => {
                let updates = phases.iter().map(|(_, ran)| ran.total()).sum();
                store::check_objects(store, updates, &peer)
            }
            Workload::Insert => phases.iter().try_for_each(|(load, ran)| load.check_keys(ran, store, &peer)),
        }
    }

    fn sample(
        &self,
        warmed: &Ran,
        ran: &Ran,
        persisted: Option<Persisted>,
        context: &Context,
    ) -> Transactions {
        let per = |sum: u64| sum as f64 / ran.total().max(1) as f64;
        let is_map = self.workload == Workload::Insert;
        Transactions {
            contestant: self.contestant,
            guarantee: self.contestant.system.guarantee().to_owned(),
            workload: self.workload,
            threads: self.threads,
            run: self.run,
            seed: self.load().seed,
            objects: if is_map { 0 } else { OBJECTS as u64 },
            object_bytes: OBJECT_BYTES as u64,
            buckets: if is_map { BUCKETS } else { 0 },
            setup: self.setup.clone(),
            warmup_transactions: warmed.total(),
            transactions: ran.total(),
            cpu_ns: per(ran.cpu_ns),
            wall_ns: per(ran.wall_ns),
            rest_ns: per(ran.rest_ns),
            fences: persisted.map(|persisted| per(persisted.fences)),
            persisted_bytes: persisted.map(|persisted| per(persisted.bytes)),
            context: context.clone(),
        }
    }
}
