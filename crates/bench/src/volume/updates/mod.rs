//! Small updates at random places of a mapped file, by one thread, with a sync after every so many.

pub mod sample;
pub mod task;

use clap::Args;

use super::options::{CommonOptions, TimeOptions, bytes_of};
use super::peer::Peer;
use super::source::Source;
use super::study::{Study, shuffled};
use super::task::VolumeTask;
use crate::error::{Error, Result};
use crate::rng::Rng;
use task::UpdatesTask;

const EXAMPLES: &str = "\
Examples:
  aquifer-bench volume updates --out results.jsonl
      Updates of 64 bytes, a sync after every 1, 100 and 10000; files of half, all and four times the RAM; medians of 5;
      about 20 minutes
  aquifer-bench volume updates --ram 64M --times 0.5 --every 100 --seconds 1 --warmup 1 --runs 1
      A first look in a minute

A sync is msync(MS_SYNC) of the whole mapping, or the volume's sync. Bytes written are counted twice: those of the process, where a page of
the page cache counts once each time that it becomes dirty, and those of the disk, where the file system's journal is included, and what
others write. Needs root or delegated cgroups.";

const PEERS: [Peer; 3] = [Peer::Mmap, Peer::MmapRandom, Peer::Volume];

/// Options of `volume updates`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct UpdatesOptions {
    #[command(flatten)]
    common: CommonOptions,
    #[command(flatten)]
    time: TimeOptions,
    /// Bytes of the file, in multiples of --ram
    #[arg(long, value_delimiter = ',', default_value = "0.5,1,4")]
    times: Vec<f64>,
    /// Updates between two syncs
    #[arg(long, value_delimiter = ',', default_value = "1,100,10000", value_parser = clap::value_parser!(u64).range(1..))]
    every: Vec<u64>,
    /// Bytes of an update, a multiple of 8 that divides 4096
    #[arg(long, default_value_t = 64)]
    bytes: u64,
}

/// Measures everything and prints the tables.
///
/// # Errors
/// [`Error::Input`], [`Error::Io`]; [`Error::Unavailable`] without room or control groups; the first error of a cell.
pub fn run(options: &UpdatesOptions) -> Result<()> {
    options.time.check()?;
    if options.bytes < 8 || !options.bytes.is_multiple_of(8) || !4096u64.is_multiple_of(options.bytes) {
        return Err(Error::Input(format!(
            "--bytes {} is not a multiple of 8 that divides 4096",
            options.bytes
        )));
    }
    let cells: Vec<(u64, Peer)> =
        options.every.iter().flat_map(|&every| PEERS.map(|peer| (every, peer))).collect();
    let steps = options.times.len() as u64 * (1 + u64::from(options.common.runs) * cells.len() as u64);
    let mut study = Study::open(&options.common, steps)?;
    for &times in &options.times {
        let data_bytes = bytes_of(options.common.ram, times)?;
        let mut rng = Rng::new(data_bytes);
        let make = |_, bytes: &mut [u8]| {
            bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|word| *word = rng.next().to_ne_bytes());
            Ok(())
        };
        let source = Source::write(&options.common, data_bytes, make, |done| {
            study.progress.doing(format!("writing: {} %", done * 100 / data_bytes));
        })?;
        study.progress.step();
        for run in 1..=options.common.runs {
            for (every, peer) in shuffled(&cells, run) {
                let setup = source.setup(peer, &options.common)?;
                let task = UpdatesTask {
                    run,
                    setup: setup.clone(),
                    every,
                    update_bytes: options.bytes,
                    warmup_s: options.time.warmup,
                    seconds: options.time.seconds,
                };
                let name = format!("{peer}, {times} x RAM, a sync every {every}, run {run}");
                study.child(&name, &source, &setup, VolumeTask::Updates(task))?;
            }
        }
    }
    study.finish()
}
