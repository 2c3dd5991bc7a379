//! SQLite with its database in a file of the host's file system, and in a file of a volume (`libaquifer_sqlite.so`), under three loads.
//!
//! SQLite is the distribution's, with its own defaults but for the journal: pages of 4 KiB, a buffer of 2 MB, commits that wait. What stands behind the
//! buffer is the kernel's page cache on one side and the volume's RAM on the other, both within the same control group.

mod place;
mod task;

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::peer::{VolumeOptions, volume_ram_bytes};
use crate::child::Parent;
use crate::error::{Error, Result};
use crate::sqlite::{Journal, Kind};
use crate::study::{Fields, Session, Study, Table, each_once, key, median, range, ratio, text};
use place::{Place, Places, find_library};
use task::{FillTask, OltpTask, Task};

const EXAMPLES: &str = "\
Examples:
  aquifer-bench volume oltp --library build/lib/libaquifer_sqlite.so --out results.jsonl
      TPC-B, TATP and TPC-C with both journals, 512 MiB of data, medians of 5; about 15 minutes
  aquifer-bench volume oltp --load tatp --journal wal --data 64M --ram 64M --seconds 1 --warmup 1 --runs 1
      A first look in a minute

tpc-b, tatp and tpc-c are like TPC-B, TATP and TPC-C, not them: one client, no terminals, no waiting. Every run works on a fresh copy of the
filled database. Needs libsqlite3.so.0, root or delegated cgroups, and `make lib` for the volume's side, which is skipped without it.";

const TABLE: Table = Table {
    title: "SQLite: {data_bytes:size} in {ram_bytes:size} of RAM",
    keys: &[key("load", "load"), key("journal", "journal")],
    peers: &["file system", "volume"],
    columns: &[
        median("transactions/s", "ops_per_s").digits(0).more(),
        range("least, most", "ops_per_s").digits(0),
        ratio("x file system", "ops_per_s", &["file system"]),
        median("p50 ms", "latency.p50_ns").per(1e6),
        median("p99 ms", "latency.p99_ns").per(1e6).less(),
        median("CPU us each", "cpu_ns_each").per(1e3).digits(0).less(),
        median("written KiB each, process", "written_bytes_each").per(1024.0).digits(1),
        median("written KiB each, disk", "disk_written_bytes_each").per(1024.0).digits(1),
        text("SQLite", "sqlite"),
    ],
    note: "RAM: limit of the control group, with SQLite's own buffer of 2 MB, and the page cache or the volume's RAM. Written by the process: the kernel \
        counts a large folio of its page cache as a whole when a part of it is written. By the disk: in the same seconds, with the file system's journal \
        and whatever others write.",
};

/// Options of `volume oltp`.
#[derive(Clone, Debug, Args)]
pub struct OltpOptions {
    #[command(flatten)]
    volume: VolumeOptions,
    /// What the transactions do [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    load: Vec<Kind>,
    /// How transactions survive a crash [default: both]
    #[arg(long, value_enum, value_delimiter = ',')]
    journal: Vec<Journal>,
    /// The library with the volume's VFS [default: beside this program, in build/lib, in /usr/local/lib]
    #[arg(long)]
    library: Option<PathBuf>,
}

#[derive(Clone, Serialize)]
struct Point {
    data_bytes: u64,
    ram_bytes: u64,
    load: Kind,
    journal: Journal,
}

/// The study.
pub struct Oltp;

impl Study for Oltp {
    const NAME: &str = "volume oltp";
    const ABOUT: &str =
        "SQLite with its database on the host's file system and on a volume: TPC-B, TATP, TPC-C";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] = &[("data", "512M"), ("seconds", "3"), ("warmup", "3")];
    const UNUSED: &[&str] = &["payload"];
    const TABLES: &[&Table] = &[&TABLE];
    type Options = OltpOptions;
    type Task = Task;

    fn run(session: &mut Session, options: &OltpOptions, data_bytes: u64) -> Result<()> {
        session.try_group()?;
        let ram_bytes = session.common.ram;
        let library = find_library(options.library.as_deref());
        let places =
            if library.is_some() { &[Place::FileSystem, Place::Volume][..] } else { &[Place::FileSystem] };
        if library.is_none() {
            let reason = "libaquifer_sqlite.so is not there; make lib, or give --library".to_owned();
            session.keep("volume", &Fields::default(), 1, Err(Error::Unavailable(reason)))?;
        }
        let volume_ram_bytes = volume_ram_bytes(ram_bytes, options.volume.reserve, 0);
        let volume_ram_bytes = volume_ram_bytes
            .ok_or_else(|| Error::Input("--ram leaves nothing for a volume beside --reserve".to_owned()))?;
        for load in each_once(&options.load) {
            let databases =
                Places::create(&session.common.dir, options.volume.fill, data_bytes, library.clone())?;
            for &place in places {
                session.progress.doing(format!("filling {load} on the {place}"));
                let database = databases.filled(place);
                session.child(
                    &place.to_string(),
                    &Task::Fill(FillTask { load, data_bytes, database }),
                    None,
                )?;
            }
            let journals = each_once(&options.journal).into_iter();
            let points = journals.map(|journal| Point { data_bytes, ram_bytes, load, journal });
            session.turns(places, points, |session, cell, run| {
                let task = OltpTask {
                    load,
                    journal: cell.point.journal,
                    place: cell.peer,
                    run,
                    database: databases.restore(cell.peer)?,
                    data_bytes,
                    volume_ram_bytes: (cell.peer == Place::Volume).then_some(volume_ram_bytes),
                    warmup_s: session.common.warmup,
                    seconds: session.common.seconds,
                };
                session.child(&cell.peer.to_string(), &Task::Measure(task), Some(ram_bytes))
            })?;
        }
        Ok(())
    }

    fn work(task: Task, parent: &mut Parent) -> Result<Fields> {
        match task {
            Task::Fill(task) => task::fill(&task, parent).map(|()| Fields::default()),
            Task::Measure(task) => task::work(&task),
        }
    }
}
