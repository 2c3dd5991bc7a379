//! The micro-benchmark: an array of small objects, larger than RAM, read and written by threads.
//!
//! Each peer is filled once, in a process and control group of its own, and stays open. At each point the peers take
//! turns run by run. The first run of a point follows the whole warm-up, later ones a short one: what a peer holds in
//! RAM does not change while the others run.

pub mod task;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aquifer_base::units::parse_size;
use clap::Args;
use serde::Serialize;

use crate::cgroup::Cgroup;
use crate::child::Parent;
use crate::contents::{Flip, parse_flip};
use crate::distribution::Distribution;
use crate::error::{Error, Result};
use crate::peer::fio::Target;
use crate::peer::{Kind, Setup, flash_bytes_for};
use crate::runner::Runner;
use crate::scale::check_disk;
use crate::study::{Bound, Cell, Fields, Promise, Session, Study, Table, key, median, range, ratio};
use crate::swap::SwapArea;
use crate::workload::Point;
use crate::zswap::Zswap;
use task::{MicroTask, RunRequest};

const EXAMPLES: &str = "\
Examples:
  aquifer-bench micro --out results.jsonl
      Uniform reads by 32 threads, 4 GiB of 128-byte objects in 256 MiB of RAM, all peers, medians of 5
  aquifer-bench micro --peer swap,aquifer --dist zipf,scattered-hot --reads 100,50,0 --threads 1,8 --seconds 5
  aquifer-bench micro --peer swap,zswap,aquifer --payload random,python --data 1G --ram 64M
      Words that nothing shrinks, and pages as an interpreter has them
  aquifer-bench micro --data 512M --ram 64M --seconds 3 --warmup 3 --runs 1
      A first look in a minute or two

The words of an object say to which object and place they belong and which write made them; every word that is read is
looked at. Bytes of another object or of nobody end the call with status 1. Of up to 4096 objects the last write is
known too, so that a lost one shows; of the others it would take RAM that is being measured. Of payloads other than
random, one word in 16 says which write made it.

The peers swap, zswap, jemalloc, mmap and memkind need root for a memory-limit cgroup, the first three also for a swap file.";

/// Times that a peer whose process is killed is opened and filled again.
const REOPENED_MAX: usize = 3;
/// Block sizes that fio reads with.
const FIO: [(&str, u64); 2] = [("fio 4 KiB", 4096), ("fio 512 B", 512)];
const PAGE_BYTES: u64 = 4096;
/// Least allowance over the RAM: the harness itself.
const SLACK_BYTES_MIN: u64 = 8 << 20;

const TABLE: Table = Table {
    title: "{data_bytes:size} of {object_bytes}-byte objects, {ram_bytes:size} of RAM",
    keys: &[key("accesses", "distribution"), key("reads %", "read_percent"), key("threads", "threads")],
    peers: Kind::NAMES,
    columns: &[
        median("ops/s", "ops_per_s").digits(0).more(),
        range("least, most", "ops_per_s").digits(0),
        ratio("x swap", "ops_per_s", &["swap"]),
        ratio("x zswap", "ops_per_s", &["zswap"]),
        ratio("x fio", "ops_per_s", &[FIO[0].0]),
        median("p50 us", "p50_ns").per(1e3).digits(1).less(),
        median("p99 us", "p99_ns").per(1e3).digits(1),
        median("CPU us each", "cpu_ns_each").per(1e3).less(),
        median("written B/B", "written_per_changed").less(),
        median("RSS + PTE + pool MiB", "memory_bytes").mib(),
        median("metadata MiB", "metadata_bytes").mib(),
    ],
    note: "Written: bytes of the device for each byte that was changed, with those of other programs. Pool: what zswap holds compressed.",
};

const fn over_swap(at: &'static [(&'static str, &'static str)], least: f64) -> Promise {
    let (what, peer, figure) = ("over swap", "aquifer", "ops_per_s");
    Promise { what, at, peer, figure, over: &["swap"], bound: Bound::AtLeast(least) }
}

macro_rules! at {
    ($distribution:literal, $reads:literal, $threads:literal) => {
        &[
            ("payload", "random"),
            ("distribution", $distribution),
            ("read_percent", $reads),
            ("threads", $threads),
        ]
    };
}

const PROMISES: &[Promise] = &[
    over_swap(at!("uniform", "100", "32"), 0.95),
    over_swap(at!("scattered-hot", "100", "1"), 4.0),
    over_swap(at!("scattered-hot", "100", "8"), 4.0),
    over_swap(at!("scattered-hot", "50", "8"), 4.0),
    over_swap(at!("scattered-hot", "0", "8"), 4.0),
    over_swap(at!("zipf", "100", "8"), 1.6),
    over_swap(at!("zipf", "50", "8"), 2.5),
    Promise {
        what: "over fio",
        at: at!("uniform", "100", "32"),
        peer: "aquifer",
        figure: "ops_per_s",
        over: &[FIO[0].0],
        bound: Bound::AtLeast(0.9),
    },
    Promise {
        what: "bytes that swap writes for each byte that is changed",
        at: at!("uniform", "0", "32"),
        peer: "swap",
        figure: "written_per_changed",
        over: &[],
        bound: Bound::AtLeast(27.0),
    },
    Promise {
        what: "bytes written, over those of swap",
        at: at!("zipf", "0", "8"),
        peer: "aquifer",
        figure: "written_per_changed",
        over: &["swap"],
        bound: Bound::AtMost(0.04),
    },
];

/// Options of `micro`.
#[derive(Clone, Debug, Args)]
pub struct MicroOptions {
    /// Systems to compare
    #[arg(long, value_enum, value_delimiter = ',', default_value = "swap,zswap,mmap,memkind,aquifer,fio")]
    peer: Vec<Kind>,
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_value = "32", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Vec<u32>,
    /// Percentages of reads
    #[arg(long, value_delimiter = ',', default_value = "100", value_parser = clap::value_parser!(u32).range(0..=100))]
    reads: Vec<u32>,
    /// Distributions of the accesses
    #[arg(long, value_enum, value_delimiter = ',', default_value = "uniform")]
    dist: Vec<Distribution>,
    /// Points DIST:READS:THREADS instead of all combinations of --dist, --reads and --threads
    #[arg(long, value_delimiter = ',', value_parser = parse_point)]
    point: Vec<Point>,
    /// Bytes of one object, a multiple of 8 that divides 4096
    #[arg(long, value_parser = parse_size, default_value = "128")]
    object: u64,
    /// Percent of Aquifer's log that live records take
    #[arg(long, default_value_t = 67, value_parser = clap::value_parser!(u32).range(1..=95))]
    fill: u32,
    /// Allowance over --ram in everybody's cgroup, for the harness [default: 5 %, at least 8M]
    #[arg(long, value_parser = parse_size)]
    slack: Option<u64>,
    /// Seconds of warm-up before each later run of the same point
    #[arg(long, default_value_t = 1.0)]
    rewarm: f64,
    /// Size of the swap file as a multiple of --data; below 3 the kernel rewrites clean pages
    #[arg(long, default_value_t = 3)]
    swap_factor: u64,
    /// Turn the bits of a byte around once each peer is filled, to see that wrong bytes end the run: OBJECT:BYTE
    #[arg(long, value_parser = parse_flip)]
    flip_byte: Option<Flip>,
}

/// What all peers are given.
#[derive(Clone, Serialize)]
struct Given {
    data_bytes: u64,
    ram_bytes: u64,
    object_bytes: u64,
    /// None for the device, whose reads are uniform whatever the others do.
    distribution: Option<Distribution>,
    read_percent: u32,
    threads: usize,
}

/// The study.
pub struct Micro;

impl Study for Micro {
    const NAME: &str = "micro";
    const ABOUT: &str =
        "An array of small objects, larger than RAM: throughput, latency, memory, bytes written";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] = &[("data", "4G"), ("seconds", "10"), ("warmup", "10")];
    const TABLES: &[&Table] = &[&TABLE];
    const PROMISES: &[Promise] = PROMISES;
    type Options = MicroOptions;
    type Task = MicroTask;

    fn run(session: &mut Session, options: &MicroOptions, data_bytes: u64) -> Result<()> {
        Comparison::open(session, options, data_bytes)?.measure(session)
    }

    fn work(task: MicroTask, parent: &mut Parent) -> Result<Fields> {
        task::work(&task, parent)
    }
}

impl MicroOptions {
    /// The points to measure, in order.
    fn points(&self) -> Vec<Point> {
        if !self.point.is_empty() {
            return self.point.clone();
        }
        let mut points = Vec::new();
        for &distribution in &self.dist {
            for &threads in &self.threads {
                let threads = threads as usize;
                points.extend(self.reads.iter().map(|&read_percent| Point {
                    distribution,
                    read_percent,
                    threads,
                }));
            }
        }
        points
    }

    fn setup(&self, session: &Session, data_bytes: u64) -> Result<Setup> {
        let object_bytes = self.object;
        let wrong = |what: String| Err(Error::Input(what));
        if object_bytes == 0 || !object_bytes.is_multiple_of(8) || !PAGE_BYTES.is_multiple_of(object_bytes) {
            return wrong(format!("--object {object_bytes} is not a multiple of 8 that divides 4096"));
        }
        if data_bytes < 1 << 20 || !data_bytes.is_multiple_of(PAGE_BYTES) {
            return wrong(format!("--data {data_bytes} is not a multiple of 4096 from 1M up"));
        }
        if !(0.0..86_400.0).contains(&self.rewarm) {
            return wrong("--rewarm is neither negative nor over a day".to_owned());
        }
        Ok(Setup {
            dir: session.common.dir.clone(),
            data_bytes,
            object_bytes,
            ram_bytes: session.common.ram,
            flash_bytes: flash_bytes_for(data_bytes, object_bytes, f64::from(self.fill) / 100.0),
            payload: session.payload,
        })
    }

    /// Limit of the control groups.
    fn limit_bytes(&self, ram_bytes: u64) -> u64 {
        ram_bytes + self.slack.unwrap_or(SLACK_BYTES_MIN.max(ram_bytes / 20))
    }
}

/// The peers that are open.
struct Comparison<'a> {
    options: &'a MicroOptions,
    setup: Setup,
    // Before the swap area: the processes must be gone when it is switched off.
    children: BTreeMap<Kind, Runner>,
    /// The file that fio reads; it depends on nothing but threads, and is not measured again for every point.
    device: Option<(Target, BTreeSet<usize>)>,
    swap: Option<SwapArea>,
    /// Times that each peer was opened again.
    reopened: BTreeMap<Kind, usize>,
}

impl<'a> Comparison<'a> {
    fn open(session: &mut Session, options: &'a MicroOptions, data_bytes: u64) -> Result<Self> {
        let setup = options.setup(session, data_bytes)?;
        let (children, device, reopened) = (BTreeMap::new(), None, BTreeMap::new());
        let mut own = Self { options, setup, children, device, swap: None, reopened };
        check_disk(&own.setup.dir, &own.setup, &options.peer, own.swap_bytes())?;
        let everywhere = own.everywhere();
        for &kind in &options.peer {
            session.progress.doing(format!("{kind}: opening"));
            if kind == Kind::Fio {
                let target = session.attempt("fio", &everywhere, |session| own.target(session))?;
                own.device = target.map(|target| (target, BTreeSet::new()));
            } else if let Some(child) =
                session.attempt(kind.name(), &everywhere, |session| own.child(session, kind))?
            {
                own.children.insert(kind, child);
            }
        }
        Ok(own)
    }

    fn swap_bytes(&self) -> u64 {
        let is_used = self.options.peer.iter().any(|kind| kind.needs_swap());
        u64::from(is_used) * self.options.swap_factor * self.setup.data_bytes
    }

    fn target(&self, session: &Session) -> Result<Target> {
        let total = self.setup.data_bytes;
        Target::create(&self.setup.dir, total, |done| {
            session.progress.doing(format!("fio: writing its file {} %", done * 100 / total));
        })
    }

    /// Starts and fills a peer.
    fn child(&mut self, session: &Session, kind: Kind) -> Result<Runner> {
        if kind.needs_swap() && self.swap.is_none() {
            self.swap = Some(SwapArea::create(&self.setup.dir, self.swap_bytes())?);
        }
        let _zswap = compression(kind)?;
        let limit_bytes = self.options.limit_bytes(self.setup.ram_bytes);
        let group = match Cgroup::create(kind.name(), limit_bytes, kind.needs_swap()) {
            Ok(group) => Some(group),
            Err(error) if kind.needs_cgroup() => return Err(error),
            Err(error) => {
                session.progress.note(&format!("{kind} runs without a cgroup: {error}"));
                None
            }
        };
        let task = MicroTask { kind, setup: self.setup.clone(), flip: self.options.flip_byte };
        let mut child = session.start_in(group, kind.environment(), kind.name(), &task)?;
        child.expect_ready(&session.progress)?;
        Ok(child)
    }

    fn measure(mut self, session: &mut Session) -> Result<()> {
        let points = self.options.points();
        session.progress.expect(u64::from(session.common.runs) * (points.len() * self.children.len()) as u64);
        for point in points {
            let given = Given {
                distribution: Some(point.distribution),
                read_percent: point.read_percent,
                ..self.given(point)
            };
            for run in 1..=session.common.runs {
                let open: Vec<Kind> = self.children.keys().copied().collect();
                session.round(run, &open, std::slice::from_ref(&given), |session, cell, run| {
                    self.turn(session, cell, point, run)
                })?;
            }
            self.measure_device(session, point)?;
        }
        self.prove_all(session)
    }

    /// What a point gives to all peers; the device has no distribution and is read alone.
    fn given(&self, point: Point) -> Given {
        let Setup { data_bytes, ram_bytes, object_bytes, .. } = self.setup;
        Given {
            data_bytes,
            ram_bytes,
            object_bytes,
            distribution: None,
            read_percent: 100,
            threads: point.threads,
        }
    }

    /// The point of a peer that is left out at all of them.
    fn everywhere(&self) -> Given {
        self.given(Point { distribution: Distribution::Uniform, read_percent: 100, threads: 0 })
    }

    /// One run of a peer, which is gone if that fails.
    fn turn(
        &mut self,
        session: &mut Session,
        cell: &Cell<Kind, Given>,
        point: Point,
        run: u32,
    ) -> Result<Fields> {
        let kind = cell.peer;
        let mut child = self.children.remove(&kind).expect("an open peer");
        let mut figures = self.run(session, kind, &mut child, point, run, run == 1);
        if let Err(Error::Killed { what, .. }) = &figures
            && self.may_reopen(kind)
        {
            session.progress.note(&format!("{kind} {what}; it is opened and filled again"));
            drop(child);
            child = self.child(session, kind)?;
            figures = self.run(session, kind, &mut child, point, run, true);
        }
        let figures = figures?.with("reopened", self.reopened.get(&kind));
        self.children.insert(kind, child);
        Ok(figures)
    }

    /// Under heavy writes in a small group the kernel now and then finds nothing to swap out and kills the process; that
    /// alone must not end a comparison of hours. A process that ends in any other way has failed.
    fn may_reopen(&mut self, kind: Kind) -> bool {
        let times = self.reopened.entry(kind).or_default();
        *times += 1;
        *times <= REOPENED_MAX
    }

    fn run(
        &self,
        session: &Session,
        kind: Kind,
        child: &mut Runner,
        point: Point,
        run: u32,
        is_cold: bool,
    ) -> Result<Fields> {
        let _zswap = compression(kind)?;
        let warmup_s = if is_cold { session.common.warmup } else { self.options.rewarm };
        let background_write_bytes_per_s = session.settle()?;
        child.send(&RunRequest { point, warmup_s, seconds: session.common.seconds, seed: run.into() })?;
        let figures = child.figures(&session.progress)?;
        Ok(figures.with("background_write_bytes_per_s", background_write_bytes_per_s))
    }

    /// fio's reads with the threads of `point`, unless they are known.
    fn measure_device(&mut self, session: &mut Session, point: Point) -> Result<()> {
        let given = self.given(point);
        let Some((target, measured)) = &mut self.device else { return Ok(()) };
        if !measured.insert(point.threads) {
            return Ok(());
        }
        session.turns(&FIO.map(|(name, _)| name), [given], |session, cell, _| {
            session.settle()?;
            let block = FIO.iter().find(|(name, _)| *name == cell.peer).expect("one of them");
            let reads =
                target.measure(block.1, point.threads, Duration::from_secs_f64(session.common.seconds))?;
            Ok(Fields::default()
                .with("ops_per_s", reads.ops_per_s)
                .with("p50_ns", reads.p50_ns)
                .with("p99_ns", reads.p99_ns))
        })
    }

    /// A last look at the objects whose last writes are known.
    fn prove_all(self, session: &mut Session) -> Result<()> {
        let everywhere = self.everywhere();
        for (kind, mut child) in self.children {
            session.progress.doing(format!("{kind}: reading watched objects"));
            child.close_requests();
            let figures =
                session.attempt(kind.name(), &everywhere, |session| child.figures(&session.progress))?;
            if let Some((proven, alone)) =
                figures.and_then(|f| Some((f.number("verify_ns")?, f.number("read_ns")?)))
            {
                let bytes = self.setup.object_bytes;
                session.progress.note(&format!(
                    "{kind}: reading and proving an object of {bytes} bytes in RAM takes {proven:.0} ns, reading it {alone:.0} ns"
                ));
            }
        }
        Ok(())
    }
}

/// zswap is on for its peer, and off for the others that swap.
fn compression(kind: Kind) -> Result<Option<Zswap>> {
    match kind {
        Kind::Zswap => Zswap::switch_on().map(Some),
        kind if kind.needs_swap() => Zswap::switch_off(),
        _ => Ok(None),
    }
}

/// `DIST:READS:THREADS`, as in `zipf:50:8`.
fn parse_point(text: &str) -> std::result::Result<Point, String> {
    let parse = || {
        let mut parts = text.split(':');
        let distribution = clap::ValueEnum::from_str(parts.next()?, false).ok()?;
        let read_percent = parts.next()?.parse().ok().filter(|percent| *percent <= 100)?;
        let threads = parts.next()?.parse().ok().filter(|threads| (1..=1024).contains(threads))?;
        parts.next().is_none().then_some(Point { distribution, read_percent, threads })
    };
    parse().ok_or_else(|| format!("'{text}' is not DIST:READS:THREADS, as in zipf:50:8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_parsed() {
        let point = Point { distribution: Distribution::ScatteredHot, read_percent: 0, threads: 8 };
        assert_eq!(parse_point("scattered-hot:0:8"), Ok(point));
        for text in ["zipf", "zipf:101:8", "zipf:50", "zipf:50:8:1", "zipf:50:0", "pareto:50:8"] {
            assert!(parse_point(text).is_err(), "{text}");
        }
    }
}
