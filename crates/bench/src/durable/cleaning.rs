//! What cleaning costs: the same updates on a heap with room, which is never cleaned, and on heaps that are nearly full.

use std::time::Duration;

use aquifer_durable::persist::Persist;
use aquifer_durable::superblock::{SUPERBLOCK_BYTES, Superblock};
use aquifer_durable::{DurableHeap, Tuning};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::cell::{LoadOptions, Point, Task, Variant};
use super::directory::Directory;
use super::heaps::{self, Measured, Medium, media};
use super::programs::{Running, Size, Updates};
use super::workloads::{BEHIND, CPU};
use crate::child::Parent;
use crate::error::{Error, Result};
use crate::study::{Bound, Fields, Promise, Session, Study, Table, each_once, key, median, name_of, ratio};

const EXAMPLES: &str = "\
Examples:
  aquifer-bench durable cleaning --out results.jsonl
      Both updates, on slow memory and as it is, with room and at 50, 70, 80 and 90 %; medians of 5
  aquifer-bench durable cleaning --workload objects --medium raw --utilisation 90 --runs 11
      The loss at 90 %

--data are the bytes of all objects or entries. The heap with room has a file that holds all that is ever written to it, and whose memory was
touched before; the others are updated until three times their file has been written, and then measured.";

/// The heap in which nothing is cleaned.
const ROOM: &str = "room";

const TABLE: Table = Table {
    title: "Updates of {entries} entries on memory that is {medium}; an emulated persist takes {latency_ns} ns, or a second for {bandwidth} bytes",
    keys: &[key("workload", "workload"), key("threads", "threads")],
    peers: &[ROOM, "aquifer"],
    columns: &[
        median("tx/s", "per_s").digits(0).more(),
        ratio("x room", "per_s", &[ROOM]),
        CPU,
        BEHIND,
        median("wall ns", "wall_ns").digits(0),
        median("bytes per byte", "bytes").per(CHANGED_BYTES).less(),
        median("x written", "amplification").less(),
        median("theory", "theory"),
        median("live %", "live_share").per(0.01).digits(1),
        median("chunks cleaned", "cleaned_chunks").digits(0),
    ],
    note: "x room: throughput over that of the heap with room for everything, in which nothing is cleaned. CPU ns: of the whole process for one transaction, behind: of it that of \
        the cleaner. bytes per byte: persisted for each byte changed. x written: bytes persisted over those that were written once, by transactions; theory: \
        the same for uniform random overwrites in a log that is as full, headers included (Desnoyers 2012). live: the share of the file's memory that is objects.",
};

const PROMISES: &[Promise] = &[Promise {
    what: "throughput over that with room, at 90 %",
    at: &[],
    peer: "aquifer, 90 %",
    figure: "per_s",
    over: &[ROOM],
    bound: Bound::AtLeast(0.92),
}];

/// Bytes that a transaction changes.
const CHANGED_BYTES: f64 = 100.0;
/// Bytes of the durable heap for each object or entry.
const ENTRY_BYTES: u64 = 112;
/// Room for each transaction, where nothing is cleaned.
const CAPACITY_BYTES_EACH: u64 = 256;
/// Room for the chunks that are never filled with objects.
const CAPACITY_BYTES_MIN: u64 = 64 << 20;
/// What is written before anything is measured, in files.
const FILES_WRITTEN: u64 = 3;
const CHUNK_BYTES: u32 = 1 << 20;
/// The heap with room grows whatever is in it.
const UTILISATION_PERCENT_MIN: u32 = 5;

/// Options of `durable cleaning`.
#[derive(Clone, Debug, Args)]
pub struct CleaningOptions {
    /// What is updated [default: both]
    #[arg(long, value_enum, value_delimiter = ',')]
    workload: Vec<Updates>,
    /// What the file is on [default: both]
    #[arg(long, value_enum, value_delimiter = ',')]
    medium: Vec<Medium>,
    #[command(flatten)]
    load: LoadOptions,
}

/// Which heap is updated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Heap {
    /// One with room for everything
    Room,
    /// A heap that is cleaned
    Aquifer,
}

/// The study.
pub struct Cleaning;

impl Study for Cleaning {
    const NAME: &str = "durable cleaning";
    const ABOUT: &str =
        "What cleaning costs: updates of a heap that has room, and of ones that are nearly full";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] =
        &[("dir", "/dev/shm"), ("data", "256M"), ("count", "2M"), ("utilisation", "50,70,80,90")];
    const UNUSED: &[&str] = &["ram", "warmup"];
    const NEEDS_DISK: bool = false;
    const TABLES: &[&Table] = &[&TABLE];
    const PROMISES: &[Promise] = PROMISES;
    type Options = CleaningOptions;
    type Task = Task<Variant<Heap>, Point<Updates>>;

    fn run(session: &mut Session, options: &CleaningOptions, data_bytes: u64) -> Result<()> {
        let load = &options.load;
        if !((1 << 20)..=(2 << 30)).contains(&data_bytes) || load.count > 20_000_000 {
            return Err(Error::Input("--data is from 1M to 2G, --count at most 20M".to_owned()));
        }
        let directory = Directory::create(session)?;
        // A hash map that grows writes its entries several times.
        let capacity_bytes =
            CAPACITY_BYTES_MIN + 4 * data_bytes + CAPACITY_BYTES_EACH * (load.count + load.count / 4);
        let setup = directory.setup(session, load, capacity_bytes)?;
        let systems = load.variants(vec![Heap::Room, Heap::Aquifer], |heap| heap == Heap::Aquifer);
        let (media, updates) = (media(&options.medium), each_once(&options.workload));
        let points = load.points(&media, &updates, Some(data_bytes / ENTRY_BYTES));
        directory.turns(session, &systems, points, &setup)
    }

    fn work(task: Self::Task, parent: &mut Parent) -> Result<Fields> {
        task.work(parent)
    }
}

impl Task<Variant<Heap>, Point<Updates>> {
    /// A new file with objects in it, updates until cleaning is in its stride, and the measured ones.
    fn work(&self, parent: &mut Parent) -> Result<Fields> {
        let heap = self.open()?;
        let size = Size::of(&self.point, self.run);
        let mut running = Running::updates(&heap, self.point.workload, size, &self.setup)?;
        self.warm_up(&heap, &mut running, parent)?;
        running.measure(&format!("{}, {}", self.system, name_of(&self.point.workload)))
    }

    fn open(&self) -> Result<DurableHeap> {
        let file = heaps::memory_file(&self.setup, "heap")?;
        if self.system.percent.is_none() {
            self.touch(&file).map_err(|error| self.setup.failed("touching", error))?;
        }
        let percent = self.system.percent.unwrap_or(UTILISATION_PERCENT_MIN);
        let medium = self.point.medium.unwrap_or(Medium::Raw);
        heaps::durable_on(&self.setup, medium.over(&self.setup, file), percent, Tuning::ALL)
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

    /// Updates until several times the file was written, or a part of it where nothing is cleaned.
    fn warm_up(
        &self,
        heap: &DurableHeap,
        running: &mut Running<'_, DurableHeap>,
        parent: &mut Parent,
    ) -> Result<()> {
        let bytes = || heap.persisted().map_or(0, |persisted| persisted.bytes);
        let (part, before) = ((self.setup.transactions / 4).max(1), bytes());
        loop {
            running.run(part, Duration::MAX)?;
            let (written, wanted) = (bytes() - before, FILES_WRITTEN * heap.usage().file_bytes);
            if self.system.percent.is_none() || written >= wanted {
                return Ok(());
            }
            parent.progress("warming up", written, wanted);
        }
    }
}
