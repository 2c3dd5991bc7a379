//! The children: one fills a database, one measures a cell.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use aquifer_bench::child::Parent;
use aquifer_bench::device::Device;
use aquifer_bench::error::{Error, Result};
use aquifer_bench::io::Io;
use aquifer_bench::process::cpu_ns;
use aquifer_bench::sqlite::Kind;
use aquifer_bench::sqlite::connection::Connection;
use aquifer_bench::sqlite::load::Load;
use aquifer_bench::study::Fields;
use aquifer_bench::volume::Latency;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::database::{self, Buffer, Settings};

/// The buffer counts as full from this share on: a page more would not fit.
const FULL_SHARE: f64 = 0.95;
/// Transactions between two looks at the clock and the buffer.
const WARMUP_BATCH: u32 = 50;
/// A buffer that is not full after this many warm-ups will not become full.
const WARMUP_FACTOR: f64 = 4.0;
/// Longer transactions count as so long.
const LATENCY_MAX_NS: u64 = 600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// What a child is told.
#[derive(Debug, Serialize, Deserialize)]
pub enum Task {
    /// Fill a database.
    Fill(FillTask),
    /// Measure a cell.
    Measure(CellTask),
}

/// Fill a database.
#[derive(Debug, Serialize, Deserialize)]
pub struct FillTask {
    /// Whose tables.
    pub load: Kind,
    /// Its pages.
    pub page_bytes: u64,
    /// Their bytes, about.
    pub data_bytes: u64,
    /// The file to make.
    pub path: PathBuf,
}

/// Measure a cell.
#[derive(Debug, Serialize, Deserialize)]
pub struct CellTask {
    /// What the transactions do.
    pub load: Kind,
    /// What SQLite is told.
    pub settings: Settings,
    /// Bytes that the database was filled with.
    pub data_bytes: u64,
    /// Number of the run; it decides all choices.
    pub run: u32,
    /// Least time of the warm-up, seconds.
    pub warmup_s: f64,
    /// Measured time, seconds.
    pub seconds: f64,
}

/// The child that fills.
///
/// # Errors
/// [`Error::Unavailable`] without SQLite, and its errors.
pub fn fill(task: &FillTask, parent: &mut Parent) -> Result<()> {
    let connection = database::create(&task.path, task.page_bytes)?;
    task.load.fill(&connection, task.data_bytes, &mut |done, total| {
        parent.progress("filling", done, total);
    })?;
    drop(connection);
    database::sync(&task.path)
}

/// The child that measures.
///
/// # Errors
/// [`Error::Unavailable`] without SQLite, [`Error::WrongData`] if the database is wrong in the end, and SQLite's errors.
pub fn measure(task: &CellTask) -> Result<Fields> {
    let path = &task.settings.path;
    let file_bytes = std::fs::metadata(path).map_err(Error::io("looking at", path))?.len();
    let connection = database::open(&task.settings)?;
    let mut client = task.load.client(&connection, task.data_bytes, task.run.into())?;
    let (warmup_transactions, warmup_s) = task.warm(&connection, &mut *client)?;
    database::make_durable(&connection, &task.settings)?;
    let figures = task.transactions(&connection, &mut *client)?;
    if let Some(what) = client.wrong()? {
        let peer = format!("SQLite, {}, pages of {} bytes", task.load, task.settings.page_bytes);
        return Err(Error::WrongData { peer, what });
    }
    Ok(figures
        .with("file_bytes", file_bytes)
        .with("warmup_transactions", warmup_transactions)
        .with("warmup_s", warmup_s)
        .with("sqlite", connection.version()))
}

impl CellTask {
    /// Transactions whose commits do not wait, until the buffer is full; how many, and how many seconds.
    fn warm(&self, connection: &Connection, client: &mut dyn Load) -> Result<(u64, f64)> {
        let full_bytes = (self.settings.buffer_bytes as f64 * FULL_SHARE) as u64;
        let start = Instant::now();
        let mut done = 0;
        loop {
            for _ in 0..WARMUP_BATCH {
                client.transaction()?;
            }
            done += u64::from(WARMUP_BATCH);
            let elapsed = start.elapsed().as_secs_f64();
            let is_full = Buffer::now(connection)?.used_bytes >= full_bytes;
            if elapsed >= self.warmup_s && (is_full || elapsed >= self.warmup_s * WARMUP_FACTOR) {
                return Ok((done, elapsed));
            }
        }
    }

    /// The measured transactions.
    fn transactions(&self, connection: &Connection, client: &mut dyn Load) -> Result<Fields> {
        let limit = Duration::from_secs_f64(self.seconds);
        let device = Device::holding(&self.settings.path)?;
        let latencies = Histogram::new_with_bounds(1, LATENCY_MAX_NS, SIGNIFICANT_DIGITS);
        let mut latencies: Histogram<u64> = latencies.expect("valid bounds and digits");
        let (buffer, io, counters) = (Buffer::now(connection)?, Io::now()?, device.counters()?);
        let (cpu, start) = (cpu_ns(), Instant::now());
        let mut last = start;
        while last - start < limit {
            client.transaction()?;
            let now = Instant::now();
            latencies.saturating_record((now - last).as_nanos() as u64);
            last = now;
        }
        let (cpu, io) = (cpu_ns() - cpu, Io::now()?.since(io));
        let (device, buffer) = (device.counters()?.since(counters), Buffer::now(connection)?.since(buffer));
        let each = |total: u64| total as f64 / latencies.len().max(1) as f64;
        let missed_bytes = (buffer.misses * self.settings.page_bytes).max(1);
        Ok(Fields::default()
            .with("ops_per_s", latencies.len() as f64 / (last - start).as_secs_f64())
            .with("latency", Latency::of(&latencies))
            .with("cpu_ns_each", each(cpu))
            .with("asked_written_bytes_each", each(io.asked_written_bytes))
            .with("read_bytes_each", each(io.read_bytes))
            .with("written_bytes_each", each(io.written_bytes))
            .with("moved_bytes_each", each(io.read_bytes + io.written_bytes))
            .with("device", device)
            .with("buffer", buffer)
            .with("misses_each", each(buffer.misses))
            .with("hit_percent", 100.0 * buffer.hits as f64 / (buffer.hits + buffer.misses).max(1) as f64)
            .with("device_share", io.read_bytes as f64 / missed_bytes as f64))
    }
}
