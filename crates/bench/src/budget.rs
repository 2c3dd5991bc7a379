//! Does the memory of the process stay within the budget for as long as one cares to look?

use std::time::{Duration, Instant};

use aquifer_base::units::parse_size;
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::child::Parent;
use crate::distribution::{Distribution, HOT_SPACING};
use crate::error::{Error, Result};
use crate::ledger::Ledger;
use crate::objects::in_memory;
use crate::peer::aquifer::{Aquifer, Layout};
use crate::peer::{Kind, Peer, Setup, flash_bytes_for};
use crate::process::Memory;
use crate::scale::check_disk;
use crate::study::{Bound, Fields, Promise, Session, Study, Table, key, median};
use crate::verified::Verified;
use crate::workload::{self, Phase, Point};

/// Time between two looks at the memory.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The mixed run takes these in turn.
const MIX: [(Distribution, u32); 6] = [
    (Distribution::Uniform, 100),
    (Distribution::Zipf, 50),
    (Distribution::ScatteredHot, 75),
    (Distribution::Uniform, 0),
    (Distribution::ScatteredHot, 0),
    (Distribution::Zipf, 100),
];
/// Length of one turn.
const TURN: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Examples:
  aquifer-bench budget --out results.jsonl
      40 million objects of 128 bytes, 20 times the RAM, ten minutes after the fill
  aquifer-bench budget --data 1G --ram 64M --seconds 60
      A first look in two minutes";

const TABLE: Table = Table {
    title: "Memory against the budget",
    keys: &[
        key("budget", "ram_bytes").size(),
        key("data", "data_bytes").size(),
        key("object bytes", "object_bytes"),
        key("threads", "threads"),
    ],
    peers: &[],
    columns: &[
        median("s", "seconds").digits(0),
        median("looks", "looks").digits(0),
        median("max RSS + PTE MiB", "grown_bytes").mib(),
        median("% of budget", "of_budget").per(0.01).digits(1).less(),
        median("max by library MiB", "used_bytes").mib(),
        median("max metadata %", "metadata_of_budget").per(0.01).digits(1).less(),
        median("ops/s", "ops_per_s").digits(0).more(),
    ],
    note: "",
};

const PROMISES: &[Promise] = &[
    Promise {
        what: "memory over budget",
        at: &[],
        peer: "aquifer",
        figure: "of_budget",
        over: &[],
        bound: Bound::AtMost(1.05),
    },
    Promise {
        what: "metadata over budget",
        at: &[],
        peer: "aquifer",
        figure: "metadata_of_budget",
        over: &[],
        bound: Bound::AtMost(0.15),
    },
];

/// Options of `budget`.
#[derive(Clone, Debug, Args)]
pub struct BudgetOptions {
    /// Bytes of one object, a multiple of 8
    #[arg(long, value_parser = parse_size, default_value = "128")]
    pub object: u64,
    /// Threads
    #[arg(long, default_value_t = 32)]
    pub threads: usize,
    /// Percent of the log that live records take
    #[arg(long, default_value_t = 67, value_parser = clap::value_parser!(u32).range(1..=95))]
    pub fill: u32,
}

/// What the child is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BudgetTask {
    /// Heap and array.
    pub setup: Setup,
    /// Threads.
    pub threads: usize,
    /// Length of the mixed run.
    pub seconds: f64,
}

#[derive(Clone, Serialize)]
struct Given {
    ram_bytes: u64,
    data_bytes: u64,
    object_bytes: u64,
    flash_bytes: u64,
    threads: usize,
}

/// The study.
pub struct Budget;

impl Study for Budget {
    const NAME: &str = "budget";
    const ABOUT: &str = "Memory of a long mixed run against its budget";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] = &[("data", "4883M"), ("seconds", "600"), ("runs", "1")];
    const UNUSED: &[&str] = &["warmup"];
    const TABLES: &[&Table] = &[&TABLE];
    const PROMISES: &[Promise] = PROMISES;
    type Options = BudgetOptions;
    type Task = BudgetTask;

    fn run(session: &mut Session, options: &BudgetOptions, data_bytes: u64) -> Result<()> {
        let &BudgetOptions { object: object_bytes, threads, fill } = options;
        let is_sensible = object_bytes > 0 && object_bytes.is_multiple_of(8) && threads > 0;
        if !is_sensible || data_bytes / object_bytes < HOT_SPACING {
            let rule = "--object is a multiple of 8, --data at least 100 of them, --threads positive";
            return Err(Error::Input(rule.to_owned()));
        }
        let (ram_bytes, dir) = (session.common.ram, session.common.dir.clone());
        let data_bytes = data_bytes / object_bytes * object_bytes;
        let flash_bytes = flash_bytes_for(data_bytes, object_bytes, f64::from(fill) / 100.0);
        let setup = Setup { dir, data_bytes, object_bytes, ram_bytes, flash_bytes, payload: session.payload };
        check_disk(&setup.dir, &setup, &[Kind::Aquifer], 0)?;
        let given = Given { ram_bytes, data_bytes, object_bytes, flash_bytes, threads };
        session.turns(&["aquifer"], [given], |session, cell, _| {
            let task = BudgetTask { setup: setup.clone(), threads, seconds: session.common.seconds };
            session.child(cell.peer, &task, None)
        })
    }

    fn work(task: BudgetTask, parent: &mut Parent) -> Result<Fields> {
        work(&task, parent)
    }
}

fn work(task: &BudgetTask, parent: &mut Parent) -> Result<Fields> {
    rehearse(task.threads)?;
    let count = task.setup.objects();
    let ledger = task.setup.ledger("aquifer");
    let mut watch = Watch::new(Memory::now()?);
    let heap = Aquifer::open(&task.setup, Layout::Objects)?;
    let objects = Verified::new(heap.objects(), &ledger);
    workload::fill(objects, task.threads, |done| {
        watch.look(&heap);
        parent.progress("filling", done, count);
    });
    let (mut ops, started) = (0, Instant::now());
    let length = Duration::from_secs_f64(task.seconds);
    for (turn, &(distribution, read_percent)) in MIX.iter().cycle().enumerate() {
        if started.elapsed() >= length {
            break;
        }
        let point = Point { distribution, read_percent, threads: task.threads };
        let turn_ends = Instant::now() + TURN.min(length.saturating_sub(started.elapsed()));
        let measured = workload::run(objects, point, turn as u64, || {
            watch.look(&heap);
            parent.progress("mixed run", started.elapsed().as_secs(), length.as_secs());
            Ok(if Instant::now() >= turn_ends { Phase::Stop } else { Phase::Measure })
        })?;
        ops += measured.ops;
    }
    let seconds = started.elapsed().as_secs_f64();
    objects.read_watched()?;
    let grown = watch.max.total_bytes().saturating_sub(watch.baseline.total_bytes());
    let of_budget = |bytes: u64| bytes as f64 / task.setup.ram_bytes as f64;
    Ok(Fields::default()
        .with("seconds", seconds)
        .with("looks", watch.looks)
        .with("baseline_bytes", watch.baseline.total_bytes())
        .with("grown_bytes", grown)
        .with("of_budget", of_budget(grown))
        .with("used_bytes", watch.max_used_bytes)
        .with("metadata_of_budget", of_budget(watch.max_metadata_bytes))
        .with("ops_per_s", ops as f64 / seconds.max(0.001)))
}

/// Runs the threads once on a little memory of our own, so that their stacks and the harness's
/// code are in the baseline and not mistaken for the heap's.
fn rehearse(threads: usize) -> Result<()> {
    in_memory(8, HOT_SPACING, |objects| {
        let ledger = Ledger::new("memory of the benchmark", HOT_SPACING);
        let objects = Verified::new(objects, &ledger);
        workload::fill(objects, threads, |_| {});
        for (distribution, read_percent) in MIX {
            let mut phases = [Phase::WarmUp, Phase::Measure, Phase::Stop].into_iter();
            let point = Point { distribution, read_percent, threads };
            workload::run(objects, point, 0, || Ok(phases.next().unwrap_or(Phase::Stop)))?;
        }
        Ok(())
    })
}

/// Keeps the largest memory seen.
struct Watch {
    baseline: Memory,
    looked: Instant,
    looks: u64,
    max: Memory,
    max_used_bytes: u64,
    max_metadata_bytes: u64,
}

impl Watch {
    fn new(baseline: Memory) -> Self {
        Self {
            baseline,
            looked: Instant::now(),
            looks: 0,
            max: baseline,
            max_used_bytes: 0,
            max_metadata_bytes: 0,
        }
    }

    fn look(&mut self, heap: &Aquifer) {
        if self.looks > 0 && self.looked.elapsed() < LOOK_EVERY {
            return;
        }
        self.looked = Instant::now();
        self.looks += 1;
        self.max = self.max.max(Memory::now().unwrap_or_default());
        let stats = heap.stats().unwrap_or_default();
        self.max_used_bytes = self.max_used_bytes.max(stats.ram_used_bytes);
        self.max_metadata_bytes = self.max_metadata_bytes.max(stats.metadata_bytes);
    }
}
