//! How long it takes to open a heap whose log is full, and how much memory its map takes.

use std::time::Instant;

use aquifer_base::HomeAddress;
use aquifer_base::units::parse_size;
use aquifer_durable::{Backing, DurableHeap, Options, Tuning};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::cell::Task;
use super::directory::Directory;
use super::options;
use crate::child::Parent;
use crate::error::{Error, Result};
use crate::process::cpu_ns;
use crate::rng::Rng;
use crate::study::{Bound, Fields, Promise, Session, Study, Table, each_once, key, median, scaling};

const EXAMPLES: &str = "\
Examples:
  aquifer-bench durable recovery --out results.jsonl
      Logs of 1 GiB with objects of 8, 64, 100 and 1024 bytes, in order and fragmented; medians of 5
  aquifer-bench durable recovery --data 4G --object 64 --filling fragmented --runs 1
      One larger log
  aquifer-bench durable recovery --utilisation 85
      Logs that are cleaned while they are filled
  aquifer-bench durable recovery --checkpoint no,yes
      The same with a checkpoint that was written when the heap was closed

--data are the bytes of the log when it is closed. The file stays in memory while it is closed.";

const TABLE: Table = Table {
    title: "Recovery of a log of {log_bytes:size}",
    keys: &[
        key("filling", "filling"),
        key("object bytes", "object_bytes"),
        key("cleaned from %", "utilisation_percent"),
        key("checkpoint", "checkpoint"),
    ],
    peers: &[],
    columns: &[
        median("seconds", "seconds").digits(3).less(),
        scaling("x without checkpoint", "seconds", "checkpoint", "no").digits(3),
        median("CPU s", "cpu_s").digits(3).less(),
        median("GB/s of log", "log_bytes_per_s").per(1e9).more(),
        median("log MiB", "log_bytes").mib(),
        median("data MiB", "live_bytes").mib(),
        median("map MiB per GiB of data", "map_share").per(1.0 / 1024.0).digits(1),
        median("map % of data", "map_share").per(0.01).less(),
    ],
    note: "sequential: objects one behind the other, 99 in a transaction. fragmented: for every three of these, one random object was written anew by a transaction of its own. \
        seconds: for opening the file, which is in memory; CPU: of the whole process. map: its RAM. cleaned from: the file grew while at least this share of it was objects. \
        checkpoint: written at close; what it spares is verified later.",
};

const PROMISES: &[Promise] = &[
    Promise {
        what: "seconds to open a log of 1 GiB with a checkpoint, objects of 64 bytes",
        at: &[("log_bytes", "1073741824"), ("object_bytes", "64"), ("checkpoint", "yes")],
        peer: "aquifer",
        figure: "seconds",
        over: &[],
        bound: Bound::AtMost(1.0),
    },
    Promise {
        what: "map over data, objects of 64 bytes",
        at: &[("object_bytes", "64")],
        peer: "aquifer",
        figure: "map_share",
        over: &[],
        bound: Bound::AtMost(0.1),
    },
];

/// Objects that are made together.
const FILLED_TOGETHER: u64 = 99;
/// Objects that are made for each one that is written anew.
const REWRITTEN: u64 = 3;
/// Objects that are looked at afterwards.
const CHECKED: u64 = 10_000;

/// How the log is filled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Filling {
    /// By objects one behind the other, many in a transaction
    Sequential,
    /// The same, and a third as many transactions that write one random object anew
    Fragmented,
}

/// Whether a checkpoint is written when the heap is closed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Checkpoint {
    /// None: all of the log is read
    No,
    /// The map comes from it, and what it spares is verified later
    Yes,
}

/// Options of `durable recovery`.
#[derive(Clone, Debug, Args)]
pub struct RecoveryOptions {
    /// Bytes of an object
    #[arg(long, value_delimiter = ',', default_value = "8,64,100,1024", value_parser = parse_size)]
    object: Vec<u64>,
    /// How the log is filled [default: both]
    #[arg(long, value_enum, value_delimiter = ',')]
    filling: Vec<Filling>,
    /// The file grows only while at least this percentage of it is objects, else it is cleaned; the default leaves all fragments
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(5..=95))]
    utilisation: u32,
    /// Whether there is a checkpoint
    #[arg(long, value_delimiter = ',', default_value = "no")]
    checkpoint: Vec<Checkpoint>,
}

/// A log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Log {
    /// Its length when it is closed.
    log_bytes: u64,
    object_bytes: u64,
    filling: Filling,
    checkpoint: Checkpoint,
    /// The file grows only while at least this share of it is objects.
    utilisation_percent: u32,
}

/// The study.
pub struct Recovery;

impl Study for Recovery {
    const NAME: &str = "durable recovery";
    const ABOUT: &str = "How long opening takes, and how much memory the map";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] = &[("dir", "/dev/shm")];
    const UNUSED: &[&str] = &["ram", "seconds", "warmup"];
    const NEEDS_DISK: bool = false;
    const TABLES: &[&Table] = &[&TABLE];
    const PROMISES: &[Promise] = PROMISES;
    type Options = RecoveryOptions;
    type Task = Task<String, Log>;

    fn run(session: &mut Session, options: &RecoveryOptions, log_bytes: u64) -> Result<()> {
        if !((4 << 20)..=(12 << 30)).contains(&log_bytes) {
            return Err(Error::Input("--data is from 4M to 12G".to_owned()));
        }
        if !options.object.iter().all(|bytes| (8..=65_536).contains(bytes) && bytes.is_multiple_of(4)) {
            return Err(Error::Input("--object is a multiple of 4 from 8 to 64K".to_owned()));
        }
        let directory = Directory::create(session)?;
        let setup = directory.files(session, log_bytes + log_bytes / 8 + (64 << 20))?;
        directory.turns(session, &["aquifer"], options.logs(log_bytes), &setup)
    }

    fn work(task: Self::Task, parent: &mut Parent) -> Result<Fields> {
        task.work(parent)
    }
}

impl RecoveryOptions {
    fn logs(&self, log_bytes: u64) -> Vec<Log> {
        let (utilisation_percent, mut logs) = (self.utilisation, Vec::new());
        for filling in each_once(&self.filling) {
            for checkpoint in each_once(&self.checkpoint) {
                let log =
                    |&object_bytes| Log { log_bytes, object_bytes, filling, checkpoint, utilisation_percent };
                logs.extend(self.object.iter().map(log));
            }
        }
        logs
    }
}

/// What a log was filled with.
struct Filled {
    objects: Vec<HomeAddress>,
    rewritten: u64,
    rng: Rng,
}

impl Task<String, Log> {
    /// A log is filled and closed, opened with a look at the clock, and looked at.
    fn work(&self, parent: &mut Parent) -> Result<Fields> {
        let heap = self.open()?;
        let mut filled = Filled { objects: Vec::new(), rewritten: 0, rng: Rng::new(u64::from(self.run)) };
        self.fill(&heap, &mut filled, parent).map_err(|error| self.setup.failed("filling", error))?;
        let written_bytes = heap.persist().counts().bytes();
        let before = heap.usage();
        drop(heap);
        let (begin, cpu_before) = (Instant::now(), cpu_ns());
        let heap = self.open()?;
        let (seconds, cpu_s) = (begin.elapsed().as_secs_f64(), (cpu_ns() - cpu_before) as f64 / 1e9);
        let usage = heap.usage();
        self.check(&heap, &mut filled)?;
        let log_bytes = before.file_bytes - before.reserve_bytes;
        Ok(Fields::default()
            .with("objects", filled.objects.len())
            .with("rewritten", filled.rewritten)
            .with("written_bytes", written_bytes)
            .with("log_bytes", log_bytes)
            .with("live_bytes", usage.live_bytes)
            .with("map_bytes_before", before.map_bytes)
            .with("map_bytes", usage.map_bytes)
            .with("map_share", usage.map_bytes as f64 / usage.live_bytes as f64)
            .with("seconds", seconds)
            .with("cpu_s", cpu_s)
            .with("log_bytes_per_s", log_bytes as f64 / seconds))
    }

    fn open(&self) -> Result<DurableHeap> {
        let options = Options {
            backing: Backing::Memory,
            checkpoint_bytes: if self.point.checkpoint == Checkpoint::Yes { u64::MAX } else { 0 },
            ..options(&self.setup, self.point.utilisation_percent, Tuning::ALL)
        };
        DurableHeap::open(&self.setup.path(), &options).map_err(|error| self.setup.failed("opening", error))
    }

    /// What object number `index` has: its number, and the payload's words.
    fn content(&self, index: u64) -> Vec<u8> {
        let mut content = vec![0; self.point.object_bytes as usize];
        self.setup.payload.fill(index, &mut content);
        content[..8].copy_from_slice(&index.to_le_bytes());
        content
    }

    /// Writes until the log is as long as wanted.
    fn fill(
        &self,
        heap: &DurableHeap,
        filled: &mut Filled,
        parent: &mut Parent,
    ) -> aquifer_durable::Result<()> {
        loop {
            let usage = heap.usage();
            let used = usage.file_bytes - usage.reserve_bytes;
            if used >= self.point.log_bytes {
                return Ok(());
            }
            parent.progress("filling", used, self.point.log_bytes);
            self.add(heap, filled)?;
            if self.point.filling == Filling::Fragmented {
                (0..FILLED_TOGETHER / REWRITTEN).try_for_each(|_| self.rewrite(heap, filled))?;
            }
        }
    }

    fn add(&self, heap: &DurableHeap, filled: &mut Filled) -> aquifer_durable::Result<()> {
        let first = filled.objects.len() as u64;
        // A transaction's block fits into a chunk.
        let count = FILLED_TOGETHER.min((1 << 19) / self.point.object_bytes);
        let homes = heap.transaction(|tx| {
            let make = |index| {
                let home = tx.alloc(self.point.object_bytes)?;
                tx.store(home, &self.content(index)).map(|()| home)
            };
            (first..first + count).map(make).collect::<aquifer_durable::Result<Vec<_>>>()
        })?;
        filled.objects.extend(homes);
        Ok(())
    }

    fn rewrite(&self, heap: &DurableHeap, filled: &mut Filled) -> aquifer_durable::Result<()> {
        let index = filled.rng.below(filled.objects.len() as u64);
        let (home, content) = (filled.objects[index as usize], self.content(index));
        filled.rewritten += 1;
        heap.transaction(|tx| tx.store(home, &content))
    }

    fn check(&self, heap: &DurableHeap, filled: &mut Filled) -> Result<()> {
        for _ in 0..CHECKED {
            let index = filled.rng.below(filled.objects.len() as u64);
            let (home, mut found) =
                (filled.objects[index as usize], vec![0; self.point.object_bytes as usize]);
            let loaded = heap.transaction(|tx| tx.load(home, &mut found));
            loaded.map_err(|error| self.setup.failed("reading", error))?;
            let wanted = self.content(index);
            if let Some(at) = (0..wanted.len()).find(|&at| found[at] != wanted[at]) {
                let (has, wanted) = (found[at], wanted[at]);
                let what = format!("byte {at} of object {index} is {has:#x} instead of {wanted:#x}");
                return Err(Error::WrongData { peer: self.system.clone(), what });
            }
        }
        Ok(())
    }
}
