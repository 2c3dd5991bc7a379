//! What each optimisation of the durable heap gives: the same programs with all of them, and without one.

use std::fmt;

use aquifer_durable::Tuning;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::cell::{Point, Task};
use super::directory::Directory;
use super::heaps::{self, Medium};
use super::programs::{Program, run_program};
use super::workloads::{BEHIND, CPU, ProgramOptions};
use crate::child::Parent;
use crate::error::Result;
use crate::study::{Fields, Session, Study, Table, each_once, key, median, name_of, ratio, sorted};

const EXAMPLES: &str = "\
Examples:
  aquifer-bench durable optimisations --out results.jsonl
      Four programs with all optimisations and without each, on slow memory and as it is; medians of 5
  aquifer-bench durable optimisations --without hot-nodes --medium raw --runs 11
      The hot-node cache

At a utilisation of 50 % little is cleaned.";

const TABLE: Table = Table {
    title: "Optimisations left out, on memory that is {medium}",
    keys: &[
        key("threads", "threads"),
        key("cleaned from %", "utilisation_percent"),
        key("workload", "workload").means(),
    ],
    peers: &["nothing", "hot-nodes", "group-update", "merges-writes", "persists-once", "joins-extents"],
    columns: &[
        median("tx/s", "per_s").digits(0).more(),
        ratio("gives x", "wall_ns", &["nothing"]),
        CPU,
        BEHIND,
        ratio("gives x of CPU", "cpu_ns", &["nothing"]),
        median("wall ns", "wall_ns").digits(0),
        median("fences", "fences").less(),
        median("bytes", "bytes").digits(0).less(),
        median("map MiB", "map_bytes").mib(),
    ],
    note: "The peer is what is left out. gives: how many times the throughput there is with it than without it, of transactions by the clock and for a second of CPU. CPU ns, fences \
        and bytes persisted are for one transaction; CPU time is that of the whole process. Hu et al. (ATC 2017) say 1.301 for hot nodes, 1.423 for the group update.",
};

/// What is left out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Without {
    /// Nothing: what the others are compared with
    Nothing,
    /// The hot-node cache
    HotNodes,
    /// Both halves of the group update
    GroupUpdate,
    /// Neighbours merged at commit: one half of the group update
    MergesWrites,
    /// One persist for each commit: the other half
    PersistsOnce,
    /// Extents of the map joined
    JoinsExtents,
}

impl Without {
    /// What the heap has then.
    fn tuning(self) -> Tuning {
        let all = Tuning::ALL;
        match self {
            Self::Nothing => all,
            Self::HotNodes => Tuning { hot_nodes: false, ..all },
            Self::GroupUpdate => Tuning { merges_writes: false, persists_once: false, ..all },
            Self::MergesWrites => Tuning { merges_writes: false, ..all },
            Self::PersistsOnce => Tuning { persists_once: false, ..all },
            Self::JoinsExtents => Tuning { joins_extents: false, ..all },
        }
    }
}

impl fmt::Display for Without {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name_of(self))
    }
}

/// Options of `durable optimisations`.
#[derive(Clone, Debug, Args)]
pub struct OptimisationsOptions {
    /// What is left out, beside nothing [default: each]
    #[arg(long, value_enum, value_delimiter = ',')]
    without: Vec<Without>,
    #[command(flatten)]
    programs: ProgramOptions,
}

/// A program on a heap that is cleaned.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct At {
    #[serde(flatten)]
    program: Point<Program>,
    utilisation_percent: u32,
}

/// The study.
pub struct Optimisations;

impl Study for Optimisations {
    const NAME: &str = "durable optimisations";
    const ABOUT: &str = "What each optimisation gives: four programs with all of them, and without one";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] = &[
        ("dir", "/dev/shm"),
        ("seconds", "3"),
        ("warmup", "0.75"),
        ("count", "300K"),
        ("entries", "200K"),
        ("utilisation", "50"),
    ];
    const UNUSED: &[&str] = &["ram", "data"];
    const NEEDS_DISK: bool = false;
    const TABLES: &[&Table] = &[&TABLE];
    type Options = OptimisationsOptions;
    type Task = Task<Without, At>;

    fn run(session: &mut Session, options: &OptimisationsOptions, _: u64) -> Result<()> {
        let directory = Directory::create(session)?;
        let setup = options.programs.setup(session, &directory)?;
        let chosen = each_once(&options.without).into_iter().filter(|&without| without != Without::Nothing);
        let peers: Vec<Without> = [Without::Nothing].into_iter().chain(chosen).collect();
        let percents = sorted(&options.programs.load.utilisation);
        let at = |program: Point<Program>| {
            let at = |&utilisation_percent| At { program: program.clone(), utilisation_percent };
            percents.iter().map(at).collect::<Vec<_>>()
        };
        let points = options.programs.points().into_iter().flat_map(at).collect();
        directory.turns(session, &peers, points, &setup)
    }

    fn work(task: Self::Task, _: &mut Parent) -> Result<Fields> {
        let Task { system: without, point: At { program, utilisation_percent }, run, setup } = task;
        let medium = program.medium.unwrap_or(Medium::Raw);
        let heap = heaps::durable(&setup, medium, utilisation_percent, without.tuning())?;
        run_program(&heap, &program, run, &setup, &format!("without {without}"))
    }
}
