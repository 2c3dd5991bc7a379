//! Objects by reference and in batches, beside what they replace: a handle hit beside a fault on an
//! object that is just as much in RAM, and batches of one thread beside the device's own random
//! reads at queue depth 32.
//!
//! | file | noun |
//! |---|---|
//! | `data` | the bytes that follow from an object's number |
//! | `handles` | the child that measures hits and faults, on objects that all fit in RAM |
//! | `batches` | the child that reads batches of objects that do not fit |

mod batches;
mod data;
mod handles;

use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::child::Parent;
use crate::error::{Error, Result};
use crate::peer::fio::Target;
use crate::peer::{Kind, Setup, flash_bytes_for};
use crate::scale::check_disk;
use crate::study::{Bound, Fields, Promise, Session, Study, Table, median, ratio};
use batches::{BatchRequest, BatchesTask};
use handles::{FAULT, HIT, HandlesTask};

/// Bytes of one object.
const OBJECT_BYTES: u64 = 128;
/// Part of the log that live records take.
const FILL: f64 = 0.67;
/// Least data over RAM of the batches: with less, many objects would be found in RAM.
const DATA_OVER_RAM_MIN: u64 = 4;
/// Reads that fio keeps under way.
const DEPTH: usize = 32;
/// Block sizes that fio reads with.
const FIO: [(&str, u64); 2] = [("fio 4 KiB", 4096), ("fio 512 B", 512)];
const BATCHES: &str = "aquifer, batches of 1024";

const EXAMPLES: &str = "\
Examples:
  aquifer-bench references --out results.jsonl
      Handles and faults in 64 MiB of RAM; batches from 1 GiB of objects in as much; medians of 5
  aquifer-bench references --data 128M --ram 16M --seconds 0.5 --runs 1
      A first look in half a minute

--data is at least four times --ram, of which three eighths hold the objects of handles and faults.";

const HANDLES: Table = Table {
    title: "Handles, objects of 128 bytes in {ram_bytes:size} of RAM",
    keys: &[],
    peers: &[],
    columns: &[
        median("ns", "ns").digits(1).less(),
        ratio("x fault", "ns", &[FAULT]).digits(4),
        median("objects in turn", "objects").digits(0),
        median("reads of the device", "device_reads").digits(0),
        median("faults for each", "faults_per_touch"),
        median("of them that read the device", "misses_per_fault"),
    ],
    note: "handle hit: aq_heap_deref for reading and aq_heap_release, in random order. fault: median of one touch by pointer, signal and all.",
};

const READS: Table = Table {
    title: "Batches, {data_bytes:size} of 128-byte objects in {ram_bytes:size} of RAM, one thread",
    keys: &[],
    peers: &[BATCHES],
    columns: &[
        median("device reads/s", "device_reads_per_s").digits(0).more(),
        median("objects/s", "objects_per_s").digits(0).more(),
        median("found in RAM %", "found_in_ram").per(0.01).digits(1),
        ratio("x fio 4 KiB", "device_reads_per_s", &["fio 4 KiB"]),
        ratio("x fio 512 B", "device_reads_per_s", &["fio 512 B"]),
        median("CPU us per object", "cpu_us_each").less(),
    ],
    note: "device reads: of objects, by the library's counter; of fio, at depth 32.",
};

const PROMISES: &[Promise] = &[
    Promise {
        what: "handle hit, 1024 objects, ns",
        at: &[],
        peer: HIT[0].0,
        figure: "ns",
        over: &[],
        bound: Bound::AtMost(50.0),
    },
    Promise {
        what: "fault on a cached object over a handle hit",
        at: &[],
        peer: FAULT,
        figure: "ns",
        over: &[HIT[0].0],
        bound: Bound::AtLeast(50.0),
    },
    Promise {
        what: "batches of one thread: device reads over fio 4 KiB, depth 32",
        at: &[],
        peer: BATCHES,
        figure: "device_reads_per_s",
        over: &["fio 4 KiB"],
        bound: Bound::AtLeast(0.9),
    },
    Promise {
        what: "batches of one thread: device reads over fio 512 B, depth 32",
        at: &[],
        peer: BATCHES,
        figure: "device_reads_per_s",
        over: &["fio 512 B"],
        bound: Bound::AtLeast(0.9),
    },
];

/// Options of `references`: none of its own.
#[derive(Clone, Debug, Args)]
pub struct ReferencesOptions {}

#[derive(Clone, Serialize)]
struct InRam {
    ram_bytes: u64,
    object_bytes: u64,
}

#[derive(Clone, Serialize)]
struct OnFlash {
    ram_bytes: u64,
    object_bytes: u64,
    data_bytes: u64,
}

/// What a child does.
#[derive(Debug, Serialize, Deserialize)]
pub enum Task {
    /// Hits by handle and faults by pointer.
    Handles(HandlesTask),
    /// Fill once, then read batches for each request.
    Batches(BatchesTask),
}

/// The study.
pub struct References;

impl Study for References {
    const NAME: &str = "references";
    const ABOUT: &str =
        "Objects by handle beside faults, and batches of one thread beside fio at queue depth 32";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] = &[("ram", "64M"), ("seconds", "3")];
    const UNUSED: &[&str] = &["warmup"];
    const TABLES: &[&Table] = &[&HANDLES, &READS];
    const PROMISES: &[Promise] = PROMISES;
    type Options = ReferencesOptions;
    type Task = Task;

    fn run(session: &mut Session, _: &ReferencesOptions, data_bytes: u64) -> Result<()> {
        let (ram_bytes, dir) = (session.common.ram, session.common.dir.clone());
        if data_bytes / DATA_OVER_RAM_MIN < ram_bytes {
            return Err(Error::Input(format!("--data is at least {DATA_OVER_RAM_MIN} times --ram")));
        }
        let flash_bytes = flash_bytes_for(data_bytes, OBJECT_BYTES, FILL);
        let setup = Setup {
            dir: dir.clone(),
            data_bytes,
            object_bytes: OBJECT_BYTES,
            ram_bytes,
            flash_bytes,
            payload: session.payload,
        };
        check_disk(&dir, &setup, &[Kind::Aquifer, Kind::Fio], 0)?;
        let task = Task::Handles(HandlesTask {
            dir,
            ram_bytes,
            runs: session.common.runs,
            payload: session.payload,
        });
        session.rows("handles", &InRam { ram_bytes, object_bytes: OBJECT_BYTES }, &task)?;
        let point = OnFlash { ram_bytes, object_bytes: OBJECT_BYTES, data_bytes };
        let target = session.attempt("fio", &point, |session| {
            let report = |done: u64| {
                session.progress.doing(format!("fio: writing its file {} %", done * 100 / data_bytes))
            };
            Target::create(&setup.dir, data_bytes, report)
        })?;
        let mut child = session.start("batches", &Task::Batches(BatchesTask { setup }), None)?;
        child.expect_ready(&session.progress)?;
        let peers = if target.is_some() { &[BATCHES, FIO[0].0, FIO[1].0][..] } else { &[BATCHES] };
        session.turns(peers, [point], |session, cell, run| {
            session.settle()?;
            let seconds = session.common.seconds;
            let block = FIO.iter().find(|(name, _)| *name == cell.peer);
            let Some((&(_, block_bytes), target)) = block.zip(target.as_ref()) else {
                child.send(&BatchRequest { run, seconds })?;
                return child.figures(&session.progress);
            };
            let reads = target.measure_deep(block_bytes, DEPTH, Duration::from_secs_f64(seconds))?;
            Ok(Fields::default().with("device_reads_per_s", reads.ops_per_s))
        })
    }

    fn work(task: Task, parent: &mut Parent) -> Result<Fields> {
        match task {
            Task::Handles(task) => handles::work(&task, parent)?,
            Task::Batches(task) => batches::work(&task, parent)?,
        }
        Ok(Fields::default())
    }
}
