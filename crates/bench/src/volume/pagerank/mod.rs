//! PageRank over a graph whose edges and rank vectors are one mapped file of several times the RAM.
//!
//! The graph is R-MAT (Chakrabarti, Zhan and Faloutsos 2004) with the probabilities of Graph500, its vertices renumbered at random; edges stand
//! by destination. Sums are made in a fixed order, so the vectors of all peers are equal to the last bit, whatever the number of threads.

pub(crate) mod graph;
mod layout;
pub(crate) mod ranks;
pub mod sample;
pub mod task;

use std::collections::BTreeSet;

use clap::Args;

use super::options::{CommonOptions, bytes_of};
use super::peer::Peer;
use super::source::Source;
use super::study::{Study, shuffled};
use super::task::VolumeTask;
use crate::error::{Error, Result};
use crate::sample::Record;
use graph::Graph;
pub use layout::Layout;
use task::PagerankTask;

const EXAMPLES: &str = "\
Examples:
  aquifer-bench volume pagerank --out results.jsonl
      A graph of 8 times the RAM, 3 iterations by 8 threads; mmap with three kinds of advice and the volume; medians of 5; up to 50 minutes
  aquifer-bench volume pagerank --ram 64M --times 4 --iterations 1 --runs 1
      A first look in a minute

The graph is made in memory, which takes --times x --ram besides. Needs root or delegated cgroups. A volume takes no advice.";

const PEERS: [Peer; 4] = [Peer::Mmap, Peer::MmapRandom, Peer::MmapSequential, Peer::Volume];

/// Options of `volume pagerank`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PagerankOptions {
    #[command(flatten)]
    common: CommonOptions,
    /// Bytes of graph and vectors, in multiples of --ram
    #[arg(long, default_value_t = 8.0)]
    times: f64,
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

/// Measures everything and prints the table.
///
/// # Errors
/// [`Error::Input`], [`Error::Io`]; [`Error::Unavailable`] without room or control groups; [`Error::WrongData`] if two peers differ; the first
/// error of a run.
pub fn run(options: &PagerankOptions) -> Result<()> {
    if !(0.1..86_400.0).contains(&options.limit) {
        return Err(Error::Input("--limit is from 0.1 to a day".to_owned()));
    }
    let layout = Layout::of_bytes(bytes_of(options.common.ram, options.times)?)?;
    let mut study = Study::open(&options.common, 2 + u64::from(options.common.runs) * PEERS.len() as u64)?;
    let graph = Graph::new(layout, options.seed, &mut |percent| {
        study.progress.doing(format!("making the graph: {percent} %"));
    });
    study.progress.step();
    let make = |offset: u64, bytes: &mut [u8]| {
        for (word, index) in bytes.chunks_exact_mut(8).zip(offset as usize / 8..) {
            word.copy_from_slice(&graph.word(index).to_le_bytes());
        }
        Ok(())
    };
    let data_bytes = layout.bytes();
    let source = Source::write(&options.common, data_bytes, make, |done| {
        study.progress.doing(format!("writing: {} %", done * 100 / data_bytes));
    })?;
    drop(graph);
    study.progress.step();
    for run in 1..=options.common.runs {
        for peer in shuffled(&PEERS, run) {
            let setup = source.setup(peer, &options.common)?;
            let task = PagerankTask {
                run,
                setup: setup.clone(),
                layout,
                iterations: options.iterations,
                threads: options.threads,
                seed: options.seed,
                limit_s: options.limit,
            };
            study.child(&format!("{peer}, run {run}"), &source, &setup, VolumeTask::Pagerank(task))?;
            check_equal(study.records())?;
        }
    }
    study.finish()
}

/// All vectors are one.
fn check_equal(records: &[Record]) -> Result<()> {
    let digests = records.iter().filter_map(|record| match record {
        Record::VolumePagerank(sample) => Some((sample.digest?, sample.run.setup.peer)),
        _ => None,
    });
    let digests: BTreeSet<_> = digests.collect();
    match (digests.first(), digests.last()) {
        (Some((first, one)), Some((last, other))) if first != last => Err(Error::WrongData {
            peer: other.to_string(),
            what: format!("its ranks have the digest {last:x}, those of {one} {first:x}"),
        }),
        _ => Ok(()),
    }
}
