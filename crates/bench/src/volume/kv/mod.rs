//! A key-value store in one mapped file under the loads of YCSB (Cooper et al., SoCC 2010).
//!
//! The store is a hash table of fixed slots of 1 KiB, and the same code for everybody. It has no order, so a scan of workload E reads the records
//! that stand behind the first one's slot. Nothing is synced while time is measured; the sync after it is measured on its own.

mod key;
mod store;
mod task;
mod workload;

use clap::Args;
use serde::Serialize;

use super::peer::{Peer, VolumeOptions};
use super::source::Source;
use crate::child::Parent;
use crate::error::{Error, Result};
use crate::study::{Fields, Session, Study, Table, key, median, range, ratio};
use store::{BUCKET_BYTES, Shape, image};
use task::KvTask;
use workload::Workload;

const EXAMPLES: &str = "\
Examples:
  aquifer-bench volume kv --out results.jsonl
      4 times the RAM, workloads A to F with 8 threads, medians of 5; about 15 minutes
  aquifer-bench volume kv --ram 64M --data 128M --workload a,c --seconds 1 --warmup 1 --runs 1
      A first look in a minute

A: half reads, half updates of one field; B: 95 % reads; C: reads; D: 95 % reads of the latest, 5 % inserts; E: 95 % scans of 1 to 100
records, 5 % inserts; F: half reads, half reads that are followed by an update. Records have 10 fields of 100 bytes. Needs root or delegated
cgroups.";

const PEERS: [Peer; 3] = [Peer::Mmap, Peer::MmapRandom, Peer::Volume];

const TABLE: Table = Table {
    title: "YCSB on a mapped file: {data_bytes:size} in {ram_bytes:size} of RAM",
    keys: &[key("workload", "workload"), key("threads", "threads")],
    peers: Peer::NAMES,
    columns: &[
        median("ops/s", "ops_per_s").digits(0).more(),
        range("least, most", "ops_per_s").digits(0),
        ratio("x mmap", "ops_per_s", Peer::OF_MMAP),
        median("p50 us", "latency.p50_ns").per(1e3).digits(1),
        median("p99 us", "latency.p99_ns").per(1e3).digits(1).less(),
        median("CPU us each", "cpu_ns_each").per(1e3).digits(1).less(),
        median("bytes written each, with the sync after", "written_bytes_each").digits(0).less(),
    ],
    note: super::NOTE,
};

/// Options of `volume kv`.
#[derive(Clone, Debug, Args)]
pub struct KvOptions {
    #[command(flatten)]
    volume: VolumeOptions,
    /// Workloads [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    workload: Vec<Workload>,
    /// Threads
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
}

#[derive(Clone, Serialize)]
struct Point {
    data_bytes: u64,
    ram_bytes: u64,
    workload: Workload,
    threads: u32,
}

/// The study.
pub struct Kv;

impl Study for Kv {
    const NAME: &str = "volume kv";
    const ABOUT: &str = "A key-value store in a mapped file under YCSB A to F";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] = &[("seconds", "3"), ("warmup", "3")];
    const TABLES: &[&Table] = &[&TABLE];
    type Options = KvOptions;
    type Task = KvTask;

    fn run(session: &mut Session, options: &KvOptions, data_bytes: u64) -> Result<()> {
        let shape = Shape { buckets: (data_bytes / BUCKET_BYTES).saturating_sub(1) };
        if shape.buckets == 0 {
            return Err(Error::Input("--data leaves no room for records".to_owned()));
        }
        let source = Source::write(session, &options.volume, shape.bytes(), image(shape, session.payload))?;
        let (ram_bytes, threads) = (session.common.ram, options.threads);
        let workloads = crate::study::each_once(&options.workload);
        let points = workloads.into_iter().map(|workload| Point { data_bytes, ram_bytes, workload, threads });
        session.turns(&PEERS, points, |session, cell, run| {
            let (warmup_s, seconds) = (session.common.warmup, session.common.seconds);
            let workload = cell.point.workload;
            source.child(session, cell.peer, |setup| KvTask {
                run,
                setup,
                shape,
                workload,
                threads,
                warmup_s,
                seconds,
            })
        })
    }

    fn work(task: KvTask, _: &mut Parent) -> Result<Fields> {
        task::work(&task)
    }
}
