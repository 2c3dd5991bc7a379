//! The child that runs a workload for a while.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::super::file::MappedFile;
use super::super::meter::{Cost, Latency, Meter};
use super::super::peer::Setup;
use super::key::{FIELDS, Key, VALUE_BYTES, prove};
use super::store::{Shape, Store};
use super::workload::{Mix, Operation, Workload};
use crate::error::{Error, Result};
use crate::payload::Payload;
use crate::rng::Rng;
use crate::study::Fields;

/// Longer operations count as so long.
const LATENCY_MAX_NS: u64 = 600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;
/// A thread that inserts nothing.
const NOTHING: u64 = u64::MAX;

const WARMING: u8 = 0;
const MEASURED: u8 = 1;
const OVER: u8 = 2;

/// Run a workload for a while.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KvTask {
    /// Number of the run; it decides all choices.
    pub run: u32,
    /// The mapped file.
    pub setup: Setup,
    /// The store in it.
    pub shape: Shape,
    /// The workload.
    pub workload: Workload,
    /// Threads.
    pub threads: u32,
    /// Seconds before the measured ones.
    pub warmup_s: f64,
    /// Measured seconds.
    pub seconds: f64,
}

/// What the threads of a child share.
struct Shared<'a> {
    store: &'a Store,
    payload: Payload,
    mix: Mix,
    phase: AtomicU8,
    /// What each thread is inserting: records below the least of them, and below the next one, are there.
    inserting: Vec<AtomicU64>,
    wrong: Mutex<Option<String>>,
}

/// Runs and measures.
///
/// # Errors
/// [`Error::WrongData`] if a record is missing or not what was written; those of `MappedFile`.
pub fn work(task: &KvTask) -> Result<Fields> {
    let file = MappedFile::open(&task.setup)?;
    // SAFETY: the file has the size of the shape, is used by nobody else, and is closed after the store's last use.
    let mut store = unsafe { Store::open(file.base(), task.shape, task.setup.payload) };
    let (cost, latencies) = task.threads(&store)?;
    store.keep_next();
    let inserted = store.next().load(Ordering::Relaxed) - task.shape.records();
    let (meter, start) = (Meter::start(&task.setup.path)?, Instant::now());
    file.sync()?;
    let sync_s = start.elapsed().as_secs_f64();
    let after = meter.stop()?;
    file.close()?;
    let (ops, written) = (latencies.len() as f64, cost.io.written_bytes + after.io.written_bytes);
    let figures = cost.figures(ops).with("latency", Latency::of(&latencies)).with("sync_s", sync_s);
    Ok(figures.with("inserted", inserted).with("written_bytes_each", written as f64 / ops.max(1.0)))
}

impl KvTask {
    fn threads(&self, store: &Store) -> Result<(Cost, Histogram<u64>)> {
        let shared = Shared {
            store,
            payload: self.setup.payload,
            mix: Mix::new(self.workload, self.shape.records()),
            phase: AtomicU8::new(WARMING),
            inserting: (0..self.threads).map(|_| AtomicU64::new(NOTHING)).collect(),
            wrong: Mutex::new(None),
        };
        let (cost, latencies) = thread::scope(|scope| {
            let seed = u64::from(self.run) << 32;
            let threads: Vec<_> = (0..self.threads as usize)
                .map(|number| {
                    let shared = &shared;
                    scope.spawn(move || Client::new(shared, number, seed).run())
                })
                .collect();
            thread::sleep(Duration::from_secs_f64(self.warmup_s));
            let cost = Meter::start(&self.setup.path).and_then(|meter| {
                shared.phase.store(MEASURED, Ordering::Relaxed);
                thread::sleep(Duration::from_secs_f64(self.seconds));
                meter.stop()
            });
            shared.phase.store(OVER, Ordering::Relaxed);
            let mut all = histogram();
            for thread in threads {
                all += thread.join().expect("clients do not panic");
            }
            (cost, all)
        });
        match shared.wrong.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(what) => Err(Error::WrongData { peer: self.setup.peer.to_string(), what }),
            None => Ok((cost?, latencies)),
        }
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, SIGNIFICANT_DIGITS).expect("valid bounds and digits")
}

/// One thread.
struct Client<'a> {
    shared: &'a Shared<'a>,
    number: usize,
    rng: Rng,
    value: [u8; VALUE_BYTES],
}

impl<'a> Client<'a> {
    fn new(shared: &'a Shared<'a>, number: usize, seed: u64) -> Self {
        Self { shared, number, rng: Rng::new(seed | number as u64), value: [0; VALUE_BYTES] }
    }

    /// Operations until the time is over; how long those of the measured time took.
    fn run(mut self) -> Histogram<u64> {
        let mut latencies = histogram();
        loop {
            let phase = self.shared.phase.load(Ordering::Relaxed);
            if phase == OVER {
                return latencies;
            }
            let operation = self.shared.mix.draw(&mut self.rng, self.shared.present());
            let start = Instant::now();
            if let Err(what) = self.perform(operation) {
                *self.shared.wrong.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
                return latencies;
            }
            if phase == MEASURED {
                latencies.saturating_record(start.elapsed().as_nanos() as u64);
            }
        }
    }

    fn perform(&mut self, operation: Operation) -> std::result::Result<(), String> {
        match operation {
            Operation::Read(number) => self.read(number),
            Operation::Update(number) => self.update(number),
            Operation::ReadModifyWrite(number) => {
                self.read(number)?;
                self.update(number)
            }
            Operation::Scan(number, count) => {
                self.shared.store.scan(&Key::of(number), count, &mut self.value).map(drop)
            }
            Operation::Insert => self.insert(),
        }
    }

    fn read(&mut self, number: u64) -> std::result::Result<(), String> {
        let key = Key::of(number);
        if !self.shared.store.read(&key, &mut self.value) {
            return Err(format!("record {number} is not there"));
        }
        prove(self.shared.payload, &key, &self.value)
    }

    fn update(&mut self, number: u64) -> std::result::Result<(), String> {
        let field = self.rng.below(FIELDS as u64) as usize;
        let was_there = self.shared.store.update(&Key::of(number), field, &mut self.rng);
        if was_there { Ok(()) } else { Err(format!("record {number} is not there")) }
    }

    fn insert(&mut self) -> std::result::Result<(), String> {
        let (store, mine) = (self.shared.store, &self.shared.inserting[self.number]);
        // Before the number is taken, so that nobody takes the record for present in between.
        mine.store(store.next().load(Ordering::SeqCst), Ordering::SeqCst);
        let number = store.next().fetch_add(1, Ordering::SeqCst);
        let was_room = store.insert(&Key::of(number), &mut self.rng);
        mine.store(NOTHING, Ordering::SeqCst);
        if was_room { Ok(()) } else { Err(format!("no room for record {number}: fewer --runs or --seconds")) }
    }
}

impl Shared<'_> {
    /// All records below this are there.
    fn present(&self) -> u64 {
        let next = self.store.next().load(Ordering::SeqCst);
        self.inserting.iter().fold(next, |least, mine| least.min(mine.load(Ordering::SeqCst)))
    }
}
