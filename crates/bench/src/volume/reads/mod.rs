//! Reads of a mapped file that is larger than RAM.
//!
//! Every word says which one it is, and every word that is read is looked at. A random read is of one word on a page that is drawn, uniformly
//! or by Zipf (exponent 0.99, ranks scattered over the file); a scan reads all words in order.

pub mod sample;
pub mod task;

use std::time::Duration;

use clap::Args;

use super::options::{CommonOptions, TimeOptions, bytes_of};
use super::peer::Peer;
use super::source::Source;
use super::study::{Run, Study, shuffled};
use super::task::VolumeTask;
use crate::error::Result;
use crate::peer::fio::{self, Target};
use crate::rng::mix;
use crate::sample::Record;
use sample::{Access, Cell, Reads};
use task::ReadsTask;

const EXAMPLES: &str = "\
Examples:
  aquifer-bench volume reads --out results.jsonl
      8 times the RAM; uniform and Zipf reads by 1, 8 and 32 threads and a scan; medians of 5; about 20 minutes
  aquifer-bench volume reads --times 4,16 --runs 3
  aquifer-bench volume reads --ram 64M --times 4 --threads 1,8 --seconds 1 --warmup 1 --runs 1
      A first look in a minute

Needs root or delegated cgroups, and fio for the disk's own reads: direct reads of 4 KiB by as many threads, of 1 MiB with 4 on the way
beside the scan.";

const PEERS: [Peer; 4] = [Peer::Mmap, Peer::MmapRandom, Peer::Volume, Peer::Device];
/// How fio scans: as the probe's load for sequential reads.
const SCAN_BLOCK_BYTES: u64 = 1 << 20;
const SCAN_DEPTH: usize = 4;
const PAGE_BYTES: u64 = 4096;

/// Options of `volume reads`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReadsOptions {
    #[command(flatten)]
    common: CommonOptions,
    #[command(flatten)]
    time: TimeOptions,
    /// Bytes of the file, in multiples of --ram
    #[arg(long, value_delimiter = ',', default_value = "8")]
    times: Vec<f64>,
    /// Threads that read randomly
    #[arg(long, value_delimiter = ',', default_value = "1,8,32", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Vec<u32>,
    /// Kinds of access [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    access: Vec<Access>,
}

impl ReadsOptions {
    fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for access in crate::durable::options::each_once(&self.access) {
            match access {
                Access::Scan => cells.push(Cell { access, threads: 1 }),
                _ => cells.extend(self.threads.iter().map(|&threads| Cell { access, threads })),
            }
        }
        cells.sort_unstable();
        cells.dedup();
        cells
    }
}

/// What word `index` of the file holds.
#[inline]
pub fn word_at(index: u64) -> u64 {
    mix(index ^ 0x005E_ED0F_4EAD)
}

/// Measures everything and prints the tables.
///
/// # Errors
/// [`crate::Error::Input`], [`crate::Error::Io`]; [`crate::Error::Unavailable`] without room or control groups; the first error of a cell.
pub fn run(options: &ReadsOptions) -> Result<()> {
    options.time.check()?;
    let cells: Vec<(Cell, Peer)> =
        options.cells().into_iter().flat_map(|cell| PEERS.map(|peer| (cell, peer))).collect();
    let steps = options.times.len() as u64 * (1 + u64::from(options.common.runs) * cells.len() as u64);
    let mut study = Study::open(&options.common, steps)?;
    for &times in &options.times {
        let data_bytes = bytes_of(options.common.ram, times)?;
        study.progress.doing("writing the file into both places");
        let source = Source::write(&options.common, data_bytes, make_words, |done| {
            study.progress.doing(format!("writing: {} %", done * 100 / data_bytes));
        })?;
        study.progress.step();
        for run in 1..=options.common.runs {
            for (cell, peer) in shuffled(&cells, run) {
                measure(&mut study, options, &source, cell, peer, run)?;
            }
        }
    }
    study.finish()
}

fn make_words(offset: u64, bytes: &mut [u8]) -> Result<()> {
    for (word, index) in bytes.chunks_exact_mut(8).zip(offset / 8..) {
        word.copy_from_slice(&word_at(index).to_le_bytes());
    }
    Ok(())
}

fn measure(
    study: &mut Study,
    options: &ReadsOptions,
    source: &Source,
    cell: Cell,
    peer: Peer,
    run: u32,
) -> Result<()> {
    let setup = source.setup(peer, &options.common)?;
    let name = format!("{peer}, {cell}, run {run}");
    let run = Run { run, setup: setup.clone(), context: study.context.clone() };
    if peer != Peer::Device {
        let (warmup_s, seconds) = (options.time.warmup, options.time.seconds);
        let task = ReadsTask { run: run.run, setup: setup.clone(), cell, warmup_s, seconds };
        return study.child(&name, source, &setup, VolumeTask::Reads(task));
    }
    study.prepare(&name, source)?;
    match of_device(source, cell, run, Duration::from_secs_f64(options.time.seconds)) {
        Ok(sample) => study.keep(Record::VolumeReads(Box::new(sample)))?,
        Err(error) => study.leave_out(&name, error)?,
    }
    study.progress.step();
    Ok(())
}

/// What fio reads of the host's file, past the page cache.
fn of_device(source: &Source, cell: Cell, run: Run, time: Duration) -> Result<Reads> {
    let target = Target::existing(source.host(), run.setup.data_bytes)?;
    let (reads, words) = match cell.access {
        Access::Scan => (target.measure_scan(SCAN_BLOCK_BYTES, SCAN_DEPTH, time)?, SCAN_BLOCK_BYTES / 8),
        _ => (target.measure(PAGE_BYTES, cell.threads as usize, time)?, 1),
    };
    Ok(Reads {
        cell,
        ops: reads.ops * words,
        ops_per_s: reads.ops_per_s * words as f64,
        warmup_s: fio::RAMP_S,
        cost: None,
        run,
    })
}
