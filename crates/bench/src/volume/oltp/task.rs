//! The children: one fills a database, one measures a cell.

use std::path::Path;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::super::meter::{Latency, Meter};
use super::Place;
use super::place::Database;
use crate::child::Parent;
use crate::error::{Error, Result};
use crate::sqlite::connection::Connection;
use crate::sqlite::{Journal, Kind};
use crate::study::Fields;

/// Longer transactions count as so long.
const LATENCY_MAX_NS: u64 = 600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;
/// RAM of the volume while its database is filled.
const FILL_RAM_BYTES: u64 = 64 << 20;

/// What a child does.
#[derive(Debug, Serialize, Deserialize)]
pub enum Task {
    /// Fill a database.
    Fill(FillTask),
    /// Measure a cell.
    Measure(OltpTask),
}

/// Fill a database.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FillTask {
    /// Whose tables.
    pub load: Kind,
    /// Bytes of the filled database; it has about that many.
    pub data_bytes: u64,
    /// Where.
    pub database: Database,
}

/// Measure a cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OltpTask {
    /// What the transactions do.
    pub load: Kind,
    /// How they survive a crash.
    pub journal: Journal,
    /// What holds the database.
    pub place: Place,
    /// Number of the run; it decides all choices.
    pub run: u32,
    /// The copy.
    pub database: Database,
    /// Bytes that it was filled with.
    pub data_bytes: u64,
    /// What a volume may use.
    pub volume_ram_bytes: Option<u64>,
    /// Seconds before the measured ones.
    pub warmup_s: f64,
    /// Measured seconds.
    pub seconds: f64,
}

/// Fills.
///
/// # Errors
/// [`Error::Unavailable`] without SQLite, and its errors.
pub fn fill(task: &FillTask, parent: &mut Parent) -> Result<()> {
    let connection = open(&task.database, FILL_RAM_BYTES)?;
    connection.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536")?;
    task.load.fill(&connection, task.data_bytes, &mut |done, total| {
        parent.progress("filling", done, total);
    })?;
    drop(connection);
    let path = &task.database.path;
    let file = std::fs::File::open(path).map_err(Error::io("opening", path))?;
    file.sync_all().map_err(Error::io("syncing", path))
}

/// Measures.
///
/// # Errors
/// [`Error::Unavailable`] without SQLite, [`Error::WrongData`] if the database is wrong in the end, and SQLite's errors.
pub fn work(task: &OltpTask) -> Result<Fields> {
    let connection = open(&task.database, task.volume_ram_bytes.unwrap_or(0))?;
    let journal = task.journal.to_string();
    connection.execute(&format!("PRAGMA journal_mode = {journal}"))?;
    let found = connection.prepare("PRAGMA journal_mode")?.one(&[], |row| row.text(0))?;
    if found != journal {
        return Err(Error::Unavailable(format!("SQLite keeps journal mode {found} instead of {journal}")));
    }
    let mut client = task.load.client(&connection, task.data_bytes, task.run.into())?;
    let warm = Instant::now();
    while warm.elapsed().as_secs_f64() < task.warmup_s {
        client.transaction()?;
    }
    let mut latencies: Histogram<u64> =
        Histogram::new_with_bounds(1, LATENCY_MAX_NS, SIGNIFICANT_DIGITS).expect("valid bounds and digits");
    let (meter, limit) = (Meter::start(&task.database.path)?, Duration::from_secs_f64(task.seconds));
    let start = Instant::now();
    let mut last = start;
    while last - start < limit {
        client.transaction()?;
        let now = Instant::now();
        latencies.saturating_record((now - last).as_nanos() as u64);
        last = now;
    }
    let cost = meter.stop()?;
    if let Some(what) = client.wrong()? {
        return Err(Error::WrongData { peer: format!("SQLite on the {}", task.place), what });
    }
    let figures = cost.figures(latencies.len() as f64).with("latency", Latency::of(&latencies));
    Ok(figures
        .with("scale", task.load.scale(task.data_bytes))
        .with("volume_ram_bytes", task.volume_ram_bytes)
        .with("sqlite", connection.version()))
}

fn open(database: &Database, ram_bytes: u64) -> Result<Connection> {
    let Some(library) = &database.library else { return Connection::open(&database.path) };
    let path = database.path.display();
    // The extension stays loaded when the connection that loaded it is closed.
    Connection::open(Path::new(":memory:"))?.load_extension(library)?;
    Connection::open_uri(&format!("file:/data.db?vfs=aquifer&volume={path}&ram={ram_bytes}"))
}
