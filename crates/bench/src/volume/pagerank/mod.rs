//! PageRank over a graph whose edges and rank vectors are one mapped file of several times the RAM.
//!
//! The graph is R-MAT (Chakrabarti, Zhan and Faloutsos 2004) with the probabilities of Graph500, its vertices renumbered at random; edges stand
//! by destination. Sums are made in a fixed order, so the vectors of all peers are equal to the last bit, whatever the number of threads.

pub(crate) mod graph;
mod layout;
pub(crate) mod ranks;
mod task;

use clap::Args;
use serde::Serialize;

use super::peer::{Peer, VolumeOptions};
use super::source::Source;
use crate::child::Parent;
use crate::error::{Error, Result};
use crate::study::{Fields, Session, Study, Table, key, median, ratio};
use graph::Graph;
pub use layout::Layout;
use task::PagerankTask;

const EXAMPLES: &str = "\
Examples:
  aquifer-bench volume pagerank --out results.jsonl
      A graph of 8 times the RAM, 3 iterations by 8 threads; mmap with three kinds of advice and the volume; medians of 5; up to 50 minutes
  aquifer-bench volume pagerank --ram 64M --data 256M --iterations 1 --runs 1
      A first look in a minute

The graph is made in memory, which takes --data besides. Needs root or delegated cgroups. A volume takes no advice.";

const PEERS: [Peer; 4] = [Peer::Mmap, Peer::MmapRandom, Peer::MmapSequential, Peer::Volume];

const TABLE: Table = Table {
    title: "PageRank on a mapped file: {data_bytes:size} in {ram_bytes:size} of RAM",
    keys: &[
        key("vertices", "vertices"),
        key("edges", "edges"),
        key("iterations", "iterations"),
        key("threads", "threads"),
    ],
    peers: Peer::NAMES,
    columns: &[
        median("iterations done", "iterations_done"),
        median("s an iteration", "iteration_s").less(),
        median("M edges/s", "ops_per_s").per(1e6).digits(1).more(),
        ratio("x mmap", "ops_per_s", Peer::OF_MMAP),
        median("CPU s an iteration", "iteration_cpu_s").less(),
        median("MiB read an iteration", "iteration_read_bytes").mib(),
        median("MiB written an iteration", "iteration_written_bytes").mib(),
    ],
    note: super::NOTE_RANKS,
};

/// Options of `volume pagerank`.
#[derive(Clone, Debug, Args)]
pub struct PagerankOptions {
    #[command(flatten)]
    volume: VolumeOptions,
    /// Iterations
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    iterations: u32,
    /// Threads
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// Seconds after which a run is stopped in the middle of an iteration, and counts with what it did
    #[arg(long, default_value_t = 120.0)]
    limit: f64,
    /// Decides the graph
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Serialize)]
struct Point {
    data_bytes: u64,
    ram_bytes: u64,
    vertices: u64,
    edges: u64,
    seed: u64,
    iterations: u32,
    threads: u32,
}

/// The study.
pub struct Pagerank;

impl Study for Pagerank {
    const NAME: &str = "volume pagerank";
    const ABOUT: &str =
        "PageRank over a graph of several times the RAM, with the rank vectors in the mapped file";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] = &[("data", "2G")];
    const UNUSED: &[&str] = &["seconds", "warmup", "payload"];
    const TABLES: &[&Table] = &[&TABLE];
    type Options = PagerankOptions;
    type Task = PagerankTask;

    fn run(session: &mut Session, options: &PagerankOptions, data_bytes: u64) -> Result<()> {
        let &PagerankOptions { iterations, threads, limit: limit_s, seed, .. } = options;
        if !(0.1..86_400.0).contains(&limit_s) {
            return Err(Error::Input("--limit is from 0.1 to a day".to_owned()));
        }
        let layout = Layout::of_bytes(data_bytes)?;
        let graph = Graph::new(layout, seed, &mut |percent| {
            session.progress.doing(format!("making the graph: {percent} %"));
        });
        let make = |offset: u64, bytes: &mut [u8]| {
            for (word, index) in bytes.chunks_exact_mut(8).zip(offset as usize / 8..) {
                word.copy_from_slice(&graph.word(index).to_le_bytes());
            }
            Ok(())
        };
        let source = Source::write(session, &options.volume, layout.bytes(), make)?;
        drop(graph);
        let Layout { scale, edges } = layout;
        let (ram_bytes, vertices) = (session.common.ram, 1 << scale);
        let point = Point { data_bytes, ram_bytes, vertices, edges, seed, iterations, threads };
        session.turns(&PEERS, [point], |session, cell, _| {
            source.child(session, cell.peer, |setup| PagerankTask {
                setup,
                layout,
                iterations,
                threads,
                limit_s,
            })
        })?;
        session.agree("digest")
    }

    fn work(task: PagerankTask, parent: &mut Parent) -> Result<Fields> {
        task::work(&task, parent)
    }
}
