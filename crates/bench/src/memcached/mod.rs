//! memcached with more data than RAM: a real server under real load, beside its alternatives.
//!
//! Every server ([`peer`], [`command`], [`server`]) has the same RAM ([`ram`]) and, for each size of
//! values, is started once and filled once. Clients ([`client`], [`load`]) send requests over UNIX
//! sockets ([`connection`], [`protocol`]) and check every answer ([`value`], [`versions`]). The
//! servers take turns run by run, as in [`crate::micro`], so that a disk that gets slower or faster
//! does so for all of them.

pub mod client;
pub mod command;
pub mod connection;
pub mod contestant;
pub mod load;
pub mod options;
pub mod peer;
pub mod programs;
pub mod protocol;
pub mod ram;
pub mod resp;
pub mod sample;
pub mod server;
pub mod sizes;
pub mod stats;
pub mod value;
pub mod versions;

use std::time::Duration;

use aquifer_base::units::format_size;

use crate::cgroup::Cgroup;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::machine::Context;
use crate::omissions::Omissions;
use crate::progress::Progress;
use crate::sample::{Output, Record, Skipped};
use crate::swap::SwapArea;
use crate::workdir::{WorkDir, free_bytes};
use command::Plan;
use contestant::{Contestant, Turn};
use load::Point;
pub use options::MemcachedOptions;
use peer::Peer;
use programs::Programs;
use sample::Sample;

/// Longest wait for one server's late writes before the next one runs.
const SETTLE_LIMIT: Duration = Duration::from_secs(3);
/// Times that a server that is killed is started and filled again, for each size of values.
const REOPENED_MAX: usize = 2;

/// Runs the comparison.
///
/// # Errors
/// What makes the whole run impossible, and [`Error::WrongData`]. A peer that cannot run is recorded as skipped; if it was not the
/// machine that lacked something, that is the error when all others have run.
pub fn run(options: &MemcachedOptions) -> Result<()> {
    options.check()?;
    let workdir = WorkDir::acquire(&options.dir)?;
    check_disk(options)?;
    let device = Device::holding(workdir.path())?;
    let points = options.points().len() as u64 * u64::from(options.runs) + 1;
    let mut comparison = Comparison {
        options,
        context: Context::here(&device),
        device,
        programs: Programs::find(options.build.as_deref()),
        progress: Progress::new((options.values.len() * options.peer.len()) as u64 * points),
        output: Output::open(options.out.as_deref())?,
        contestants: Vec::new(),
        reopened: Vec::new(),
        omissions: Omissions::default(),
        swap: None,
    };
    options.values.iter().try_for_each(|value_bytes| comparison.compare(&options.plan(*value_bytes)))?;
    comparison.omissions.end()
}

/// Fails early when the disk cannot hold the files of all peers.
fn check_disk(options: &MemcachedOptions) -> Result<()> {
    let plans = options.values.iter().map(|value_bytes| options.plan(*value_bytes));
    let flash_bytes = plans.map(|plan| plan.flash_bytes()).max().unwrap_or(0);
    let needed = |peer: &Peer| match peer {
        Peer::Swap => options.swap_factor * options.data_bytes(),
        _ => flash_bytes,
    };
    let needed = options.peer.iter().map(needed).sum::<u64>();
    let free = free_bytes(&options.dir)?;
    if needed <= free {
        return Ok(());
    }
    Err(Error::Input(format!(
        "{} of disk are needed in {}, {} are free; use smaller --data, fewer --peer, or another --dir",
        format_size(needed),
        options.dir.display(),
        format_size(free),
    )))
}

struct Comparison<'a> {
    options: &'a MemcachedOptions,
    context: Context,
    device: Device,
    programs: Programs,
    progress: Progress,
    output: Output,
    // Before the swap area: the servers must be gone when it is switched off.
    contestants: Vec<(Peer, Contestant)>,
    /// Peers that were started again, once for each time.
    reopened: Vec<Peer>,
    omissions: Omissions,
    swap: Option<SwapArea>,
}

impl Comparison<'_> {
    /// All points with the values of `plan`.
    fn compare(&mut self, plan: &Plan) -> Result<()> {
        self.reopened.clear();
        for &peer in &self.options.peer {
            let opened = self.open(peer, plan);
            if let Some(contestant) = self.or_skip(peer, opened)? {
                self.contestants.push((peer, contestant));
            }
            self.progress.step();
        }
        for point in self.options.points() {
            for run in 1..=self.options.runs {
                self.take_turns(plan, point, run)?;
            }
        }
        self.contestants.clear();
        Ok(())
    }

    fn open(&mut self, peer: Peer, plan: &Plan) -> Result<Contestant> {
        self.progress.doing(format!("{peer}: starting"));
        self.programs.check(peer)?;
        if peer == Peer::Swap && self.swap.is_none() {
            let bytes = self.options.swap_factor * self.options.data_bytes();
            self.swap = Some(SwapArea::create(&self.options.dir, bytes.next_multiple_of(4096))?);
        }
        let cgroup = self.cgroup(peer)?;
        Contestant::open(peer, plan, &self.programs, self.options, cgroup, &self.progress)
    }

    fn cgroup(&self, peer: Peer) -> Result<Option<Cgroup>> {
        match Cgroup::create(&format!("memcached-{peer}"), self.options.ram, peer == Peer::Swap) {
            Ok(cgroup) => Ok(Some(cgroup)),
            Err(error) if peer.needs_cgroup() => Err(error),
            Err(error) => {
                self.progress.note(&format!("{peer} runs without a cgroup: {error}"));
                Ok(None)
            }
        }
    }

    /// What was made, or nothing after recording why the peer is left out from here on. Wrong data
    /// is never passed over.
    fn or_skip<T>(&mut self, peer: Peer, made: Result<T>) -> Result<Option<T>> {
        let reason = match made {
            Ok(made) => return Ok(Some(made)),
            Err(error) => self.omissions.reason(error)?,
        };
        self.progress.note(&format!("{peer} is skipped: {reason}"));
        let peer = format!("memcached {peer}");
        self.output.write(&Record::Skipped(Skipped { peer, reason, context: self.context.clone() }))?;
        Ok(None)
    }

    /// One run of every server that is still in the race.
    fn take_turns(&mut self, plan: &Plan, point: Point, run: u32) -> Result<()> {
        for (peer, mut contestant) in std::mem::take(&mut self.contestants) {
            let mut measured = self.measure(&mut contestant, point, run, run == 1);
            if let Err(Error::Killed { what, .. }) = &measured
                && self.may_reopen(peer)
            {
                self.progress.note(&format!("{peer} {what}; it is started and filled again"));
                drop(contestant);
                let opened = self.open(peer, plan);
                let Some(again) = self.or_skip(peer, opened)? else { continue };
                contestant = again;
                measured = self.measure(&mut contestant, point, run, true);
            }
            if let Some(sample) = self.or_skip(peer, measured)? {
                self.progress.note(&summary(&sample));
                self.output.write(&Record::Memcached(Box::new(sample)))?;
                self.contestants.push((peer, contestant));
            }
            self.progress.step();
        }
        Ok(())
    }

    /// As in the micro-benchmark, one process that the kernel kills must not end a long comparison.
    fn may_reopen(&mut self, peer: Peer) -> bool {
        self.reopened.push(peer);
        self.reopened.iter().filter(|reopened| **reopened == peer).count() <= REOPENED_MAX
    }

    fn measure(&self, contestant: &mut Contestant, point: Point, run: u32, cold: bool) -> Result<Sample> {
        let warmup = if cold { self.options.warmup } else { self.options.rewarm };
        let turn = Turn {
            point,
            warmup: Duration::from_secs_f64(warmup),
            length: Duration::from_secs_f64(self.options.seconds),
            run,
            swap_bytes: self.swap.as_ref().map(SwapArea::bytes),
        };
        let background = self.device.settle(SETTLE_LIMIT)?;
        self.progress.doing(format!("{}: {}, run {run}", contestant.peer(), describe(point)));
        contestant.measure(&turn, &self.device, background, &self.context)
    }
}

fn describe(point: Point) -> String {
    format!("{}, {} % gets, {} clients", point.distribution, point.get_percent, point.clients)
}

fn summary(sample: &Sample) -> String {
    format!(
        "{:>8} {:5} B, {:36} run {}: {:>7.0} requests/s, {:>7.0} hits/s, {:.1} % held, {:.1} % lost, p50 {:.0} us, p99 {:.0} us, \
         {:.1} us of CPU each, RSS + PTE {}, charged {}",
        sample.peer.to_string(),
        sample.value_bytes,
        describe(sample.point),
        sample.run,
        sample.requests_per_s,
        sample.hits_per_s,
        sample.held_percent(),
        sample.lost_percent(),
        sample.p50_ns as f64 / 1e3,
        sample.p99_ns as f64 / 1e3,
        sample.cpu_us_per_request(),
        format_size(sample.memory.total_bytes() >> 20 << 20),
        sample.charged_bytes.map_or("-".to_owned(), |bytes| format_size(bytes >> 20 << 20)),
    )
}
