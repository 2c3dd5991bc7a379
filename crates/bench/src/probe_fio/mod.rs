//! The probe beside fio: the same loads on the same file in the same run, in turns.
//!
//! `rival` is fio, told by the probe's own job files.

mod rival;

use std::time::Duration;

use aquifer_base::random::Random;
use aquifer_device::FileDevice;
use aquifer_device::queue::{Queue, RealQueue};
use aquifer_probe::control::Unwatched;
use aquifer_probe::load::{self, Limits};
use aquifer_probe::report::{Job, Pattern, WriteMode};
use clap::Args;
use serde::Serialize;

use crate::child::Parent;
use crate::cleanup;
use crate::error::{Error, Result};
use crate::study::{Fields, Session, Study, Table, key, median, ratio};
use rival::Fio;

const PEERS: &[&str] = &["probe", "fio"];

const EXAMPLES: &str = "\
Examples:
  aquifer-bench probe-fio --out results.jsonl    12 loads, 5 rounds each of the probe and of fio
  aquifer-bench probe-fio --data 256M --seconds 1 --runs 3
  aquifer-bench table results.jsonl";

const TABLE: Table = Table {
    title: "The probe beside fio",
    keys: &[key("load", "load")],
    peers: PEERS,
    columns: &[median("IOPS", "iops").digits(0), ratio("by fio", "iops", &["fio"]).digits(3)],
    note: "",
};

/// Options of `probe-fio`: none of its own.
#[derive(Clone, Debug, Args)]
pub struct ProbeFioOptions {}

#[derive(Clone, Serialize)]
struct Point {
    load: String,
    #[serde(flatten)]
    job: Job,
}

/// The study.
pub struct ProbeFio;

impl Study for ProbeFio {
    const NAME: &str = "probe-fio";
    const ABOUT: &str = "The device probe beside fio: twelve loads on the same file";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] = &[("seconds", "2")];
    const UNUSED: &[&str] = &["ram", "warmup", "payload"];
    const TABLES: &[&Table] = &[&TABLE];
    type Options = ProbeFioOptions;
    type Task = ();

    fn run(session: &mut Session, _: &ProbeFioOptions, data_bytes: u64) -> Result<()> {
        let path = session.common.dir.join("aquifer-bench-probe.data");
        let fio = Fio::new(&path)?;
        // fio knows whole seconds only.
        let seconds = session.common.seconds.ceil().max(1.0) as u32;
        let size = data_bytes / (1 << 20) * (1 << 20);
        let _removed = cleanup::register({
            let path = path.clone();
            move || drop(std::fs::remove_file(path))
        });
        let device =
            FileDevice::create(&path, size).map_err(|error| Error::Unavailable(error.to_string()))?;
        let queue = RealQueue::new(vec![device], 4096).map_err(Error::io("making a ring for", &path))?;
        let mut ours = Ours { queue, random: Random::new(1), seconds };
        session.progress.doing("writing the file once");
        ours.write_once(size)?;
        let points = loads(size).into_iter().map(|job| Point { load: job.to_string(), job });
        session.turns(PEERS, points, |_, cell, _| {
            std::thread::sleep(REST);
            let iops = match cell.peer {
                "fio" => fio.iops(&cell.point.job, seconds)?,
                _ => ours.iops(&cell.point.job)?,
            };
            Ok(Fields::default().with("iops", iops))
        })
    }

    fn work((): (), _: &mut Parent) -> Result<Fields> {
        unreachable!("it has no children")
    }
}

/// Before each turn: a disk that lends speed to who has been idle must lend it to both.
const REST: Duration = Duration::from_secs(1);

/// The probe's own way to measure.
struct Ours {
    queue: RealQueue,
    random: Random,
    seconds: u32,
}

impl Ours {
    fn round(&mut self, job: &Job, limits: Limits) -> Result<f64> {
        let jobs = std::slice::from_ref(job);
        let rounds = load::run(&mut self.queue, jobs, limits, &mut self.random, &Unwatched, &mut 0)
            .map_err(|stop| Error::Unavailable(format!("the probe could not measure {job}: {stop}")))?;
        Ok(rounds[0].iops())
    }

    fn iops(&mut self, job: &Job) -> Result<f64> {
        let duration_ns = u64::from(self.seconds) * 1_000_000_000;
        self.round(job, Limits { duration_ns, ios: u64::MAX, written_bytes: u64::MAX })
    }

    /// What was never written reads as zeros without a look at the disk.
    fn write_once(&mut self, size: u64) -> Result<()> {
        let block_bytes = 1 << 20;
        let job = Job {
            pattern: Pattern::Sequential,
            read_percent: 0,
            block_bytes,
            depth: 8,
            write_mode: WriteMode::Cached,
            span_bytes: size,
        };
        self.round(
            &job,
            Limits { duration_ns: u64::MAX, ios: size / u64::from(block_bytes), written_bytes: u64::MAX },
        )?;
        self.queue.flush().map_err(|error| Error::Unavailable(error.to_string()))
    }
}

/// Twelve loads from every corner of what the probe measures.
fn loads(span_bytes: u64) -> Vec<Job> {
    use Pattern::{Random, Sequential};
    use WriteMode::{Cached, Dsync, FlushEach};
    let cells = [
        (Random, 100, 4096, 1, Cached),
        (Random, 100, 4096, 32, Cached),
        (Random, 100, 16 << 10, 8, Cached),
        (Random, 100, 64 << 10, 4, Cached),
        (Sequential, 100, 4096, 1, Cached),
        (Sequential, 100, 1 << 20, 4, Cached),
        (Random, 0, 4096, 1, Cached),
        (Random, 0, 4096, 32, Cached),
        (Random, 0, 64 << 10, 4, Cached),
        (Random, 70, 4096, 16, Cached),
        (Random, 0, 4096, 1, FlushEach),
        (Sequential, 0, 4096, 1, Dsync),
    ];
    let job = |(pattern, read_percent, block_bytes, depth, write_mode)| Job {
        pattern,
        read_percent,
        block_bytes,
        depth,
        write_mode,
        span_bytes,
    };
    cells.into_iter().map(job).collect()
}
