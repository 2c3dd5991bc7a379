//! memcached in its control group, filled and then asked by clients outside of it.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::answer::Answer;
use super::mix::Mix;
use super::redis::Redis;
use super::slots;
use crate::cgroup::Cgroup;
use crate::error::{Error, Result};
use crate::memcached::client::{Client, Failure};
use crate::memcached::connection::Connection;
use crate::memcached::load;
use crate::memcached::server::Server;
use crate::memcached::versions::Versions;
use crate::progress::Progress;
use crate::workload::Phase;

/// What the clients do.
#[derive(Clone, Copy, Debug)]
pub struct Requests {
    /// What they ask for.
    pub mix: Mix,
    /// Number of keys.
    pub items: u64,
    /// Percent of the keys that memcached has.
    pub near_percent: u64,
    /// Clients, each a thread with a connection.
    pub clients: usize,
    /// Unmeasured time.
    pub warmup: Duration,
    /// Measured time.
    pub length: Duration,
    /// Of the choices.
    pub seed: u64,
}

/// Starts `command`, sets every key, and measures. Keys that are not near are in `redis`.
///
/// # Errors
/// [`Error::Unavailable`] if it does not start, [`Error::Child`] if it dies, [`Error::WrongData`] if a value is wrong or gone: everybody has the
/// memory for all of them.
pub fn run(
    name: &str,
    command: Command,
    cgroup: Option<Cgroup>,
    dir: &Path,
    redis: Option<&Redis>,
    requests: &Requests,
    progress: &Progress,
) -> Result<Answer> {
    let setup = Instant::now();
    let slots = slots::of_running(cgroup.as_ref());
    let mut server = Server::start("memcached", command, dir, cgroup, Vec::new())?;
    let versions = Versions::new(requests.items);
    let mut clients = Vec::new();
    for _ in 0..requests.clients {
        let client = Client::new(server.connect()?, &versions, requests.mix.sizes);
        clients.push(match redis {
            Some(redis) => client.with_far(connect(redis)?, requests.near_percent),
            None => client,
        });
    }
    let filled = load::fill(&mut clients, requests.items, None, |done| {
        server.nudge();
        progress.doing(format!("{name}: setting keys, {} %", 100 * done / requests.items));
    });
    let refused = checked(name, &mut server, filled)?;
    progress.doing(name.to_owned());
    let mut clock = Clock::new(requests);
    let point = requests.mix.point(requests.clients);
    let measured = load::run(&mut clients, point, requests.items, requests.seed, || {
        server.nudge();
        clock.phase()
    });
    let measured = checked(name, &mut server, measured)?;
    let slots = slots()?;
    let memory = server.peak()?;
    if measured.lost + measured.refused + refused > 0 {
        let refused = measured.refused + refused;
        let what = format!("{} values are gone, {refused} were refused", measured.lost);
        return Err(Error::WrongData { peer: name.to_owned(), what });
    }
    let (begin, end) = clock.ends();
    let seconds = (end - begin).as_secs_f64();
    let setup_s = (begin - setup).as_secs_f64();
    // The sum of the clients' own rates: each one's time ends with its last reply.
    let ops = (measured.requests_per_s * seconds) as u64;
    Ok(Answer { rounds: None, ops, seconds, setup_s, digest: None, memory, slots })
}

fn connect(redis: &Redis) -> Result<Connection> {
    let refused =
        |error| Error::Child { peer: "Redis".to_owned(), what: format!("takes no connection: {error}") };
    Connection::open_redis(redis.address()).map_err(refused)
}

fn checked<T>(name: &str, server: &mut Server, result: std::result::Result<T, Failure>) -> Result<T> {
    result.map_err(|failure| match failure {
        Failure::Broken(what) => server.broken(what),
        Failure::WrongData(what) => Error::WrongData { peer: name.to_owned(), what },
    })
}

/// Warm-up and measurement by the clock.
struct Clock {
    warmup: Duration,
    length: Duration,
    started: Instant,
    begin: Option<Instant>,
    end: Option<Instant>,
}

impl Clock {
    fn new(requests: &Requests) -> Self {
        let (warmup, length) = (requests.warmup, requests.length);
        Self { warmup, length, started: Instant::now(), begin: None, end: None }
    }

    fn phase(&mut self) -> Phase {
        let now = Instant::now();
        match self.begin {
            None if now - self.started < self.warmup => return Phase::WarmUp,
            None => self.begin = Some(now),
            Some(begin) if now - begin >= self.length => {
                self.end = Some(now);
                return Phase::Stop;
            }
            Some(_) => {}
        }
        Phase::Measure
    }

    fn ends(&self) -> (Instant, Instant) {
        let begin = self.begin.unwrap_or(self.started);
        (begin, self.end.unwrap_or(begin))
    }
}
