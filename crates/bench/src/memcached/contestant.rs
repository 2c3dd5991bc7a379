//! One server in the race: opened, filled, and measured when it is its turn.

use std::time::{Duration, Instant};

use super::client::{Client, Failure};
use super::command::Plan;
use super::connection::Connection;
use super::load::{self, Point};
use super::options::MemcachedOptions;
use super::peer::Peer;
use super::programs::Programs;
use super::ram::Shares;
use super::sample::Sample;
use super::server::Server;
use super::versions::Versions;
use crate::cgroup::Cgroup;
use crate::device::{Counters, Device};
use crate::error::{Error, Result};
use crate::machine::Context;
use crate::process::Memory;
use crate::progress::Progress;
use crate::workload::Phase;

/// Ticks between two looks at the server's memory.
const MEMORY_TICKS: u32 = 10;

/// A filled server with the connections of its clients.
#[derive(Debug)]
pub struct Contestant {
    peer: Peer,
    plan: Plan,
    shares: Shares,
    limited: bool,
    server: Server,
    connections: Vec<Connection>,
    versions: Versions,
    fill_s: f64,
    fill_refused: u64,
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// What the clients ask for.
    pub point: Point,
    /// Unmeasured time before.
    pub warmup: Duration,
    /// Measured time.
    pub length: Duration,
    /// Number of the run, from 1.
    pub run: u32,
    /// Size of the swap area, for the record.
    pub swap_bytes: Option<u64>,
}

impl Contestant {
    /// Starts `peer` in `cgroup` and sets every key once.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it does not start, [`Error::Child`] if it dies.
    pub fn open(
        peer: Peer,
        plan: &Plan,
        programs: &Programs,
        options: &MemcachedOptions,
        cgroup: Option<Cgroup>,
        progress: &Progress,
    ) -> Result<Self> {
        programs.check(peer)?;
        let program_bytes = program_bytes(peer, plan, programs)?;
        let shares = Shares::new(peer, plan, program_bytes, options.settings())?;
        let command = plan.command(peer, programs, &shares);
        let files = if peer == Peer::Extstore { vec![plan.extstore_path()] } else { Vec::new() };
        let limited = cgroup.is_some();
        let server = Server::start(&peer.to_string(), command, &plan.dir, cgroup, files)?;
        let connections = (0..options.clients).map(|_| server.connect()).collect::<Result<_>>()?;
        let versions = Versions::new(plan.items);
        let (plan, fill_s, fill_refused) = (plan.clone(), 0.0, 0);
        let mut contestant =
            Self { peer, plan, shares, limited, server, connections, versions, fill_s, fill_refused };
        contestant.fill(options.fill_rate, progress)?;
        Ok(contestant)
    }

    fn fill(&mut self, keys_per_s: Option<f64>, progress: &Progress) -> Result<()> {
        let (peer, count) = (self.peer, self.plan.items);
        let started = Instant::now();
        let filled = self.with_clients(|clients| {
            load::fill(clients, count, keys_per_s, |done| {
                progress.doing(format!("{peer}: setting {count} keys, {} %", 100 * done / count));
            })
        });
        self.fill_refused = self.checked(filled)?;
        self.fill_s = started.elapsed().as_secs_f64();
        Ok(())
    }

    /// Which server it is.
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// Lets the clients make requests, and measures.
    ///
    /// # Errors
    /// [`Error::Child`] if the server dies, [`Error::WrongData`] if it gives a wrong value.
    pub fn measure(
        &mut self,
        turn: &Turn,
        device: &Device,
        background: u64,
        context: &Context,
    ) -> Result<Sample> {
        let seed = u64::from(turn.run);
        let count = self.plan.items;
        let mut watch = Watch::new(turn, device);
        let measured = self.with_clients_and_server(|clients, server| {
            load::run(clients, turn.point, count, seed, || watch.phase(server))
        });
        let measured = self.checked(measured)?;
        let stats = self.connections[0].stats();
        let stats = stats.map_err(|what| self.server.broken(what))?;
        let (begin, end) = watch.ends().map_err(|error| self.server.broken(error.to_string()))?;
        Ok(Sample {
            peer: self.peer,
            run: turn.run,
            data_bytes: self.plan.data_bytes,
            ram_bytes: self.plan.ram_bytes,
            limit_bytes: self.limited.then_some(self.plan.ram_bytes),
            given_bytes: self.shares.given_bytes,
            swap_bytes: turn.swap_bytes.filter(|_| self.peer == Peer::Swap),
            flash_bytes: (self.peer != Peer::Swap).then(|| self.plan.flash_bytes()),
            items: self.plan.items,
            value_bytes: self.plan.value_bytes,
            point: turn.point,
            seed,
            fill_s: self.fill_s,
            fill_refused: self.fill_refused,
            warmup_s: turn.warmup.as_secs_f64(),
            seconds: (end.at - begin.at).as_secs_f64(),
            requests_per_s: measured.requests_per_s,
            hits_per_s: measured.hits_per_s,
            gets: measured.gets,
            hits: measured.hits,
            lost: measured.lost,
            sets: measured.sets,
            refused: measured.refused,
            p50_ns: measured.latency_ns.value_at_percentile(50.0),
            p99_ns: measured.latency_ns.value_at_percentile(99.0),
            memory: end.memory,
            charged_bytes: end.charged_bytes,
            cpu_s: end.cpu_s - begin.cpu_s,
            device: end.device.since(begin.device),
            background_write_bytes_per_s: background,
            stats,
            context: context.clone(),
        })
    }

    fn with_clients<T>(&mut self, work: impl FnOnce(&mut [Client<'_>]) -> T) -> T {
        self.with_clients_and_server(|clients, _| work(clients))
    }

    /// The connections are clients while `work` runs, and connections again after it.
    fn with_clients_and_server<T>(&mut self, work: impl FnOnce(&mut [Client<'_>], &Server) -> T) -> T {
        let value_bytes = self.plan.value_bytes as usize;
        let connections = self.connections.drain(..);
        let client = |connection| Client::new(connection, &self.versions, value_bytes);
        let mut clients: Vec<_> = connections.map(client).collect();
        let result = work(&mut clients, &self.server);
        self.connections = clients.into_iter().map(Client::into_connection).collect();
        result
    }

    fn checked<T>(&mut self, result: std::result::Result<T, Failure>) -> Result<T> {
        result.map_err(|failure| match failure {
            Failure::Broken(what) => self.server.broken(what),
            Failure::WrongData(what) => Error::WrongData { peer: self.peer.to_string(), what },
        })
    }
}

/// What the program of `peer` takes before it holds anything, seen at one that is started for this.
fn program_bytes(peer: Peer, plan: &Plan, programs: &Programs) -> Result<u64> {
    let mut command = std::process::Command::new(programs.memcached(peer));
    // SAFETY: a plain question.
    if unsafe { libc::geteuid() } == 0 {
        command.args(["-u", "root"]);
    }
    let server = Server::start(&format!("{peer}-idle"), command, &plan.dir, None, Vec::new())?;
    Ok(server.memory()?.total_bytes())
}

/// What is known at one end of the measured phase.
#[derive(Clone, Copy, Debug)]
struct End {
    at: Instant,
    cpu_s: f64,
    device: Counters,
    /// The largest so far.
    memory: Memory,
    /// The largest so far.
    charged_bytes: Option<u64>,
}

/// Warm-up and measurement by the clock.
struct Watch<'a> {
    turn: &'a Turn,
    device: &'a Device,
    started: Instant,
    ticks: u32,
    memory: Memory,
    charged_bytes: Option<u64>,
    begin: Option<End>,
    end: Option<End>,
    failure: Option<Error>,
}

impl<'a> Watch<'a> {
    fn new(turn: &'a Turn, device: &'a Device) -> Self {
        let (ticks, memory, started) = (0, Memory::default(), Instant::now());
        let (charged_bytes, begin, end, failure) = (None, None, None, None);
        Self { turn, device, started, ticks, memory, charged_bytes, begin, end, failure }
    }

    fn phase(&mut self, server: &Server) -> Phase {
        self.step(server).unwrap_or_else(|error| {
            self.failure = Some(error);
            Phase::Stop
        })
    }

    fn step(&mut self, server: &Server) -> Result<Phase> {
        let Some(begin) = self.begin else {
            if self.started.elapsed() < self.turn.warmup {
                return Ok(Phase::WarmUp);
            }
            self.begin = Some(self.look(server)?);
            return Ok(Phase::Measure);
        };
        self.ticks += 1;
        let over = begin.at.elapsed() >= self.turn.length;
        if over {
            self.end = Some(self.look(server)?);
            return Ok(Phase::Stop);
        }
        if self.ticks.is_multiple_of(MEMORY_TICKS) {
            self.look_at_memory(server)?;
        }
        Ok(Phase::Measure)
    }

    fn look(&mut self, server: &Server) -> Result<End> {
        self.look_at_memory(server)?;
        Ok(End {
            at: Instant::now(),
            cpu_s: server.cpu_s()?,
            device: self.device.counters()?,
            memory: self.memory,
            charged_bytes: self.charged_bytes,
        })
    }

    fn look_at_memory(&mut self, server: &Server) -> Result<()> {
        self.memory = self.memory.max(server.memory()?);
        self.charged_bytes = self.charged_bytes.max(server.charged_bytes()?);
        Ok(())
    }

    fn ends(self) -> Result<(End, End)> {
        match self.failure {
            Some(error) => Err(error),
            None => Ok(self.begin.zip(self.end).expect("both are set before a run without failure ends")),
        }
    }
}
