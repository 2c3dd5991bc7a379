//! The children: one fills a database, one measures a cell.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::connection::Connection;
use super::database::{self, Buffer, Settings};

use super::load::{Kind, Load};
use super::sample::{Cell, Latency, Sample};
use crate::child::{Event, Parent};
use crate::device::{Counters, Device};
use crate::error::{Error, Result};
use crate::io::Io;
use crate::machine::Context;
use crate::process::cpu_ns;
use crate::sample::Record;

/// The buffer counts as full from this share on: a page more would not fit.
const FULL_SHARE: f64 = 0.95;
/// Transactions between two looks at the clock and the buffer.
const WARMUP_BATCH: u32 = 50;
/// A buffer that is not full after so many times the warm-up will not become full.
const WARMUP_FACTOR: f64 = 4.0;
/// Longer transactions count as so long.
const LATENCY_MAX_NS: u64 = 600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// Fill a database.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FillTask {
    /// Whose tables.
    pub load: Kind,
    /// Its pages.
    pub page_bytes: u64,
    /// About so much.
    pub data_bytes: u64,
    /// The file to make.
    pub path: PathBuf,
}

/// Measure a cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CellTask {
    /// The cell.
    pub cell: Cell,
    /// What SQLite is told.
    pub settings: Settings,
    /// Bytes that the database was filled with.
    pub data_bytes: u64,
    /// Limit of the control group; for the record.
    pub limit_bytes: Option<u64>,
    /// Number of the run; it decides all choices.
    pub run: u32,
    /// Least time of the warm-up, seconds.
    pub warmup_s: f64,
    /// Measured time, seconds.
    pub seconds: f64,
}

/// What the measured time gave.
struct Measured {
    latencies: Histogram<u64>,
    seconds: f64,
    cpu_ns: u64,
    io: Io,
    device: Counters,
    buffer: Buffer,
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
pub fn measure(task: &CellTask, context: &Context, parent: &mut Parent) -> Result<()> {
    let path = &task.settings.path;
    let file_bytes = std::fs::metadata(path).map_err(Error::io("looking at", path))?.len();
    let connection = database::open(&task.settings)?;
    let mut client = task.cell.load.client(&connection, task.data_bytes, task.run.into())?;
    let (warmup_transactions, warmup_s) = task.warm(&connection, &mut *client)?;
    database::make_durable(&connection, &task.settings)?;
    let measured = task.transactions(&connection, &mut *client)?;
    if let Some(what) = client.wrong()? {
        return Err(Error::WrongData { peer: format!("SQLite, {}", task.cell), what });
    }
    let sample = Sample {
        cell: task.cell,
        run: task.run,
        seed: task.run.into(),
        settings: task.settings.clone(),
        data_bytes: task.data_bytes,
        scale: task.cell.load.scale(task.data_bytes),
        file_bytes,
        limit_bytes: task.limit_bytes,
        warmup_transactions,
        warmup_s,
        seconds: measured.seconds,
        transactions: measured.latencies.len(),
        latency: Latency::of(&measured.latencies),
        cpu_ns: measured.cpu_ns,
        io: measured.io,
        device: measured.device,
        buffer: measured.buffer,
        sqlite: connection.version(),
        context: context.clone(),
    };
    parent.tell(&Event::Record(Box::new(Record::PageSize(Box::new(sample)))));
    Ok(())
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

    /// The measured transactions; what else is in a sample is for the caller.
    fn transactions(&self, connection: &Connection, client: &mut dyn Load) -> Result<Measured> {
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
        Ok(Measured {
            cpu_ns: cpu_ns() - cpu,
            seconds: (last - start).as_secs_f64(),
            io: Io::now()?.since(io),
            device: device.counters()?.since(counters),
            buffer: Buffer::now(connection)?.since(buffer),
            latencies,
        })
    }
}
