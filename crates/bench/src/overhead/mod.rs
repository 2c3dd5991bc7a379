//! The cost of single mechanisms, like the table of the SSDAlloc paper: lookup, materialise,
//! dematerialise, fault; beside what the kernel alone costs on the same machine in the same run.

pub mod first_write;
pub mod floor;
pub mod heap;
pub mod kernel;
pub mod lookup;

use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::child::Parent;
use crate::error::Result;
use crate::payload::Payload;
use crate::study::{Bound, Fields, Promise, Session, Study, Table, median, ratio, text};

/// Name of the row with the kernel's own fault, the unit of the others.
pub const KERNEL_FAULT: &str = "kernel: anonymous page fault";
/// Name of the row with the lookup.
pub const LOOKUP: &str = "aquifer: lookup";
/// Name of the row with the whole hit.
pub const FAULT: &str = "aquifer: fault, materialise + dematerialise";

const TABLE: Table = Table {
    title: "Single mechanisms, {ram_bytes:size} of RAM",
    keys: &[],
    peers: &[KERNEL_FAULT],
    columns: &[
        median("ns", "ns").digits(0).less(),
        ratio("x kernel fault", "ns", &[KERNEL_FAULT]),
        text("how", "how"),
    ],
    note: "",
};

const PROMISES: &[Promise] = &[
    Promise {
        what: "fault on a cached object over the kernel's own fault",
        at: &[],
        peer: FAULT,
        figure: "ns",
        over: &[KERNEL_FAULT],
        bound: Bound::AtMost(4.0),
    },
    Promise {
        what: "lookup, ns",
        at: &[],
        peer: LOOKUP,
        figure: "ns",
        over: &[],
        bound: Bound::AtMost(50.0),
    },
];

/// Options of `overhead`: none of its own.
#[derive(Clone, Debug, Args)]
pub struct OverheadOptions {}

/// Mechanisms that are measured together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Group {
    /// The kernel's own.
    Kernel,
    /// Parts of a fault, without a heap.
    Floor,
    /// Ways to notice the first write to a page.
    FirstWrite,
    /// Of the table of entries.
    Lookup,
    /// Of a heap.
    Heap,
}

/// What the child is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OverheadTask {
    /// What is measured.
    pub group: Group,
    /// RAM budget of the heap.
    pub ram_bytes: u64,
    /// Directory for its file.
    pub dir: PathBuf,
    /// Times each cost is measured.
    pub runs: u32,
    /// What objects look like.
    pub payload: Payload,
}

/// A measured cost.
#[derive(Debug)]
pub struct Cost {
    /// Row of the table.
    pub name: &'static str,
    /// One value per run.
    pub ns: Vec<f64>,
    /// How it was measured.
    pub note: String,
}

#[derive(Clone, Serialize)]
struct Point {
    ram_bytes: u64,
}

/// The study.
pub struct Overhead;

impl Study for Overhead {
    const NAME: &str = "overhead";
    const ABOUT: &str = "Cost of lookup, materialise, dematerialise and fault, beside the kernel's own fault";
    const EXAMPLES: &str = "Examples:\n  aquifer-bench overhead --out results.jsonl";
    const DEFAULTS: &[(&str, &str)] = &[];
    const UNUSED: &[&str] = &["data", "seconds", "warmup"];
    const TABLES: &[&Table] = &[&TABLE];
    const PROMISES: &[Promise] = PROMISES;
    type Options = OverheadOptions;
    type Task = OverheadTask;

    fn run(session: &mut Session, _: &OverheadOptions, _: u64) -> Result<()> {
        let (ram_bytes, dir, runs) = (session.common.ram, session.common.dir.clone(), session.common.runs);
        let point = Point { ram_bytes };
        for group in [Group::Kernel, Group::Floor, Group::FirstWrite, Group::Lookup, Group::Heap] {
            session.progress.doing(format!("{group:?}"));
            let task = OverheadTask { group, ram_bytes, dir: dir.clone(), runs, payload: session.payload };
            session.rows(&format!("{group:?}"), &point, &task)?;
        }
        Ok(())
    }

    fn work(task: OverheadTask, parent: &mut Parent) -> Result<Fields> {
        let costs = match task.group {
            Group::Kernel => kernel::measure(task.runs)?,
            Group::Floor => floor::measure(task.runs)?,
            Group::FirstWrite => first_write::measure(task.runs)?,
            Group::Lookup => vec![lookup::measure(&task)],
            Group::Heap => heap::measure(&task)?,
        };
        for Cost { name, ns, note } in costs {
            ns.into_iter()
                .for_each(|ns| parent.row(name, Fields::default().with("ns", ns).with("how", &note)));
        }
        Ok(Fields::default())
    }
}
