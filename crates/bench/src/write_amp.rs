//! Bytes that reach the device per byte that the program writes, with the log filled to several
//! levels by live records, against the formula.

use std::time::{Duration, Instant};

use aquifer_base::units::parse_size;
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::child::Parent;
use crate::device::Device;
use crate::distribution::Distribution;
use crate::error::{Error, Result};
use crate::measure::{Interval, Snapshot, fill};
use crate::peer::aquifer::{Aquifer, Layout};
use crate::peer::{Kind, Peer, Setup};
use crate::scale::check_disk;
use crate::study::{Bound, Fields, Promise, Session, Study, Table, key, median, text};
use crate::theory::{RECORD_HEADER_BYTES, record_overhead, write_amplification};
use crate::verified::Verified;
use crate::workload::{self, Phase, Point};

/// A leaf of 512 objects that were rewritten at random takes about a KiB, which is live in the log too.
const LEAF_BYTES_PER_OBJECT: u64 = 2;

const TABLE: Table = Table {
    title: "Write amplification, uniform whole-object writes",
    keys: &[key("log", "flash_bytes").size(), key("RAM", "ram_bytes").size(), key("fill %", "fill_percent")],
    peers: &[],
    columns: &[
        median("live %", "live").per(0.01).digits(1),
        median("ops/s", "ops_per_s").digits(0).more(),
        median("device B/B", "device_written").less(),
        median("library B/B", "library_written"),
        median("appended B/B", "appended"),
        median("written per appended", "written_per_appended").less(),
        median("A", "formula"),
        median("A x record", "formula_with_header"),
        median("A x record at live", "formula_at_live"),
        median("off by %", "off_percent").digits(1),
        text("steady", "is_steady"),
    ],
    note: "device B/B: bytes the kernel counted for the device, per object byte the program wrote; library B/B: the same by the library's counter; \
        appended B/B: what the object cache let through; A: formula for the fill; off by: written per appended against the formula at the live fill.",
};

const PROMISES: &[Promise] = &[
    Promise {
        what: "device bytes per object byte",
        at: &[("fill_percent", "67")],
        peer: "aquifer",
        figure: "device_written",
        over: &[],
        bound: Bound::AtMost(2.0),
    },
    Promise {
        what: "off the formula by %",
        at: &[],
        peer: "aquifer",
        figure: "off_percent_either_way",
        over: &[],
        bound: Bound::AtMost(10.0),
    },
];

const EXAMPLES: &str = "\
Examples:
  aquifer-bench write-amp --out results.jsonl
  aquifer-bench write-amp --fill 67 --flash 512M --ram 16M";

/// Options of `write-amp`.
#[derive(Clone, Debug, Args)]
pub struct WriteAmpOptions {
    /// Percentages of the log that live records take, leaves included
    #[arg(long, value_delimiter = ',', default_value = "50,67,80,90", value_parser = clap::value_parser!(u32).range(1..=95))]
    pub fill: Vec<u32>,
    /// Size of the log
    #[arg(long, value_parser = parse_size, default_value = "2G")]
    pub flash: u64,
    /// Bytes of one object, a multiple of 8
    #[arg(long, value_parser = parse_size, default_value = "128")]
    pub object: u64,
    /// Writing threads
    #[arg(long, default_value_t = 8)]
    pub threads: usize,
    /// How many times to rewrite the data until the state counts as steady
    #[arg(long, default_value_t = 2.5)]
    pub warm: f64,
    /// How many times to rewrite the data while measuring
    #[arg(long, default_value_t = 1.0)]
    pub measured: f64,
    /// Longest time for one fill; if it is not enough, the row says so
    #[arg(long, default_value_t = 1800.0)]
    pub seconds_max: f64,
}

/// What the child is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WriteAmpTask {
    /// Heap and array.
    pub setup: Setup,
    /// Percent of the log that live records take, leaves included.
    pub fill_percent: u32,
    /// Writing threads.
    pub threads: usize,
    /// How many times the data is rewritten first.
    pub warm_rewrites: f64,
    /// How many times the data is rewritten while measuring.
    pub measured_rewrites: f64,
    /// Longest time for both.
    pub seconds_max: f64,
}

#[derive(Clone, Serialize)]
struct Given {
    flash_bytes: u64,
    ram_bytes: u64,
    object_bytes: u64,
    threads: usize,
    fill_percent: u32,
}

/// The study.
pub struct WriteAmp;

impl Study for WriteAmp {
    const NAME: &str = "write-amp";
    const ABOUT: &str =
        "Bytes written per byte changed, against the formula, with the log filled to several levels";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] = &[("ram", "64M"), ("runs", "1")];
    const UNUSED: &[&str] = &["data", "seconds", "warmup"];
    const TABLES: &[&Table] = &[&TABLE];
    const PROMISES: &[Promise] = PROMISES;
    type Options = WriteAmpOptions;
    type Task = WriteAmpTask;

    fn run(session: &mut Session, options: &WriteAmpOptions, _: u64) -> Result<()> {
        let &WriteAmpOptions { flash: flash_bytes, object: object_bytes, threads, seconds_max, .. } = options;
        if object_bytes == 0 || !object_bytes.is_multiple_of(8) || threads == 0 || !seconds_max.is_finite() {
            let rule = "--object is a multiple of 8, --threads and --seconds-max are positive";
            return Err(Error::Input(rule.to_owned()));
        }
        let ram_bytes = session.common.ram;
        let given = |&fill_percent| Given { flash_bytes, ram_bytes, object_bytes, threads, fill_percent };
        session.turns(&["aquifer"], options.fill.iter().map(given), |session, cell, _| {
            let task = options.task(session, cell.point.fill_percent)?;
            session.child(cell.peer, &task, None)
        })
    }

    fn work(task: WriteAmpTask, parent: &mut Parent) -> Result<Fields> {
        work(&task, parent)
    }
}

impl WriteAmpOptions {
    fn task(&self, session: &Session, fill_percent: u32) -> Result<WriteAmpTask> {
        let per_object = self.object + RECORD_HEADER_BYTES + LEAF_BYTES_PER_OBJECT;
        let records = self.flash as f64 * f64::from(fill_percent) / 100.0 / per_object as f64;
        let setup = Setup {
            dir: session.common.dir.clone(),
            data_bytes: records as u64 * self.object,
            object_bytes: self.object,
            ram_bytes: session.common.ram,
            flash_bytes: self.flash,
            payload: session.payload,
        };
        check_disk(&setup.dir, &setup, &[Kind::Aquifer], 0)?;
        Ok(WriteAmpTask {
            setup,
            fill_percent,
            threads: self.threads,
            warm_rewrites: self.warm,
            measured_rewrites: self.measured,
            seconds_max: self.seconds_max,
        })
    }
}

fn work(task: &WriteAmpTask, parent: &mut Parent) -> Result<Fields> {
    let device = Device::holding(&task.setup.dir)?;
    let heap = Aquifer::open(&task.setup, Layout::Objects)?;
    let ledger = task.setup.ledger("aquifer");
    let objects = Verified::new(heap.objects(), &ledger);
    fill(objects, parent);
    let mut writing = Writing {
        heap: &heap,
        device: &device,
        task,
        parent,
        started: Instant::now(),
        written_at_start: objects_written_bytes(&heap)?,
        begin: None,
        end: None,
        steady: true,
    };
    let point = Point { distribution: Distribution::Uniform, read_percent: 0, threads: task.threads };
    let measured = workload::run(objects, point, 1, || writing.phase())?;
    objects.read_watched()?;
    let steady = writing.steady;
    let (begin, end) = writing.begin.zip(writing.end).expect("set before a run without failure ends");
    let interval = begin.until(&end);
    let changed_bytes = (measured.writes * task.setup.object_bytes).max(1);
    Ok(figures(task, &interval, changed_bytes)
        .with("ops_per_s", measured.ops_per_s)
        .with("is_steady", steady))
}

/// Bytes beside the formula.
fn figures(task: &WriteAmpTask, interval: &Interval, changed_bytes: u64) -> Fields {
    let (setup, stats) = (&task.setup, interval.stats.unwrap_or_default());
    let (formula, header) =
        (write_amplification(f64::from(task.fill_percent) / 100.0), record_overhead(setup.object_bytes));
    let each = |bytes: u64| bytes as f64 / changed_bytes as f64;
    let written = stats.device_written_bytes as f64 / stats.objects_written_bytes.max(1) as f64;
    // The fill that was really there: objects that are dirty in RAM have no live record.
    let live = stats.flash_live_bytes as f64 / setup.flash_bytes as f64;
    let expected = (live > 0.0 && live < 1.0).then(|| write_amplification(live) * header);
    let off = expected.map(|expected| 100.0 * (written / expected - 1.0));
    Fields::default()
        .with("seconds", interval.time.as_secs_f64())
        .with("data_bytes", setup.data_bytes)
        .with("live", live)
        .with("device_written", each(interval.device.written_bytes))
        .with("library_written", each(stats.device_written_bytes))
        .with("appended", each(stats.objects_written_bytes))
        .with("written_per_appended", written)
        .with("formula", formula)
        .with("formula_with_header", formula * header)
        .with("formula_at_live", expected)
        .with("off_percent", off)
        .with("off_percent_either_way", off.map(f64::abs))
}

/// Warm-up and measurement by the bytes of objects that were written.
struct Writing<'a> {
    heap: &'a Aquifer,
    device: &'a Device,
    task: &'a WriteAmpTask,
    parent: &'a mut Parent,
    started: Instant,
    written_at_start: u64,
    begin: Option<Snapshot>,
    end: Option<Snapshot>,
    steady: bool,
}

impl Writing<'_> {
    fn phase(&mut self) -> Result<Phase> {
        let written = (objects_written_bytes(self.heap)? - self.written_at_start) as f64;
        let rewrites = written / self.task.setup.data_bytes as f64;
        let needed = self.task.warm_rewrites + self.task.measured_rewrites;
        self.parent.progress("writing", (rewrites * 100.0) as u64, (needed * 100.0) as u64);
        let late = self.started.elapsed() >= Duration::from_secs_f64(self.task.seconds_max.max(0.0));
        // Out of time, a last short measurement is better than none; the record tells.
        if self.begin.is_none() && (rewrites >= self.task.warm_rewrites || late) {
            self.steady = rewrites >= self.task.warm_rewrites;
            self.begin = Some(Snapshot::take(self.heap, self.device)?);
            return Ok(Phase::Measure);
        }
        if self.begin.is_none() {
            return Ok(Phase::WarmUp);
        }
        if rewrites < needed && !late {
            return Ok(Phase::Measure);
        }
        self.end = Some(Snapshot::take(self.heap, self.device)?);
        Ok(Phase::Stop)
    }
}

fn objects_written_bytes(heap: &Aquifer) -> Result<u64> {
    let stats = heap.stats().ok_or_else(|| Error::Unavailable("aq_heap_stats_get failed".to_owned()))?;
    Ok(stats.objects_written_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Counters;
    use crate::payload::Payload;
    use crate::peer::abi::Stats;

    #[test]
    fn write_amplification_is_compared_at_the_live_fill() {
        let setup = Setup {
            dir: "/".into(),
            data_bytes: 60,
            object_bytes: 128,
            ram_bytes: 10,
            flash_bytes: 100,
            payload: Payload::Random,
        };
        let (fill_percent, threads, warm_rewrites, measured_rewrites, seconds_max) = (67, 8, 3.0, 1.0, 1.0);
        let task =
            WriteAmpTask { setup, fill_percent, threads, warm_rewrites, measured_rewrites, seconds_max };
        let stats = Stats {
            flash_live_bytes: 50,
            device_written_bytes: 150,
            objects_written_bytes: 100,
            ..Stats::default()
        };
        let device = Counters { written_bytes: 160, ..Counters::default() };
        let figures =
            figures(&task, &Interval { time: Duration::from_secs(1), device, stats: Some(stats) }, 100);
        let near = |name: &str, expected: f64| {
            let figure = figures.number(name).expect("it is there");
            assert!((figure - expected).abs() < 0.005 * expected, "{name}: {figure}, not {expected}");
        };
        near("device_written", 1.6);
        near("library_written", 1.5);
        near("written_per_appended", 1.5);
        near("formula", 1.73);
        near("formula_at_live", 1.255 * 136.0 / 128.0);
        near("off_percent", 12.5);
    }
}
