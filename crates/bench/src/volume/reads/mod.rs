//! Reads of a mapped file that is larger than RAM.
//!
//! Every word says which one it is, and every word that is read is looked at. A random read is of one word on a page that is drawn, uniformly
//! or by Zipf (exponent 0.99, ranks scattered over the file); a scan reads all words in order.

mod task;

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::peer::{Peer, VolumeOptions};
use super::source::Source;
use crate::child::Parent;
use crate::error::Result;
use crate::payload::Payload;
use crate::peer::fio::Target;
use crate::study::{Column, Fields, Key, Session, Study, Table, key, median, range, ratio};
use task::ReadsTask;

const EXAMPLES: &str = "\
Examples:
  aquifer-bench volume reads --out results.jsonl
      8 times the RAM; uniform and Zipf reads by 1, 8 and 32 threads and a scan; medians of 5; about 20 minutes
  aquifer-bench volume reads --data 1G,4G --runs 3 --payload random,text
  aquifer-bench volume reads --ram 64M --data 256M --threads 1,8 --seconds 1 --warmup 1 --runs 1
      A first look in a minute

Needs root or delegated cgroups, and fio for the disk's own reads: direct reads of 4 KiB by as many threads, of 1 MiB with 4 on the way
beside the scan.";

const PEERS: [Peer; 4] = [Peer::Mmap, Peer::MmapRandom, Peer::Volume, Peer::Device];
/// How fio scans: as the probe's load for sequential reads.
const SCAN_BLOCK_BYTES: u64 = 1 << 20;
const SCAN_DEPTH: usize = 4;
const PAGE_BYTES: u64 = 4096;
/// Words of a page.
pub const PAGE_WORDS: u64 = PAGE_BYTES / 8;

/// Which words are read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Of a page that is drawn uniformly
    Uniform,
    /// Of a page that is drawn by Zipf's law
    Zipf,
    /// All in order
    Scan,
}

const CPU: Column = median("CPU us each", "cpu_ns_each").per(1e3).less();
const SYSTEM: Column = median("of it system", "system_ns_each").per(1e3);
const READ: Column = median("device bytes read each", "read_bytes_each").digits(0);
const MEMORY: Column = median("RSS + PTE MiB", "memory_bytes").mib();
const GROUP: Column = median("group MiB", "group_bytes").mib();

const KEYS: &[Key] = &[key("accesses", "access"), key("threads", "threads")];

const RANDOM: Table = Table {
    title: "Random reads of a mapped file: {data_bytes:size} in {ram_bytes:size} of RAM",
    keys: KEYS,
    peers: Peer::NAMES,
    columns: &[
        median("reads/s", "reads_per_s").digits(0).more(),
        range("least, most", "reads_per_s").digits(0),
        ratio("x mmap", "reads_per_s", Peer::OF_MMAP),
        ratio("x device", "reads_per_s", &["device (fio)"]),
        CPU,
        SYSTEM,
        READ,
        MEMORY,
        GROUP,
    ],
    note: super::NOTE,
};

const SCANS: Table = Table {
    title: "Scans of a mapped file: {data_bytes:size} in {ram_bytes:size} of RAM",
    keys: KEYS,
    peers: Peer::NAMES,
    columns: &[
        median("MiB/s", "scanned_per_s").mib().more(),
        range("least, most", "scanned_per_s").mib(),
        ratio("x mmap", "scanned_per_s", Peer::OF_MMAP),
        ratio("x device", "scanned_per_s", &["device (fio)"]),
        CPU,
        SYSTEM,
        READ,
        MEMORY,
        GROUP,
    ],
    note: super::NOTE,
};

/// Options of `volume reads`.
#[derive(Clone, Debug, Args)]
pub struct ReadsOptions {
    #[command(flatten)]
    volume: VolumeOptions,
    /// Threads that read randomly
    #[arg(long, value_delimiter = ',', default_value = "1,8,32", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Vec<u32>,
    /// Kinds of access [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    access: Vec<Access>,
}

#[derive(Clone, Serialize)]
struct Point {
    data_bytes: u64,
    ram_bytes: u64,
    access: Access,
    threads: u32,
}

impl ReadsOptions {
    fn points(&self, data_bytes: u64, ram_bytes: u64) -> Vec<Point> {
        let mut points = Vec::new();
        for access in crate::study::each_once(&self.access) {
            let threads = if access == Access::Scan { &[1][..] } else { &self.threads };
            points.extend(threads.iter().map(|&threads| Point { data_bytes, ram_bytes, access, threads }));
        }
        points
    }
}

/// The study.
pub struct Reads;

impl Study for Reads {
    const NAME: &str = "volume reads";
    const ABOUT: &str = "Random reads and scans of a mapped file, beside mmap and the disk itself";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] = &[("data", "2G"), ("seconds", "3"), ("warmup", "3")];
    const TABLES: &[&Table] = &[&RANDOM, &SCANS];
    type Options = ReadsOptions;
    type Task = ReadsTask;

    fn run(session: &mut Session, options: &ReadsOptions, data_bytes: u64) -> Result<()> {
        let payload = session.payload;
        let make = |offset: u64, bytes: &mut [u8]| {
            for (word, index) in bytes.chunks_exact_mut(8).zip(offset / 8..) {
                word.copy_from_slice(&word_at(payload, index).to_le_bytes());
            }
            Ok(())
        };
        let source = Source::write(session, &options.volume, data_bytes, make)?;
        let points = options.points(data_bytes, session.common.ram);
        session.turns(&PEERS, points, |session, cell, run| {
            let (warmup_s, seconds) = (session.common.warmup, session.common.seconds);
            let Point { access, threads, .. } = cell.point;
            if cell.peer == Peer::Device {
                source.forget_cached()?;
                session.settle()?;
                return of_device(&source, &cell.point, Duration::from_secs_f64(seconds));
            }
            source.child(session, cell.peer, |setup| ReadsTask {
                run,
                setup,
                access,
                threads,
                warmup_s,
                seconds,
            })
        })
    }

    fn work(task: ReadsTask, _: &mut Parent) -> Result<Fields> {
        task::work(&task)
    }
}

/// Figures of `reads_per_s` reads of a word; a scan reads each word once.
fn speed(access: Access, reads_per_s: f64) -> Fields {
    match access {
        Access::Scan => Fields::default().with("scanned_per_s", reads_per_s * 8.0),
        _ => Fields::default().with("reads_per_s", reads_per_s),
    }
}

/// What fio reads of the host's file, past the page cache.
fn of_device(source: &Source, point: &Point, time: Duration) -> Result<Fields> {
    let target = Target::existing(source.host(), point.data_bytes)?;
    let (reads, words) = match point.access {
        Access::Scan => (target.measure_scan(SCAN_BLOCK_BYTES, SCAN_DEPTH, time)?, SCAN_BLOCK_BYTES / 8),
        _ => (target.measure(PAGE_BYTES, point.threads as usize, time)?, 1),
    };
    Ok(speed(point.access, reads.ops_per_s * words as f64))
}

/// What word `index` of the file holds.
#[inline]
pub fn word_at(payload: Payload, index: u64) -> u64 {
    payload.word(index / PAGE_WORDS, index % PAGE_WORDS)
}
