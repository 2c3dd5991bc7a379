//! Unchanged programs whose memory is local in part, the rest elsewhere: what share of their speed do they keep?
//!
//! The question is that of Gu et al. ("Efficient memory disaggregation with Infiniswap", 2017): memcached, a database, PageRank and a shuffle with 100, 75 and
//! 50 % of their memory local. Here programs that others wrote (`program`) run with everything local first, which says how much memory that is and what
//! they print; then each in a control group of a share of it, on each peer (`peer`) in turns. What they print must be the same, and so must be all values of
//! the servers.
//!
//! | file | noun |
//! |---|---|
//! | `program` | what runs: data, command lines, and what of the output counts |
//! | `job` | a program that runs to its end, and its output beside that of another run |
//! | `servers` | memcached and Redis, and those who ask them |
//! | `peer` | what lies below the RAM, made for a run and taken away after it |
//! | `block` | swap on `aquifer block` |
//! | `slots` | what a program has in the swap area, also of pages that are in RAM |

mod block;
mod job;
mod peer;
mod program;
mod servers;
mod slots;

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use aquifer_base::units::parse_size;
use clap::Args;
use serde::Serialize;

use crate::cgroup::Cgroup;
use crate::child::Parent;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::process::Memory;
use crate::study::{Cell, Fields, Session, Study, Table, key, median, range, ratio, text};
use job::{Output, Run};
use peer::{Below, Peer};
use program::{DataFile, Job, Program};
use servers::Asked;
use slots::Slots;

/// How often a process is looked at.
const STEP: Duration = Duration::from_millis(5);
/// How often a run is tried whose program the kernel kills.
const TRIES: u32 = 3;

const EXAMPLES: &str = "\
Examples:
  aquifer-bench far --out results.jsonl
      All programs and peers, 256 MiB of data, 100, 75 and 50 % local, medians of 5; hours
  aquifer-bench far --program etc,pagerank --peer swap,donors --share 50 --runs 3
  aquifer-bench far --data 64M --seconds 1 --warmup 0.5 --runs 1
      A first look in some minutes
  aquifer-bench far --peer swap,donors,shared --share 50 --disk-iops 3000
      The same disk as if it were an ordinary volume of a cloud
  aquifer-bench far --program sort,redis --payload text
  aquifer-bench table results.jsonl

Every program is run with all of its memory local first, which says how much that is and what it prints; then in a
control group of a share of it, the peers in turns. --seconds and --warmup are those of memcached, and redis-benchmark
makes 20,000 requests of each kind for each of --seconds; sqlite, pagerank and sort do the same work however long it takes.
donors and block-swap borrow over TCP on loopback; shared and block-shared map the memory of the same donors, as
with a network that wakes nobody. rdma-like is shared, and each transfer takes 3 us at least.
Everything but local needs root for control groups; swap, zswap, block-swap and block-shared for their areas, the last two
also FUSE and loop devices. All five of donors need cargo build --release -p aquifer-cli -p aquifer-preload.
etc and sys need the package memcached, redis redis-server and redis-tools, pagerank python3-igraph, sqlite speedtest1,
which scripts/sqlite-tests.sh builds. --disk-iops needs the kernel's blkio controller (io in cgroups of version 2);
block-swap and block-shared are left out with it, because their server is outside of the group that it limits. In
version 1 the kernel writes to swap outside of it as well, so that reads alone are limited for swap and zswap.
A run that the kernel kills for want of memory is tried twice more, and counted; a value or a line that is wrong ends the call.";

const TABLE: Table = Table {
    title: "Programs with {data_bytes:size} of data, a share of it local, limit of the disk: {disk}",
    keys: &[key("program", "program"), key("local %", "share")],
    peers: &[
        "local",
        "swap",
        "zswap",
        "donors",
        "shared",
        "rdma-like",
        "block-swap",
        "block-shared",
        "redis",
    ],
    columns: &[
        median("speed", "ops_per_s").digits(0).more(),
        text("unit", "unit"),
        ratio("share of all-local", "ops_per_s", &["local"]),
        ratio("x disk swap", "ops_per_s", &["swap"]),
        median("seconds", "seconds").digits(1),
        median("peak RSS MiB", "memory.rss_bytes").mib(),
        median("disk read MiB", "device.read_bytes").mib(),
        median("written MiB", "device.written_bytes").mib(),
        median("% of RSS with a slot", "kept_percent").digits(1),
        median("% clean", "clean_percent").digits(1),
        range("killed, tried again", "killed").digits(0),
    ],
    note: "etc, sys: memcached with 95 and 75 % gets. redis: by redis-benchmark. sqlite: speedtest1 in memory. pagerank: igraph. sort: GNU sort, with the start of its process. \
    Every value, and all that is printed but times, is as with everything local.",
};

/// Options of `far`.
#[derive(Clone, Debug, Args)]
pub struct FarOptions {
    /// Programs to run
    #[arg(long, value_enum, value_delimiter = ',', default_value = "etc,sys,redis,sqlite,pagerank,sort")]
    program: Vec<Program>,
    /// What lies below their RAM; local runs are always made
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "local,swap,zswap,donors,shared,rdma-like,block-swap,block-shared,redis"
    )]
    peer: Vec<Peer>,
    /// Percentages of the program's memory that are local
    #[arg(long, value_delimiter = ',', default_value = "100,75,50", value_parser = clap::value_parser!(u64).range(5..=100))]
    share: Vec<u64>,
    /// Clients of memcached and Redis, each with a connection
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    clients: u16,
    /// RAM of every group beside the local share: code, and kernel memory that the group is charged for
    #[arg(long, value_parser = parse_size, default_value = "12M")]
    reserve: u64,
    /// Reads a second, and writes a second, that a program's group may do on the disk of --dir [default: no limit]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..u64::from(u32::MAX)))]
    disk_iops: Option<u64>,
    /// Seconds after which a program counts as hanging
    #[arg(long, default_value_t = 300.0)]
    limit: f64,
    /// Python that has igraph
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// SQLite's speedtest1 [default: on the PATH, or built by scripts/sqlite-tests.sh]
    #[arg(long)]
    speedtest1: Option<PathBuf>,
    /// Turns a byte of a stored value, or of what is printed, around: the call must end with WRONG DATA and status 1
    #[arg(long)]
    flip_byte: bool,
}

impl FarOptions {
    fn check(&self, data_bytes: u64) -> Result<()> {
        let wrong = |what: &str| Err(Error::Input(what.to_owned()));
        if !(1.0..=86_400.0).contains(&self.limit) {
            return wrong("--limit is from 1 to a day");
        }
        if !(1 << 20..=1 << 40).contains(&data_bytes) {
            return wrong("--data is from 1 MiB to 1 TiB");
        }
        Ok(())
    }

    /// The limit for the disk of a run on `peer`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] for those whose reads and writes are done outside of the group.
    fn disk_iops_of(&self, peer: Peer) -> Result<Option<u64>> {
        if self.disk_iops.is_some() && peer.is_block() {
            let what = format!("the server of {peer} is outside of the group whose disk --disk-iops limits");
            return Err(Error::Unavailable(what));
        }
        // With everything in RAM there is no group.
        Ok(self.disk_iops.filter(|_| peer != Peer::Local))
    }

    /// Everything local; and each share on each peer that `program` can be given.
    fn groups(&self, local: &Point) -> Vec<Vec<Cell<Peer, Point>>> {
        let mut groups = vec![vec![Cell { peer: Peer::Local, point: local.clone() }]];
        for &share in &self.share {
            let point = Point { share: Some(share), ..local.clone() };
            let peers = self.peer.iter().filter(|peer| **peer != Peer::Local && peer.serves(local.program));
            groups.push(peers.map(|&peer| Cell { peer, point: point.clone() }).collect());
        }
        groups
    }
}

/// With everything local there is no share, so that it stands beside all of them.
#[derive(Clone, Serialize)]
struct Point {
    program: Program,
    data_bytes: u64,
    disk: String,
    share: Option<u64>,
    /// Of programs that make their data themselves.
    payload: Option<&'static str>,
}

/// What a run of a program gave.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct Answer {
    /// What the program counts, in the measured time.
    ops: f64,
    /// Length of that.
    seconds: f64,
    /// Time before: data are made or loaded, and warmed up.
    setup_s: f64,
    /// The most that the process had resident, and its page tables.
    memory: Memory,
    /// What it had in the swap area late in the measured time, where it had one.
    slots: Option<Slots>,
}

/// The study.
pub struct Far;

impl Study for Far {
    const NAME: &str = "far";
    const ABOUT: &str =
        "Unchanged programs whose memory is local in part, the rest on other machines or a disk";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] = &[("data", "256M"), ("seconds", "4"), ("warmup", "2")];
    const UNUSED: &[&str] = &["ram"];
    const TABLES: &[&Table] = &[&TABLE];
    type Options = FarOptions;
    type Task = ();

    fn run(session: &mut Session, options: &FarOptions, data_bytes: u64) -> Result<()> {
        options.check(data_bytes)?;
        let disk = options.disk_iops.map(|iops| format!("{iops} reads/s and {iops} writes/s"));
        for &program in &options.program {
            let is_first = session.common.payload.first() == Some(&session.payload);
            if !program.has_payload() && !is_first {
                continue;
            }
            let payload = (!program.has_payload()).then_some("the program's own");
            let disk = disk.clone().unwrap_or_else(|| "none".to_owned());
            let local = Point { program, data_bytes, disk, share: None, payload };
            let load = session
                .attempt("local", &local, |session| Load::native(session, options, program, data_bytes))?;
            let Some(load) = load else { continue };
            // What could not run once is not tried again: it may have taken until its limit.
            let mut refused: HashMap<(Peer, Option<u64>), String> = HashMap::new();
            let groups = options.groups(&local);
            let (runs, cells) = (session.common.runs, groups.iter().map(Vec::len).sum::<usize>());
            session.progress.expect(u64::from(runs) * cells as u64);
            for run in 1..=runs {
                session.round_of(run, &groups, |session, cell, run| {
                    let name = (cell.peer, cell.point.share);
                    if let Some(reason) = refused.get(&name) {
                        return Err(Error::Unavailable(reason.clone()));
                    }
                    let made = load.measure(session, cell, run);
                    if let Err(Error::Unavailable(reason)) = &made {
                        refused.insert(name, reason.clone());
                    }
                    made
                })?;
            }
        }
        Ok(())
    }

    fn work((): (), _: &mut Parent) -> Result<Fields> {
        unreachable!("its programs are those of others")
    }
}

/// A program, and what the run with everything local has shown that the others are held against.
struct Load<'a> {
    options: &'a FarOptions,
    program: Program,
    data_bytes: u64,
    /// None of servers.
    job: Option<Job>,
    /// What a job prints.
    printed: DataFile,
    /// The most memory that it had.
    peak_bytes: u64,
}

impl<'a> Load<'a> {
    /// Makes the data of `program`, and runs it with everything local.
    fn native(session: &Session, options: &'a FarOptions, program: Program, data_bytes: u64) -> Result<Self> {
        let is_server = program.is_cache() || program == Program::Redis;
        let job = (!is_server).then(|| Job::prepare(session, options, program, data_bytes)).transpose()?;
        let printed = DataFile::named(session, "printed");
        let mut load = Self { options, program, data_bytes, job, printed, peak_bytes: 0 };
        let name = format!("{program}, all local");
        let run = Run { name: &name, peer: "local", group: None, swaps: false, limit: load.limit() };
        session.progress.doing(name.clone());
        let command = load.command()?;
        let answer = load.run(session, run, command, 100, &Below::default(), 0)?;
        load.peak_bytes = answer.memory.total_bytes();
        Ok(load)
    }

    fn limit(&self) -> Duration {
        Duration::from_secs_f64(self.options.limit)
    }

    fn command(&self) -> Result<Command> {
        match &self.job {
            Some(job) => Ok(job.command()),
            None => servers::command(self.program, self.data_bytes),
        }
    }

    /// One run, tried again if the kernel kills the program.
    fn measure(&self, session: &Session, cell: &Cell<Peer, Point>, run: u32) -> Result<Fields> {
        let note = |error: &Error| session.progress.note(&format!("{error}; it is tried again"));
        let (killed, figures) = until_not_killed(TRIES, note, || self.measure_once(session, cell, run))?;
        Ok(figures.with("killed", killed))
    }

    fn measure_once(&self, session: &Session, cell: &Cell<Peer, Point>, run: u32) -> Result<Fields> {
        let (peer, share, options) = (cell.peer, cell.point.share.unwrap_or(100), self.options);
        let (name, peer_name) = (format!("{}, {share} % local, {peer}", self.program), peer.to_string());
        let (dir, device) = (&session.common.dir, Device::holding(&session.common.dir)?);
        let disk_iops = options.disk_iops_of(peer)?;
        let below = Below::make(peer, dir, self.peak_bytes)?;
        let limits = Limits::of(self, peer, share);
        let command = below.run(self.command()?, limits.given_bytes, dir, self.peak_bytes)?;
        let group = limits.group_bytes.map(|bytes| group(peer, bytes, &device, disk_iops)).transpose()?;
        session.settle()?;
        let before = device.counters()?;
        let (group, swaps, limit) = (group.as_ref(), peer.swaps(), self.limit());
        let job = Run { name: &name, peer: &peer_name, group, swaps, limit };
        let answer = nudging(group, || self.run(session, job, command, share, &below, run.into()))?;
        let percent = |share: fn(Slots) -> f64| answer.slots.map(|slots| 100.0 * share(slots));
        Ok(Fields::of(&answer)
            .with("ops_per_s", answer.ops / answer.seconds)
            .with("unit", self.program.unit())
            .with("kept_percent", percent(Slots::kept_share))
            .with("clean_percent", percent(Slots::clean_share))
            .with("device", device.counters()?.since(before))
            .with("peak_bytes", self.peak_bytes)
            .with("limit_bytes", limits.group_bytes)
            .with("given_bytes", limits.given_bytes)
            .with("swap_bytes", below.swap_bytes()))
    }

    /// Runs `command`. The first run, whose number is 0, is the one that the others are held against.
    fn run(
        &self,
        session: &Session,
        run: Run<'_>,
        command: Command,
        share: u64,
        below: &Below,
        number: u64,
    ) -> Result<Answer> {
        let Some(job) = &self.job else {
            let items = servers::items(self.program, self.data_bytes);
            let near_percent = if below.redis().is_some() { share } else { 100 };
            let asked = Asked { run, program: self.program, items, near_percent, seed: number };
            return match self.program {
                Program::Redis => asked.redis(session, self.options, command),
                _ => asked.memcached(session, self.options, command, below.redis()),
            };
        };
        let output = match number {
            0 => Output::Kept(self.printed.path()),
            _ => Output::Compared { path: self.printed.path(), is_flipped: self.options.flip_byte },
        };
        let answer = run.finish(command, |line| self.program.compared(line), output)?;
        Ok(Answer { ops: job.count() as f64, ..answer })
    }
}

/// The RAM of a run; none with everything local.
struct Limits {
    /// Limit of its control group, the same for all peers.
    group_bytes: Option<u64>,
    /// `--ram` of `aquifer run`: what is left of the limit for the program's large blocks and all that serves them. The kernel, which has the same
    /// limit, gives pages of the program what is left of the reserve as well.
    given_bytes: Option<u64>,
}

impl Limits {
    fn of(load: &Load<'_>, peer: Peer, share: u64) -> Self {
        if peer == Peer::Local {
            return Self { group_bytes: None, given_bytes: None };
        }
        let local_bytes = load.peak_bytes * share / 100;
        let group_bytes = (local_bytes + load.options.reserve).next_multiple_of(4096);
        let given_bytes = group_bytes.saturating_sub(load.program.outside_bytes());
        Self {
            group_bytes: Some(group_bytes),
            given_bytes: peer.is_run().then_some(given_bytes.max(1 << 20)),
        }
    }
}

fn group(peer: Peer, limit_bytes: u64, device: &Device, disk_iops: Option<u64>) -> Result<Cgroup> {
    let name = format!("far-{peer}");
    let mut group = Cgroup::create(&name, limit_bytes, peer.swaps())?;
    if let Some(iops) = disk_iops {
        group.limit_disk(&name, device, iops)?;
    }
    if peer.swaps() {
        group.wait_for_memory()?;
    }
    Ok(group)
}

/// Wakes processes of `group` that wait for memory, every few milliseconds while `work` is done.
fn nudging<T>(group: Option<&Cgroup>, work: impl FnOnce() -> T) -> T {
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let is_over = AtomicBool::new(group.is_none());
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                group.into_iter().for_each(Cgroup::nudge);
                thread::sleep(STEP);
            }
        });
        let _over = Over(&is_over);
        work()
    })
}

/// What `attempt` makes, and how often the kernel killed it before; `tries` times at most. Nothing else is tried again.
fn until_not_killed<T>(
    tries: u32,
    note: impl Fn(&Error),
    mut attempt: impl FnMut() -> Result<T>,
) -> Result<(u32, T)> {
    let mut killed = 0;
    loop {
        match attempt() {
            Err(error @ Error::Killed { .. }) if killed + 1 < tries => {
                note(&error);
                killed += 1;
            }
            made => return made.map(|made| (killed, made)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell as Counter;

    use super::*;

    #[test]
    fn only_what_the_kernel_killed_is_tried_again() {
        let (noted, mut ends) = (Counter::new(0), vec![]);
        let named = |kind: fn(String, String) -> Error| kind("x".to_owned(), "ended".to_owned());
        let killed = |peer, what| Error::Killed { peer, what };
        let mut attempt = |errors: Vec<Error>| {
            ends = errors;
            until_not_killed(3, |_| noted.set(noted.get() + 1), || ends.pop().map_or(Ok(7), Err))
        };
        assert_eq!(attempt(vec![named(killed)]).expect("at last"), (1, 7));
        assert!(matches!(attempt((0..3).map(|_| named(killed)).collect()), Err(Error::Killed { .. })));
        assert_eq!(noted.get(), 3);
        for error in [
            named(|peer, what| Error::Child { peer, what }),
            named(|peer, what| Error::WrongData { peer, what }),
            named(|_, what| Error::Unavailable(what)),
        ] {
            assert!(attempt(vec![error]).is_err());
        }
        assert_eq!(noted.get(), 3);
    }

    #[test]
    fn shares_are_of_all_local_and_ratios_of_swap_with_the_same_ram() {
        use crate::machine::Context;
        use crate::study::Record;
        let record = |peer: &str, share: Option<u64>, run, ops_per_s: f64| {
            let (disk, payload) = ("none".to_owned(), None);
            let point = Point { program: Program::Sort, data_bytes: 256 << 20, disk, share, payload };
            let figures = Fields::default().with("ops_per_s", ops_per_s).with("unit", Program::Sort.unit());
            let (study, peer, context) = ("far".to_owned(), peer.to_owned(), Context::default());
            Record { study, peer, run, point: Fields::of(&point), figures, left_out: None, context }
        };
        let text = TABLE.render(&[
            record("donors", Some(50), 1, 30.0),
            record("local", None, 1, 100.0),
            record("swap", Some(50), 1, 10.0),
            record("swap", Some(75), 1, 40.0),
        ]);
        for line in [
            "### Programs with 256 MiB of data, a share of it local, limit of the disk: none\n",
            "| sort |  | local | 100 | lines/s | 1.00 | - |",
            "| sort | 50 | swap | 10 | lines/s | 0.10 | 1.00 |",
            "| sort | 50 | donors | 30 | lines/s | 0.30 | 3.00 |",
            "| sort | 75 | swap | 40 | lines/s | 0.40 | 1.00 |",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
