//! A key-value store in one mapped file under the loads of YCSB (Cooper et al., SoCC 2010).
//!
//! The store is a hash table of fixed slots of 1 KiB, and the same code for everybody. It has no order, so a scan of workload E reads the records
//! that stand behind the first one's slot. Nothing is synced while time is measured; the sync after it is measured on its own.

mod key;
pub mod sample;
mod store;
pub mod task;
mod workload;

use clap::Args;

use super::options::{CommonOptions, TimeOptions, bytes_of};
use super::peer::Peer;
use super::source::Source;
use super::study::{Study, shuffled};
use super::task::VolumeTask;
use crate::error::{Error, Result};
use store::{BUCKET_BYTES, Shape, image};
use task::KvTask;
pub use workload::Workload;

const EXAMPLES: &str = "\
Examples:
  aquifer-bench volume kv --out results.jsonl
      4 times the RAM, workloads A to F with 8 threads, medians of 5; about 15 minutes
  aquifer-bench volume kv --ram 64M --times 2 --workload a,c --seconds 1 --warmup 1 --runs 1
      A first look in a minute

A: half reads, half updates of one field; B: 95 % reads; C: reads; D: 95 % reads of the latest, 5 % inserts; E: 95 % scans of 1 to 100
records, 5 % inserts; F: half reads, half reads that are followed by an update. Records have 10 fields of 100 bytes. Needs root or delegated
cgroups.";

const PEERS: [Peer; 3] = [Peer::Mmap, Peer::MmapRandom, Peer::Volume];

/// Options of `volume kv`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct KvOptions {
    #[command(flatten)]
    common: CommonOptions,
    #[command(flatten)]
    time: TimeOptions,
    /// Bytes of the store, in multiples of --ram
    #[arg(long, default_value_t = 4.0)]
    times: f64,
    /// Workloads [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    workload: Vec<Workload>,
    /// Threads
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
}

/// Measures everything and prints the tables.
///
/// # Errors
/// [`Error::Input`], [`Error::Io`]; [`Error::Unavailable`] without room or control groups; the first error of a run.
pub fn run(options: &KvOptions) -> Result<()> {
    options.time.check()?;
    let bytes = bytes_of(options.common.ram, options.times)?;
    let shape = Shape { buckets: (bytes / BUCKET_BYTES).saturating_sub(1) };
    if shape.buckets == 0 {
        return Err(Error::Input("--ram and --times leave no room for records".to_owned()));
    }
    let workloads = crate::durable::options::each_once(&options.workload);
    let cells: Vec<(Workload, Peer)> =
        workloads.iter().flat_map(|&workload| PEERS.map(|peer| (workload, peer))).collect();
    let steps = 1 + u64::from(options.common.runs) * cells.len() as u64;
    let mut study = Study::open(&options.common, steps)?;
    let data_bytes = shape.bytes();
    let source = Source::write(&options.common, data_bytes, image(shape), |done| {
        study.progress.doing(format!("writing the records: {} %", done * 100 / data_bytes));
    })?;
    study.progress.step();
    for run in 1..=options.common.runs {
        for (workload, peer) in shuffled(&cells, run) {
            let setup = source.setup(peer, &options.common)?;
            let task = KvTask {
                run,
                setup: setup.clone(),
                shape,
                workload,
                threads: options.threads,
                warmup_s: options.time.warmup,
                seconds: options.time.seconds,
            };
            let name = format!("{peer}, workload {workload}, run {run}");
            study.child(&name, &source, &setup, VolumeTask::Kv(task))?;
        }
    }
    study.finish()
}
