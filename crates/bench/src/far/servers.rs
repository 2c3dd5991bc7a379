//! The servers of which programs are: started, filled, and asked by clients outside of their control group.
//!
//! memcached is asked after the pools ETC and SYS of Atikoglu et al. ("Workload analysis of a large-scale key-value store", 2012) with the shares of
//! gets and sets that the Infiniswap paper gives them. What is made up: keys are drawn by Zipf 0.99 among all of them, and scattered; lengths of
//! values are one of four, drawn for each key, where the pools' go on without end; nothing is deleted and nothing expires.
//!
//! Redis is asked by its own redis-benchmark, uniformly, for values that this benchmark has set. Half of the requests write, what was there already, so
//! that all values are known in the end.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::job::{Output, Run};
use super::program::{DataFile, Program};
use super::slots::Slots;
use super::{Answer, FarOptions};
use crate::cgroup::Cgroup;
use crate::distribution::Distribution;
use crate::error::{Error, Result};
use crate::memcached::client::Client;
use crate::memcached::command::LISTS;
use crate::memcached::connection::{Connection, Failure};
use crate::memcached::load::{self, Clock, Point};
use crate::memcached::value::{ITEM_HEADER_BYTES, Sizes, Values};
use crate::memcached::versions::Versions;
use crate::payload::Payload;
use crate::programs::installed;
use crate::server::Server;
use crate::study::Session;

/// Percent of the keys, and bytes of their values: 292 on average.
const SIZES: Sizes = Sizes::Mixed(&[(30, 64), (35, 200), (25, 400), (10, 1024)]);
const ETC_GET_PERCENT: u32 = 95;
const SYS_GET_PERCENT: u32 = 75;
/// memcached makes its table larger once there are more items than 3/2 of its buckets.
const ITEMS_PER_2_BUCKETS_MAX: u64 = 3;
const HASH_POWER_MIN: u32 = 16;
/// What Redis has of a key beside the value: the key, an entry, an object, the lengths of both, and what its allocator rounds.
const REDIS_EXTRA_BYTES: f64 = 130.0;
/// How every value of Redis begins, which redis-benchmark writes again.
const BEGINNING: &[u8] = b"aquifer-bench ..";
/// Requests of redis-benchmark for each of `--seconds`: of each kind.
const REDIS_REQUESTS_PER_S: f64 = 20_000.0;
/// Requests that are on their way to Redis at once while it is filled and checked.
const BATCH: u64 = 64;

/// A server that is to be measured.
pub struct Asked<'a> {
    /// As a job.
    pub run: Run<'a>,
    /// memcached or Redis.
    pub program: Program,
    /// Number of keys.
    pub items: u64,
    /// Percent of the keys that memcached has.
    pub near_percent: u64,
    /// Of the choices.
    pub seed: u64,
}

/// Keys whose values fill `data_bytes` of `program`.
pub fn items(program: Program, data_bytes: u64) -> u64 {
    let extra = if program.is_cache() { ITEM_HEADER_BYTES as f64 } else { REDIS_EXTRA_BYTES };
    ((data_bytes as f64 / (SIZES.mean() + extra)) as u64).max(1)
}

/// The server that `program` is, for `data_bytes` of items.
///
/// # Errors
/// [`Error::Unavailable`] with what is to be installed.
pub fn command(program: Program, data_bytes: u64) -> Result<Command> {
    if !program.is_cache() {
        return Redis::command();
    }
    let mut command = Command::new(installed("memcached", "memcached")?);
    // memcached wants to be told that it may stay root.
    // SAFETY: a plain question.
    if unsafe { libc::geteuid() } == 0 {
        command.args(["-u", "root"]);
    }
    // Its table does not grow under load, and nothing that it sets is ever dropped.
    let (mebibytes, power) = (((2 * data_bytes) >> 20) + 64, hash_power(items(program, data_bytes)));
    command.args(["-m", &mebibytes.to_string(), "-o", &format!("hashpower={power},{LISTS}")]);
    Ok(command)
}

fn hash_power(items: u64) -> u32 {
    let is_enough = |power: &u32| (1u64 << power) * ITEMS_PER_2_BUCKETS_MAX / 2 >= items;
    (HASH_POWER_MIN..63).find(is_enough).unwrap_or(HASH_POWER_MIN)
}

impl Asked<'_> {
    /// Starts memcached by `command`, sets every key, measures, and gets every key again. Keys that are not near are in `redis`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it does not start, [`Error::Child`] if it dies, [`Error::WrongData`] if a value is wrong or gone: everybody has the
    /// memory for all of them.
    pub fn memcached(
        &self,
        session: &Session,
        options: &FarOptions,
        command: Command,
        redis: Option<&Redis>,
    ) -> Result<Answer> {
        let setup = Instant::now();
        let mut server = self.start(session, command)?;
        let versions = Versions::new(self.items);
        let values = Values { sizes: SIZES, payload: session.payload };
        let mut clients = Vec::new();
        for _ in 0..options.clients {
            let client = Client::new(Connection::open(&server)?, &versions, values);
            clients.push(match redis {
                Some(redis) => client.with_far(redis.connect()?, self.near_percent),
                None => client,
            });
        }
        let mut fail = |failure: Failure| self.error(failure, &mut server);
        let name = self.run.name;
        let filled = load::fill(&mut clients, self.items, None, |done| {
            session.progress.doing(format!("{name}: setting keys, {} %", 100 * done / self.items));
        });
        let mut refused = filled.map_err(&mut fail)?.refused;
        session.progress.doing(name.to_owned());
        let get_percent = if self.program == Program::Sys { SYS_GET_PERCENT } else { ETC_GET_PERCENT };
        let clients_count = clients.len();
        let point =
            Point { distribution: Distribution::Zipf, get_percent, clients: clients_count, pipeline: 1 };
        let mut clock = Clock::new(session.common.warmup, session.common.seconds);
        let mut ends = Vec::new();
        let measured = load::run(&mut clients, point, self.items, self.seed, || {
            let (phase, begins) = clock.look();
            ends.extend(begins.then(Instant::now));
            Ok(phase)
        });
        let measured = measured.map_err(&mut fail)?;
        let slots = self.slots()?;
        let client = &mut clients[0];
        if options.flip_byte {
            client.flip(0, SIZES.of(0) - 1).map_err(&mut fail)?;
        }
        session.progress.doing(format!("{name}: getting all keys"));
        let lost = measured.lost + client.get_all(0..self.items).map_err(&mut fail)?.lost;
        refused += measured.refused;
        if lost + refused > 0 {
            let what =
                format!("{name}: wanted {} values, {lost} are gone, {refused} were refused", self.items);
            return Err(Error::WrongData { peer: self.run.peer.to_owned(), what });
        }
        let [begin, end] = ends[..] else { unreachable!("time was measured") };
        let seconds = (end - begin).as_secs_f64();
        // The sum of the clients' own rates: each one's time ends with its last reply.
        let ops = measured.requests_per_s * seconds;
        let setup_s = (begin - setup).as_secs_f64();
        Ok(Answer { ops, seconds, setup_s, memory: server.peak()?, slots })
    }

    /// Starts Redis by `command`, sets every key, lets redis-benchmark get and write some, and gets every key.
    ///
    /// # Errors
    /// As [`Asked::memcached`].
    pub fn redis(&self, session: &Session, options: &FarOptions, command: Command) -> Result<Answer> {
        let setup = Instant::now();
        let benchmark = installed("redis-benchmark", "redis-tools")?;
        let mut redis = Redis::start("redis-server", command, &session.common.dir, self.run.group)?;
        let mut connection = redis.connect()?;
        let name = self.run.name;
        session.progress.doing(format!("{name}: setting keys"));
        let filled = set_all(&mut connection, self.items, session.payload);
        filled.map_err(|failure| self.error(failure, &mut redis.server))?;
        session.progress.doing(name.to_owned());
        let setup_s = setup.elapsed().as_secs_f64();
        let requests = (REDIS_REQUESTS_PER_S * session.common.seconds).max(1.0) as u64;
        let mut seconds = 0.0;
        let text = String::from_utf8_lossy(BEGINNING);
        for words in [&["GET", "key:__rand_int__"][..], &["SETRANGE", "key:__rand_int__", "0", &text]] {
            let mut command = Command::new(&benchmark);
            command.args(["-p", &redis.address.port().to_string(), "-n", &requests.to_string(), "--csv"]);
            command.args(["-c", &options.clients.to_string(), "-r", &self.items.to_string()]).args(words);
            let said = DataFile::named(session, "redis-benchmark");
            let run = Run { group: None, ..self.run };
            let ended = run.finish(command, |line| Some(line), Output::Kept(said.path()));
            // It tells of nothing but the connection that has ended when the server has.
            ended.map_err(|error| match error {
                Error::Child { what, .. } => {
                    redis.server.broken(format!("was asked by a program that {what}"))
                }
                error => error,
            })?;
            let said = std::fs::read_to_string(said.path()).map_err(Error::io("reading", said.path()))?;
            let what = format!("was asked by a program that said {said:?}, which is no speed");
            let lacks = || redis.server.error(what);
            seconds += requests as f64 / requests_per_s(&said).ok_or_else(lacks)?;
        }
        let (slots, memory) = (self.slots()?, redis.server.peak()?);
        session.progress.doing(format!("{name}: getting all keys"));
        let checked = flip(&mut connection, options.flip_byte, session.payload)
            .and_then(|()| get_all(&mut connection, self.items, session.payload));
        checked.map_err(|failure| self.error(failure, &mut redis.server))?;
        Ok(Answer { ops: 2.0 * requests as f64, seconds, setup_s, memory, slots })
    }

    fn start(&self, session: &Session, mut command: Command) -> Result<Server> {
        if let Some(group) = self.run.group {
            group.joined_by(&mut command);
        }
        Server::start("memcached", command, "-s", &session.common.dir, None, Vec::new())
    }

    fn slots(&self) -> Result<Option<Slots>> {
        self.run.swapping().map_or(Ok(None), |group| Slots::of_group(group.path()))
    }

    fn error(&self, failure: Failure, server: &mut Server) -> Error {
        match failure.at(self.run.peer, server) {
            Error::WrongData { peer, what } => {
                Error::WrongData { peer, what: format!("{}: {what}", self.run.name) }
            }
            error => error,
        }
    }
}

/// A Redis server on the loopback interface that keeps everything in RAM and nothing on a disk; ended when dropped.
#[derive(Debug)]
pub struct Redis {
    address: SocketAddr,
    server: Server,
}

impl Redis {
    /// The distribution's.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with what is to be installed.
    pub fn command() -> Result<Command> {
        let mut command = Command::new(installed("redis-server", "redis-server")?);
        command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no"]);
        Ok(command)
    }

    /// Starts `command`, in `group` if there is one, with its socket in `dir`. Errors call it `name`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with its last words.
    pub fn start(name: &str, mut command: Command, dir: &Path, group: Option<&Cgroup>) -> Result<Self> {
        // Redis does not choose a port by itself.
        let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = listener.map_err(Error::io("finding", "a free port"))?;
        command.args(["--port", &address.port().to_string()]);
        if let Some(group) = group {
            group.joined_by(&mut command);
        }
        let server = Server::start(name, command, "--unixsocket", dir, None, Vec::new())?;
        Ok(Self { address, server })
    }

    fn connect(&self) -> Result<Connection> {
        let refused = |error| self.server.error(format!("takes no connection: {error}"));
        Connection::open_redis(self.address).map_err(refused)
    }
}

/// The name of key `number` as redis-benchmark says it.
fn key(number: u64) -> Vec<u8> {
    format!("key:{number:012}").into_bytes()
}

fn value(number: u64, payload: Payload) -> Vec<u8> {
    let mut value = vec![0; SIZES.of(number)];
    let (beginning, rest) = value.split_at_mut(BEGINNING.len());
    beginning.copy_from_slice(BEGINNING);
    payload.fill(number, rest);
    value
}

fn batches(items: u64) -> impl Iterator<Item = std::ops::Range<u64>> {
    (0..items).step_by(BATCH as usize).map(move |first| first..(first + BATCH).min(items))
}

fn set_all(connection: &mut Connection, items: u64, payload: Payload) -> std::result::Result<(), Failure> {
    batches(items).try_for_each(|mut numbers| {
        numbers.clone().for_each(|number| connection.set(&key(number), &value(number, payload)));
        connection.send()?;
        numbers.try_for_each(|number| match connection.stored()? {
            true => Ok(()),
            false => Err(Failure::WrongData(format!("key {number}: wanted to set it, was refused"))),
        })
    })
}

/// Turns the bits of the last byte of the first value around, if that is wanted.
fn flip(connection: &mut Connection, is_wanted: bool, payload: Payload) -> std::result::Result<(), Failure> {
    if !is_wanted {
        return Ok(());
    }
    let mut flipped = value(0, payload);
    flipped.last_mut().into_iter().for_each(|byte| *byte ^= 0xff);
    connection.set(&key(0), &flipped);
    connection.send()?;
    connection.stored().map(drop)
}

/// Holds every value against what was set.
fn get_all(connection: &mut Connection, items: u64, payload: Payload) -> std::result::Result<(), Failure> {
    batches(items).try_for_each(|mut numbers| {
        numbers.clone().for_each(|number| connection.get(&key(number)));
        connection.send()?;
        numbers.try_for_each(|number| {
            let found = connection.value(&key(number))?.unwrap_or_default();
            difference(&value(number, payload), found)
                .map_or(Ok(()), |what| Err(Failure::WrongData(format!("key {number} {what}"))))
        })
    })
}

/// The first byte that differs.
fn difference(wanted: &[u8], found: &[u8]) -> Option<String> {
    if wanted.len() != found.len() {
        return Some(format!("wanted {} bytes, found {}", wanted.len(), found.len()));
    }
    let at = (0..wanted.len()).find(|&at| wanted[at] != found[at])?;
    Some(format!("byte {at}: wanted {:#04x}, found {:#04x}", wanted[at], found[at]))
}

/// The second column below the headings, in quotation marks.
fn requests_per_s(csv: &str) -> Option<f64> {
    csv.lines().nth(1)?.rsplit("\",\"").nth(6)?.parse().ok().filter(|rate| *rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_take_the_bytes_that_were_asked_for() {
        assert!((290.0..295.0).contains(&SIZES.mean()), "{}", SIZES.mean());
        let bytes = |key| SIZES.of(key) as u64 + ITEM_HEADER_BYTES;
        let all: u64 = (0..items(Program::Etc, 64 << 20)).map(bytes).sum();
        assert!(all.abs_diff(64 << 20) < 1 << 20, "{all}");
        assert_eq!((hash_power(1000), hash_power(98_304), hash_power(98_305)), (16, 16, 17));
    }

    #[test]
    fn the_first_byte_that_differs_is_named() {
        let wanted = value(7, Payload::Text);
        assert!(wanted.starts_with(BEGINNING) && difference(&wanted, &wanted).is_none());
        let mut found = wanted.clone();
        found[20] ^= 0xff;
        let what = format!("byte 20: wanted {:#04x}, found {:#04x}", wanted[20], found[20]);
        assert_eq!(difference(&wanted, &found), Some(what));
        assert!(difference(&wanted, b"").is_some_and(|what| what.ends_with("found 0")));
    }

    #[test]
    fn speeds_of_redis_benchmark_are_found() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
                   \"SETRANGE a \",\" 0\",\"34965.04\",\"0.086\",\"0.016\",\"0.063\",\"0.095\",\"0.175\",\"30.015\"\n";
        assert_eq!(requests_per_s(csv), Some(34965.04));
        assert_eq!(requests_per_s("\"test\",\"rps\"\n"), None);
    }
}
