//! The servers in the race: opened, filled, measured when it is their turn, and proven in the end.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::client::{Client, Tally};
use super::command::{Plan, may_stay_root};
use super::connection::{Connection, Failure};
use super::load::{self, Clock};
use super::peer::{Peer, Programs};
use super::value::Values;
use super::versions::Versions;
use super::{MemcachedOptions, Point};
use crate::cgroup::Cgroup;
use crate::contents::Flip;
use crate::device::{Counters, Device};
use crate::error::{Error, Result};
use crate::process::Memory;
use crate::server::Server;
use crate::study::{Cell, Fields, Session};
use crate::swap::SwapArea;
use crate::zswap::Zswap;

/// Times that a server that is killed is started and filled again, for each size of values.
const REOPENED_MAX: u32 = 2;
/// Keys that are read in the end, spread over all.
const PROVEN_KEYS: u64 = 4096;
/// Counters of memcached that go into figures: what it holds and what it has dropped, since it was started.
const STATS: &str = "curr_items total_items evictions hash_bytes extstore_page_evictions extstore_objects_evicted \
                     extstore_objects_written extstore_objects_read extstore_compact_lost miss_from_extstore";
/// Of these, values that the server dropped by itself.
const DROPPED: [&str; 3] = ["evictions", "extstore_objects_evicted", "extstore_compact_lost"];

/// The servers that are filled, which stay so over all turns.
pub struct Race<'a> {
    options: &'a MemcachedOptions,
    plan: Plan,
    values: Values,
    programs: Programs,
    device: Device,
    swap_bytes: u64,
    // Before the swap area: the servers must be gone when it is switched off.
    filled: BTreeMap<Peer, Filled>,
    /// How often each was started again.
    reopened: BTreeMap<Peer, u32>,
    swap: Option<SwapArea>,
}

impl<'a> Race<'a> {
    /// Makes a race without servers. `swap_bytes` is the size of the swap file of all peers that swap.
    pub fn new(options: &'a MemcachedOptions, plan: Plan, values: Values, swap_bytes: u64) -> Result<Self> {
        let programs = Programs::find(options.build.as_deref())?;
        let device = Device::holding(&plan.dir)?;
        let (filled, reopened, swap) = (BTreeMap::new(), BTreeMap::new(), None);
        Ok(Self { options, plan, values, programs, device, swap_bytes, filled, reopened, swap })
    }

    /// Starts the server of `peer`, sets every key once, and flips a byte if that is wanted.
    pub fn open(&mut self, session: &Session, peer: Peer) -> Result<()> {
        session.progress.doing(format!("{peer}: starting"));
        let [_, program] = self.programs.memcached(peer)?;
        let _zswap = switch_zswap(peer)?;
        if peer.swaps() && self.swap.is_none() {
            self.swap = Some(SwapArea::create(&self.plan.dir, self.swap_bytes)?);
        }
        let cgroup = self.cgroup(session, peer)?;
        let given_bytes = self.plan.given_bytes(peer, idle_bytes(peer, &program, &self.plan.dir)?)?;
        let command = self.plan.command(peer, &self.programs, given_bytes)?;
        let files = if peer == Peer::Extstore { vec![self.plan.extstore_path()] } else { Vec::new() };
        let (is_limited, count) = (cgroup.is_some(), self.plan.items);
        let server = Server::start(&peer.to_string(), command, "-s", &self.plan.dir, cgroup, files)?;
        let connections =
            (0..self.options.clients).map(|_| Connection::open(&server)).collect::<Result<_>>()?;
        let (values, versions, given) = (self.values, Versions::new(count), Fields::default());
        let mut filled = Filled { peer, values, server, connections, versions, given };
        let started = Instant::now();
        let tally = filled.with_clients(|clients, _| {
            let tally = load::fill(clients, count, self.options.fill_rate, |done| {
                session.progress.doing(format!("{peer}: setting {count} keys, {} %", 100 * done / count));
            })?;
            let flip = self.options.flip_byte;
            flip.map_or(Ok(()), |flip| clients[0].flip(flip.object, flip.byte as usize)).map(|()| tally)
        })?;
        filled.given = Fields::default()
            .with("items", count)
            .with("items_bytes", self.plan.data_bytes)
            .with("given_bytes", given_bytes)
            .with("limit_bytes", is_limited.then_some(self.plan.ram_bytes))
            .with("flash_bytes", (!peer.swaps()).then(|| self.plan.flash_bytes()))
            .with("swap_bytes", self.swap.as_ref().filter(|_| peer.swaps()).map(SwapArea::bytes))
            .with("fill_s", started.elapsed().as_secs_f64())
            .with("fill_refused", tally.refused);
        self.filled.insert(peer, filled);
        Ok(())
    }

    fn cgroup(&self, session: &Session, peer: Peer) -> Result<Option<Cgroup>> {
        match Cgroup::create(&format!("memcached-{peer}"), self.plan.ram_bytes, peer.swaps()) {
            Ok(cgroup) => Ok(Some(cgroup)),
            Err(error) if peer.needs_cgroup() => Err(error),
            Err(error) => {
                session.progress.note(&format!("{peer} runs without a cgroup: {error}"));
                Ok(None)
            }
        }
    }

    /// All runs of a point, in each of which the servers that are still there take turns.
    pub fn measure(&mut self, session: &mut Session, point: &Point) -> Result<()> {
        for run in 1..=session.common.runs {
            let peers: Vec<Peer> = self.filled.keys().copied().collect();
            session.round(run, &peers, std::slice::from_ref(point), |session, cell, run| {
                self.turn(session, cell, run)
            })?;
        }
        Ok(())
    }

    /// Measures one run of a server, which is removed if the run fails. A server that the kernel kills is started and filled again, up to
    /// [`REOPENED_MAX`] times: it must not end a long comparison.
    fn turn(&mut self, session: &Session, cell: &Cell<Peer, Point>, run: u32) -> Result<Fields> {
        let measured = self.one(session, cell, run, run == 1);
        let Err(Error::Killed { what, .. }) = &measured else { return measured };
        let reopened = self.reopened.entry(cell.peer).or_default();
        *reopened += 1;
        if *reopened > REOPENED_MAX {
            return measured;
        }
        session.progress.note(&format!("{} {what}; it is started and filled again", cell.peer));
        self.open(session, cell.peer)?;
        self.one(session, cell, run, true)
    }

    fn one(
        &mut self,
        session: &Session,
        cell: &Cell<Peer, Point>,
        run: u32,
        is_cold: bool,
    ) -> Result<Fields> {
        let mut filled = self.filled.remove(&cell.peer).expect("it is in the race");
        let load = cell.point.load.expect("points have one");
        let warmup_s = if is_cold { session.common.warmup } else { self.options.rewarm };
        let _zswap = switch_zswap(cell.peer)?;
        let background = session.settle()?;
        let (count, mut watch) = (self.plan.items, Watch::default());
        let tally = filled.with_clients(|clients, server| {
            let mut clock = Clock::new(warmup_s, session.common.seconds);
            load::run(clients, load, count, run.into(), || {
                let (phase, begins) = clock.look();
                let looked = watch.look(server, &self.device, begins);
                looked.map(|()| phase).map_err(|error| Failure::Broken(error.to_string()))
            })
        })?;
        let stats = filled
            .stats(count, tally.refused)?
            .with("background_write_bytes_per_s", background)
            .with("reopened", self.reopened.get(&cell.peer));
        let figures = filled.given.clone().and(stats).and(watch.figures(&tally)).and(of_clients(&tally));
        self.filled.insert(cell.peer, filled);
        Ok(figures)
    }

    /// Reads keys that are spread over all, and the flipped one, from every server: a wrong value shows here that no request asked for.
    pub fn prove(&mut self, session: &mut Session, given: &Point) -> Result<()> {
        let step = self.plan.items.div_ceil(PROVEN_KEYS) as usize;
        for (peer, filled) in &mut self.filled {
            let flipped = self.options.flip_byte.map(|Flip { object, .. }| object);
            let keys = (0..self.plan.items).step_by(step).chain(flipped);
            let prove = |_: &mut _| filled.with_clients(|clients, _| clients[0].get_all(keys));
            session.attempt(&peer.to_string(), given, prove)?;
        }
        Ok(())
    }
}

/// Kernel swap with compression, or without, for as long as a peer that swaps runs.
fn switch_zswap(peer: Peer) -> Result<Option<Zswap>> {
    match peer {
        Peer::Zswap => Zswap::switch_on().map(Some),
        Peer::Swap => Zswap::switch_off(),
        _ => Ok(None),
    }
}

/// What `program` takes before it holds anything, seen at one that is started for this.
fn idle_bytes(peer: Peer, program: &Path, dir: &Path) -> Result<u64> {
    let mut command = Command::new(program);
    may_stay_root(&mut command);
    let server = Server::start(&format!("{peer}-idle"), command, "-s", dir, None, Vec::new())?;
    Ok(server.memory()?.total_bytes())
}

/// A filled server with the connections of its clients.
struct Filled {
    peer: Peer,
    values: Values,
    server: Server,
    connections: Vec<Connection>,
    versions: Versions,
    /// What is the same in each run.
    given: Fields,
}

impl Filled {
    /// The connections are clients while `work` runs, and connections again after it.
    fn with_clients<T>(
        &mut self,
        work: impl FnOnce(&mut [Client<'_>], &Server) -> std::result::Result<T, Failure>,
    ) -> Result<T> {
        let connections = self.connections.drain(..);
        let client = |connection| Client::new(connection, &self.versions, self.values);
        let mut clients: Vec<_> = connections.map(client).collect();
        let result = work(&mut clients, &self.server);
        self.connections = clients.into_iter().map(Client::into_connection).collect();
        result.map_err(|failure| failure.at(&self.peer.to_string(), &mut self.server))
    }

    /// What the server counted since it was started, with the sets that it refused in the run.
    fn stats(&mut self, items: u64, refused: u64) -> Result<Fields> {
        let (stats, name) = (self.connections[0].stats(), self.peer.to_string());
        let stats = stats.map_err(|failure| failure.at(&name, &mut self.server))?;
        let number = |name: &str| stats.get(name).and_then(|value| value.parse::<u64>().ok());
        let refused = refused as f64 + self.given.number("fill_refused").unwrap_or(0.0);
        let dropped = DROPPED.iter().filter_map(|name| number(name)).sum::<u64>() as f64 + refused;
        let held_percent = 100.0 * number("curr_items").unwrap_or(0) as f64 / items as f64;
        let figures = Fields::default().with("dropped", dropped).with("held_percent", held_percent);
        Ok(STATS
            .split_whitespace()
            .fold(figures, |figures, name| figures.with(&format!("stats.{name}"), number(name))))
    }
}

fn of_clients(tally: &Tally) -> Fields {
    Fields::of(tally)
        .with("lost_percent", 100.0 * tally.lost as f64 / tally.gets.max(1) as f64)
        .with("p50_ns", tally.latency_ns.value_at_percentile(50.0))
        .with("p99_ns", tally.latency_ns.value_at_percentile(99.0))
}

/// What is seen of a server and its disk while it is measured; of memory the largest so far.
#[derive(Default)]
struct Watch {
    ends: Vec<(Instant, f64, Counters)>,
    memory: Memory,
    charged_bytes: Option<u64>,
}

impl Watch {
    /// Looks at its memory if time is measured, and at all counters at the beginning and at the end of that.
    fn look(&mut self, server: &Server, device: &Device, is_end: bool) -> Result<()> {
        if is_end {
            self.ends.push((Instant::now(), server.cpu_s()?, device.counters()?));
        }
        if !self.ends.is_empty() {
            self.memory = self.memory.max(server.memory()?);
            self.charged_bytes = self.charged_bytes.max(server.charged_bytes()?);
        }
        Ok(())
    }

    fn figures(&self, tally: &Tally) -> Fields {
        let [(began, cpu_before, before), (ended, cpu, device)] = self.ends[..] else {
            return Fields::default();
        };
        let (seconds, device) = ((ended - began).as_secs_f64(), device.since(before));
        Fields::default()
            .with("seconds", seconds)
            .with("cpu_us_each", (cpu - cpu_before) * 1e6 / tally.requests().max(1) as f64)
            .with("memory", self.memory)
            .with("memory_bytes", self.memory.total_bytes())
            .with("charged_bytes", self.charged_bytes)
            .with("device", device)
            .with("written_bytes_per_s", device.written_bytes as f64 / seconds)
    }
}
