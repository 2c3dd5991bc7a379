//! Small updates at random places of a mapped file, by one thread, with a sync after a number of them.

mod task;

use clap::Args;
use serde::Serialize;

use super::peer::{Peer, VolumeOptions};
use super::source::Source;
use crate::child::Parent;
use crate::error::{Error, Result};
use crate::rng::mix;
use crate::study::{Fields, Session, Study, Table, key, median, range, ratio};
use task::UpdatesTask;

const EXAMPLES: &str = "\
Examples:
  aquifer-bench volume updates --out results.jsonl
      Updates of 64 bytes, a sync after every 1, 100 and 10000; files of half, all and four times the RAM; medians of 5;
      about 20 minutes
  aquifer-bench volume updates --ram 64M --data 32M --every 100 --seconds 1 --warmup 1 --runs 1
      A first look in a minute

A sync is msync(MS_SYNC) of the whole mapping, or the volume's sync. Bytes written are counted twice: those of the process, where a page of
the page cache counts once each time that it becomes dirty, and those of the disk, where the file system's journal is included, and what
others write. Needs root or delegated cgroups.";

const PEERS: [Peer; 3] = [Peer::Mmap, Peer::MmapRandom, Peer::Volume];

const TABLE: Table = Table {
    title: "Updates of a mapped file: {data_bytes:size} in {ram_bytes:size} of RAM",
    keys: &[key("bytes", "update_bytes"), key("a sync every", "every")],
    peers: Peer::NAMES,
    columns: &[
        median("updates/s", "ops_per_s").digits(0).more(),
        range("least, most", "ops_per_s").digits(0),
        ratio("x mmap", "ops_per_s", Peer::OF_MMAP),
        median("ms a sync", "sync_ms"),
        median("CPU us each", "cpu_ns_each").per(1e3).digits(1).less(),
        median("bytes written each, process", "written_bytes_each").digits(0).less(),
        ratio("of mmap's least", "written_bytes_each", Peer::OF_MMAP).less(),
        median("bytes written each, disk", "disk_written_bytes_each").digits(0),
    ],
    note: super::NOTE_WRITTEN,
};

/// Options of `volume updates`.
#[derive(Clone, Debug, Args)]
pub struct UpdatesOptions {
    #[command(flatten)]
    volume: VolumeOptions,
    /// Updates between two syncs
    #[arg(long, value_delimiter = ',', default_value = "1,100,10000", value_parser = clap::value_parser!(u64).range(1..))]
    every: Vec<u64>,
    /// Bytes of an update, a multiple of 8 that divides 4096
    #[arg(long, default_value_t = 64)]
    bytes: u64,
}

#[derive(Clone, Serialize)]
struct Point {
    data_bytes: u64,
    ram_bytes: u64,
    update_bytes: u64,
    every: u64,
}

/// The study.
pub struct Updates;

impl Study for Updates {
    const NAME: &str = "volume updates";
    const ABOUT: &str =
        "Small random updates with a sync every so often: updates per second, and bytes written for each";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] = &[("data", "128M,256M,1G"), ("seconds", "3"), ("warmup", "3")];
    const TABLES: &[&Table] = &[&TABLE];
    type Options = UpdatesOptions;
    type Task = UpdatesTask;

    fn run(session: &mut Session, options: &UpdatesOptions, data_bytes: u64) -> Result<()> {
        let update_bytes = options.bytes;
        if update_bytes < 8 || !update_bytes.is_multiple_of(8) || !4096u64.is_multiple_of(update_bytes) {
            let what = format!("--bytes {update_bytes} is not a multiple of 8 that divides 4096");
            return Err(Error::Input(what));
        }
        let payload = session.payload;
        let make = |offset: u64, bytes: &mut [u8]| {
            payload.fill(mix(offset), bytes);
            Ok(())
        };
        let source = Source::write(session, &options.volume, data_bytes, make)?;
        let ram_bytes = session.common.ram;
        let points = options.every.iter().map(|&every| Point { data_bytes, ram_bytes, update_bytes, every });
        session.turns(&PEERS, points, |session, cell, run| {
            let (warmup_s, seconds, every) =
                (session.common.warmup, session.common.seconds, cell.point.every);
            source.child(session, cell.peer, |setup| UpdatesTask {
                run,
                setup,
                every,
                update_bytes,
                warmup_s,
                seconds,
            })
        })
    }

    fn work(task: UpdatesTask, _: &mut Parent) -> Result<Fields> {
        task::work(&task)
    }
}
