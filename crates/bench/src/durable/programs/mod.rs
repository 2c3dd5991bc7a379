//! Programs on any heap with transactions: each is written once, for all of them.
//!
//! | file | noun |
//! |---|---|
//! | `map` | random changes of a hash map and of a B+tree |
//! | `queue` | pushes and pops; objects that are written whole |
//! | `tpcc` | orders and payments: the tables |
//! | `terminal` | what one thread does to these |

mod map;
mod queue;
mod terminal;
mod tpcc;

use std::fmt::Debug;
use std::time::Duration;

use aquifer_durable::structures::{BTree, HashMap};
use aquifer_durable::{Result as HeapResult, Transactional, Value};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::cell::Point;
use super::directory::Setup;
use super::heaps::{Measured, Persisted};
use super::load::Ran;
use super::transactions::WARMUP_PART;
use crate::error::{Error, Result};
use crate::payload::Payload;
use crate::study::{Fields, name_of};

/// What the transactions do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// 50 % inserts, 25 % updates, 25 % removals in a hash map: keys of 8 bytes, values of 100
    HashMap,
    /// The same in a B+tree: keys of 8 bytes, values of 16
    Btree,
    /// Pushes and pops of 64 bytes, half and half
    Queue,
    /// New orders and payments, half and half: TPC-C-like, not TPC-C
    Tpcc,
}

/// What a transaction updates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Updates {
    /// A random object of 100 bytes, all of it
    Objects,
    /// The value of a random key in a hash map: 100 bytes too
    HashMap,
}

/// How much a program works on.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Entries of all threads.
    pub entries: u64,
    /// Threads.
    pub threads: u64,
    /// Decides all choices.
    pub seed: u64,
}

/// One thread's part of a program, on a heap that has what it needs. It remembers what it has changed, which nobody else changes.
trait Client<H: Transactional>: Send {
    /// One transaction.
    fn step(&mut self, heap: &H) -> HeapResult<()>;

    /// What is wrong with the heap, if anything.
    fn wrong(&mut self, heap: &H) -> HeapResult<Option<String>>;
}

/// The clients of all threads.
type Clients<H> = Vec<Box<dyn Client<H>>>;

/// A program on a heap.
pub struct Running<'a, H> {
    heap: &'a H,
    clients: Clients<H>,
    setup: &'a Setup,
}

impl Size {
    /// That of a point in a run.
    pub fn of<W>(point: &Point<W>, run: u32) -> Self {
        Self { entries: point.entries.unwrap_or_default(), threads: point.threads, seed: run.into() }
    }
}

/// Fills the heap with what the program of `point` needs, and runs it for `peer`.
pub fn run_program<H: Measured + Sync>(
    heap: &H,
    point: &Point<Program>,
    run: u32,
    setup: &Setup,
    peer: &str,
) -> Result<Fields> {
    let mut running = Running::program(heap, point.workload, Size::of(point, run), setup)?;
    running.run(setup.transactions / WARMUP_PART, setup.warmup)?;
    running.measure(&format!("{peer}, {}", name_of(&point.workload)))
}

impl<'a, H: Measured + Sync> Running<'a, H> {
    /// Fills the heap with what `program` needs.
    fn program(heap: &'a H, program: Program, size: Size, setup: &'a Setup) -> Result<Self> {
        let payload = setup.payload;
        let clients = match program {
            Program::HashMap => map::clients::<HashMap<u64, Hundred>, _>(heap, size, payload, false),
            Program::Btree => map::clients::<BTree<u64, [u64; 2]>, _>(heap, size, payload, false),
            Program::Queue => queue::clients(heap, size, payload),
            Program::Tpcc => tpcc::clients(heap, size, payload),
        };
        Self::of(heap, clients, setup)
    }

    /// Fills the heap with what is updated.
    pub fn updates(heap: &'a H, updates: Updates, size: Size, setup: &'a Setup) -> Result<Self> {
        let payload = setup.payload;
        let clients = match updates {
            Updates::Objects => queue::objects(heap, size, payload),
            Updates::HashMap => map::clients::<HashMap<u64, Hundred>, _>(heap, size, payload, true),
        };
        Self::of(heap, clients, setup)
    }

    fn of(heap: &'a H, clients: HeapResult<Clients<H>>, setup: &'a Setup) -> Result<Self> {
        let clients = clients.map_err(|error| setup.failed("filling", error))?;
        Ok(Self { heap, clients, setup })
    }

    /// Runs `transactions`, or until `limit`. What is cleaned behind their back counts while they run: what is owed at the
    /// begin is in, what is owed at the end is not.
    pub fn run(&mut self, transactions: u64, limit: Duration) -> Result<Ran> {
        let (heap, setup) = (self.heap, self.setup);
        let step =
            |client: &mut Box<dyn Client<H>>| client.step(heap).map_err(|error| setup.failed("using", error));
        let steps = self.clients.iter_mut().map(|client| move || step(client)).collect();
        Ran::run(steps, transactions, limit, || Ok(()))
    }

    /// The measured transactions, and a look at what all left: figures for `peer`.
    ///
    /// # Errors
    /// [`Error::WrongData`], and those of the heap.
    pub fn measure(&mut self, peer: &str) -> Result<Fields> {
        let before = self.heap.persisted();
        let ran = self.run(self.setup.transactions, self.setup.limit)?;
        let persisted = self.heap.persisted().zip(before).map(|(after, before)| after.since(before));
        let state = self.heap.state();
        for client in &mut self.clients {
            let wrong = client.wrong(self.heap).map_err(|error| self.setup.failed("reading", error))?;
            if let Some(what) = wrong {
                return Err(Error::WrongData { peer: peer.to_owned(), what });
            }
        }
        let figures =
            |persisted: Persisted| persisted.figures(&ran).and(persisted.beside_theory(&ran, &state));
        let persisted = persisted.map(figures).unwrap_or_default();
        Ok(ran.figures().and(state).and(persisted))
    }
}

/// 100 bytes.
type Hundred = ([u64; 12], u32);

/// A value of words.
trait Stored: Value + PartialEq + Debug + Send {
    /// One with these words.
    fn of(word: impl Fn(u64) -> u64) -> Self;
    /// The same with another first word.
    fn stamped(self, stamp: u64) -> Self;
}

impl Stored for Hundred {
    fn of(word: impl Fn(u64) -> u64) -> Self {
        (std::array::from_fn(|place| word(place as u64)), word(12) as u32)
    }

    fn stamped(mut self, stamp: u64) -> Self {
        self.0[0] = stamp;
        self
    }
}

impl<const N: usize> Stored for [u64; N] {
    fn of(word: impl Fn(u64) -> u64) -> Self {
        std::array::from_fn(|place| word(place as u64))
    }

    fn stamped(mut self, stamp: u64) -> Self {
        self[0] = stamp;
        self
    }
}

/// Values that are told apart by the stamp in their first word. The rest was made before, so that it costs the measured transactions nothing.
struct Values<V>(Vec<V>);

impl<V: Stored> Values<V> {
    const KINDS: u64 = 64;

    fn new(payload: Payload) -> Self {
        Self((0..Self::KINDS).map(|kind| V::of(|place| payload.word(kind, place))).collect())
    }

    /// The value of a stamp.
    fn of(&self, stamp: u64) -> V {
        self.0[(stamp % Self::KINDS) as usize].stamped(stamp)
    }
}

/// The first of these that is not there.
fn first_wrong(checks: &[(&str, u64, u64)]) -> Option<String> {
    let wrong = checks.iter().find(|(_, found, expected)| found != expected)?;
    Some(format!("{}: {} instead of {}", wrong.0, wrong.1, wrong.2))
}
