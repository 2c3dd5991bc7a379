//! Four programs on the durable heap, and on heaps that write their data twice.

use aquifer_durable::Tuning;
use aquifer_durable::in_place::Kind;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::cell::{LoadOptions, Point, Task, Variant};
use super::directory::{Directory, Setup};
use super::heaps::{self, Medium, media};
use super::programs::{Program, run_program};
use crate::child::Parent;
use crate::error::{Error, Result};
use crate::scale::parse_count;
use crate::study::{
    Bound, Column, Fields, Key, Promise, Session, Study, Table, each_once, key, median, ratio,
};

const EXAMPLES: &str = "\
Examples:
  aquifer-bench durable workloads --out results.jsonl
      Four programs on the log-structured heap, with a redo log and with an undo log; medians of 5
  aquifer-bench durable workloads --workload hash-map --threads 1 --runs 11 --medium emulated
      One program for a few minutes
  aquifer-bench durable workloads --system aquifer --utilisation 50,70,85,90 --workload tpcc
      What a smaller file costs
  aquifer-bench durable workloads --medium emulated --latency-ns 300 --bandwidth 2G
      Faster persistent memory

Every thread has keys of its own in the same structures, a queue of its own, or a warehouse of its own. The processor
time is that of the whole process: the durable heap's cleaner is included.

tpcc is TPC-C-like, not TPC-C: new orders of 5 to 15 lines and payments, half and half, on records of TPC-C's sizes. All items are in
the warehouse, nothing rolls back, orders are not delivered, customers are known by number, nobody waits at a terminal.";

const KEYS: &[Key] = &[key("threads", "threads"), key("workload", "workload").means()];
const PEERS: &[&str] = &["aquifer", "redo", "undo"];
/// Columns of every program on a heap.
pub(super) const CPU: Column = median("CPU ns", "cpu_ns").digits(0).less();
pub(super) const BEHIND: Column = median("of it behind", "behind_ns").digits(0);

const TABLE: Table = Table {
    title: "Programs on memory that is {medium}; an emulated persist takes {latency_ns} ns, or a second for {bandwidth} bytes",
    keys: &[key("threads", "threads"), key("workload", "workload")],
    peers: PEERS,
    columns: &[
        median("tx/s", "per_s").digits(0).more(),
        CPU,
        BEHIND,
        median("wall ns", "wall_ns").digits(0),
        median("fences", "fences").digits(3),
        median("bytes", "bytes").digits(0).less(),
        median("lines", "lines").less(),
        median("live %", "live_share").per(0.01).digits(1),
        median("chunks cleaned", "cleaned_chunks").digits(0),
    ],
    note: "CPU ns, fences, bytes and lines of 64 bytes persisted are for one transaction; CPU time is that of the whole process, behind: of it that of threads without \
        transactions, a cleaner's. What cleaning writes is included. live: the share of the file's memory that is objects, at the end. tpcc is TPC-C-like, not TPC-C.",
};

const RATIOS: Table = Table {
    title: "Written once over written twice, on memory that is {medium}",
    keys: KEYS,
    peers: PEERS,
    columns: &[
        ratio("tx/s over redo", "per_s", &["redo"]),
        ratio("over undo", "per_s", &["undo"]),
        ratio("CPU over redo", "cpu_ns", &["redo"]),
        ratio("over undo", "cpu_ns", &["undo"]),
        ratio("bytes over redo", "bytes", &["redo"]),
        ratio("over undo", "bytes", &["undo"]),
        ratio("lines over redo", "lines", &["redo"]),
        ratio("over undo", "lines", &["undo"]),
    ],
    note: "",
};

const CLEANING: Table = Table {
    title: "What cleaning wrote, beside theory, on memory that is {medium}",
    keys: &[key("threads", "threads"), key("workload", "workload")],
    peers: PEERS,
    columns: &[
        median("bytes", "bytes").digits(0),
        median("x written", "amplification").less(),
        median("theory", "theory"),
        median("live % with headers", "fill").per(0.01).digits(1),
        median("written once", "once_bytes").digits(0),
        median("theory", "theory_bytes").digits(0),
        ratio("theory: bytes over redo", "theory_bytes", &["redo"]),
        ratio("over undo", "theory_bytes", &["undo"]),
    ],
    note: "x written: bytes persisted over those that were written once, by transactions. theory: the same for uniform random overwrites in a log that is as full, headers \
        included (Desnoyers 2012): what cleaning must write. A file that still grows, or whose data are not rewritten uniformly, can have less.",
};

/// Points of the promises.
const HASH_MAP: &[(&str, &str)] = &[("medium", "emulated"), ("workload", "hash-map")];
const BTREE: &[(&str, &str)] = &[("medium", "emulated"), ("workload", "btree")];
const QUEUE: &[(&str, &str)] = &[("medium", "emulated"), ("workload", "queue")];
const TPCC: &[(&str, &str)] = &[("medium", "emulated"), ("workload", "tpcc")];

const PROMISES: &[Promise] = &[
    faster("throughput over redo, half full", HASH_MAP, &["redo"], 1.4),
    faster("throughput over redo, half full", BTREE, &["redo"], 1.4),
    faster("throughput over redo, half full", QUEUE, &["redo"], 1.4),
    faster("throughput over redo, half full", TPCC, &["redo"], 1.4),
    faster("throughput over undo, half full", HASH_MAP, &["undo"], 1.8),
    faster("throughput over undo, half full", BTREE, &["undo"], 1.8),
    faster("throughput over undo, half full", QUEUE, &["undo"], 1.8),
    faster("throughput over undo, half full", TPCC, &["undo"], 1.8),
    fewer_bytes(HASH_MAP),
    fewer_bytes(BTREE),
    fewer_bytes(QUEUE),
    fewer_bytes(TPCC),
];

type At = &'static [(&'static str, &'static str)];

const fn faster(what: &'static str, at: At, over: &'static [&'static str], least: f64) -> Promise {
    Promise { what, at, peer: "aquifer, 50 %", figure: "per_s", over, bound: Bound::AtLeast(least) }
}

/// Over that of both which writes less.
const fn fewer_bytes(at: At) -> Promise {
    let (what, peer, figure) = ("bytes over redo and undo, half full", "aquifer, 50 %", "bytes");
    Promise { what, at, peer, figure, over: &["redo", "undo"], bound: Bound::AtMost(0.55) }
}

/// Room in a file, beside that for entries and transactions: a heap in place takes 16.5 MiB for each size of objects.
const CAPACITY_BYTES_MIN: u64 = 1 << 30;
/// Room for each entry: that of the durable heap at its lowest utilisation.
const CAPACITY_BYTES_ENTRY: u64 = 1024;
/// Room for each transaction: an order stays.
const CAPACITY_BYTES_EACH: u64 = 1536;

/// How transactions become durable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// The durable heap: written once, to the log
    Aquifer,
    /// In place: new bytes to a log, and then to their homes
    Redo,
    /// In place: old bytes to a log, and then new ones to their homes
    Undo,
}

/// Options of programs.
#[derive(Clone, Debug, Args)]
pub struct ProgramOptions {
    /// What the transactions do [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    workload: Vec<Program>,
    /// What the files are on [default: both]
    #[arg(long, value_enum, value_delimiter = ',')]
    medium: Vec<Medium>,
    /// Entries of each structure; a fifth as many items and 3/500 as many customers of a district: a number with K or M
    #[arg(long, default_value = "500K", value_parser = parse_count)]
    entries: u64,
    #[command(flatten)]
    pub(super) load: LoadOptions,
}

/// Options of `durable workloads`.
#[derive(Clone, Debug, Args)]
pub struct WorkloadsOptions {
    /// Systems that take turns [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    system: Vec<Engine>,
    #[command(flatten)]
    programs: ProgramOptions,
}

impl ProgramOptions {
    /// What every system is given.
    ///
    /// # Errors
    /// [`Error::Input`] for numbers that make no sense; those of [`Directory::setup`].
    pub(super) fn setup(&self, session: &Session, directory: &Directory) -> Result<Setup> {
        let (entries, count) = (self.entries, self.load.count);
        if !(1000..=10_000_000).contains(&entries) || count > 5_000_000 {
            return Err(Error::Input("--entries is from 1000 to 10M, --count at most 5M".to_owned()));
        }
        let bytes =
            CAPACITY_BYTES_MIN + CAPACITY_BYTES_ENTRY * entries + CAPACITY_BYTES_EACH * (count + count / 4);
        directory.setup(session, &self.load, bytes)
    }

    /// All media, programs and threads.
    pub(super) fn points(&self) -> Vec<Point<Program>> {
        self.load.points(&media(&self.medium), &each_once(&self.workload), Some(self.entries))
    }
}

/// The study.
pub struct Workloads;

impl Study for Workloads {
    const NAME: &str = "durable workloads";
    const ABOUT: &str = "Four programs on the durable heap, beside heaps that write their data twice";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] = &[
        ("dir", "/dev/shm"),
        ("seconds", "3"),
        ("warmup", "0.75"),
        ("threads", "1,2"),
        ("count", "1M"),
        ("utilisation", "50,85"),
    ];
    const UNUSED: &[&str] = &["ram", "data"];
    const NEEDS_DISK: bool = false;
    const TABLES: &[&Table] = &[&TABLE, &RATIOS, &CLEANING];
    const PROMISES: &[Promise] = PROMISES;
    type Options = WorkloadsOptions;
    type Task = Task<Variant<Engine>, Point<Program>>;

    fn run(session: &mut Session, options: &WorkloadsOptions, _: u64) -> Result<()> {
        let directory = Directory::create(session)?;
        let setup = options.programs.setup(session, &directory)?;
        let systems =
            options.programs.load.variants(each_once(&options.system), |engine| engine == Engine::Aquifer);
        directory.turns(session, &systems, options.programs.points(), &setup)
    }

    fn work(task: Self::Task, _: &mut Parent) -> Result<Fields> {
        let Task { system, point, run, setup } = &task;
        let (medium, peer) = (point.medium.unwrap_or(Medium::Raw), system.to_string());
        let in_place = |kind| run_program(&heaps::in_place(setup, medium, kind)?, point, *run, setup, &peer);
        match system.system {
            Engine::Aquifer => {
                let percent = system.percent.unwrap_or_default();
                let heap = heaps::durable(setup, medium, percent, Tuning::ALL)?;
                run_program(&heap, point, *run, setup, &peer)
            }
            Engine::Redo => in_place(Kind::Redo),
            Engine::Undo => in_place(Kind::Undo),
        }
    }
}
