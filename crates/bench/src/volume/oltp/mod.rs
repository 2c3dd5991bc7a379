//! SQLite with its database in a file of the host's file system, and in a file of a volume (`libaquifer_sqlite.so`), under three loads.
//!
//! SQLite is the distribution's, with its own defaults but for the journal: pages of 4 KiB, a buffer of 2 MB, commits that wait. What stands behind the
//! buffer is the kernel's page cache on one side and the volume's RAM on the other, both within the same control group.

mod library;
mod load;
mod place;
pub mod sample;
pub mod task;
mod tatp;

use std::path::PathBuf;

use aquifer_base::units::parse_size;
use clap::Args;

use super::options::{CommonOptions, TimeOptions};
use super::peer::volume_ram_bytes;
use super::study::{Study, shuffled};
use super::task::VolumeTask;
use crate::error::{Error, Result};
use crate::page_size::Journal;
pub use load::Load;
pub use place::Place;
use place::Places;
use sample::Cell;
use task::{FillTask, OltpTask};

const EXAMPLES: &str = "\
Examples:
  aquifer-bench volume oltp --library build/lib/libaquifer_sqlite.so --out results.jsonl
      TPC-B, TATP and TPC-C with both journals, 512 MiB of data, medians of 5; about 15 minutes
  aquifer-bench volume oltp --load tatp --journal wal --data 64M --ram 64M --seconds 1 --warmup 1 --runs 1
      A first look in a minute

tpc-b, tatp and tpc-c are like TPC-B, TATP and TPC-C, not them: one client, no terminals, no waiting. Every run works on a fresh copy of the
filled database. Needs libsqlite3.so.0, root or delegated cgroups, and `make lib` for the volume's side, which is skipped without it.";

/// Options of `volume oltp`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct OltpOptions {
    #[command(flatten)]
    common: CommonOptions,
    #[command(flatten)]
    time: TimeOptions,
    /// Size of the database
    #[arg(long, value_parser = parse_size, default_value = "512M")]
    data: u64,
    /// What the transactions do [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    load: Vec<Load>,
    /// How transactions survive a crash [default: both]
    #[arg(long, value_enum, value_delimiter = ',')]
    journal: Vec<Journal>,
    /// The library with the volume's VFS [default: beside this program, in build/lib, in /usr/local/lib]
    #[arg(long)]
    library: Option<PathBuf>,
}

/// Measures everything and prints the table.
///
/// # Errors
/// [`Error::Input`], [`Error::Io`]; [`Error::Unavailable`] without SQLite, room or control groups; the first error of a cell.
pub fn run(options: &OltpOptions) -> Result<()> {
    options.time.check()?;
    let library = library::find(options.library.as_deref());
    let places =
        if library.is_some() { &[Place::FileSystem, Place::Volume][..] } else { &[Place::FileSystem] };
    let loads = crate::durable::options::each_once(&options.load);
    let journals = crate::durable::options::each_once(&options.journal);
    let cells: Vec<(Journal, Place)> =
        journals.iter().flat_map(|&journal| places.iter().map(move |&place| (journal, place))).collect();
    let steps = loads.len() * (places.len() + options.common.runs as usize * cells.len());
    let mut study = Study::open(&options.common, steps as u64)?;
    if library.is_none() {
        study.skip("volume (SQLite)", "libaquifer_sqlite.so is not there; make lib, or give --library")?;
    }
    for load in loads {
        let databases = Places::create(&options.common, options.data, library.clone())?;
        for &place in places {
            study.progress.doing(format!("filling {load} on the {place}"));
            let database = databases.filled(place);
            study.unlimited(VolumeTask::OltpFill(FillTask { load, data_bytes: options.data, database }))?;
        }
        for run in 1..=options.common.runs {
            for (journal, place) in shuffled(&cells, run) {
                let cell = Cell { load, journal };
                measure(&mut study, options, &databases, cell, place, run)?;
            }
        }
    }
    study.finish()
}

fn measure(
    study: &mut Study,
    options: &OltpOptions,
    databases: &Places,
    cell: Cell,
    place: Place,
    run: u32,
) -> Result<()> {
    let name = format!("{place}, {}, journal {}, run {run}", cell.load, cell.journal);
    study.progress.doing(name.clone());
    let database = databases.restore(place)?;
    let limit_bytes = options.common.ram;
    let ram_bytes = || {
        volume_ram_bytes(limit_bytes, options.common.reserve, 0)
            .ok_or_else(|| Error::Input("--ram leaves nothing for a volume beside --reserve".to_owned()))
    };
    let task = OltpTask {
        cell,
        place,
        run,
        database,
        data_bytes: options.data,
        limit_bytes,
        volume_ram_bytes: (place == Place::Volume).then(ram_bytes).transpose()?,
        warmup_s: options.time.warmup,
        seconds: options.time.seconds,
    };
    study.settle()?;
    study.limited(&name, limit_bytes, VolumeTask::Oltp(task))
}
