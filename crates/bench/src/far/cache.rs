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
use crate::memcached::client::Client;
use crate::memcached::connection::Connection;
use crate::memcached::load::{self, Clock};
use crate::memcached::value::Values;
use crate::memcached::versions::Versions;
use crate::payload::Payload;
use crate::progress::Progress;
use crate::server::Server;

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
    let mut server = Server::start("memcached", command, "-s", dir, cgroup, Vec::new())?;
    let versions = Versions::new(requests.items);
    let values = Values { sizes: requests.mix.sizes, payload: Payload::Random };
    let mut clients = Vec::new();
    for _ in 0..requests.clients {
        let client = Client::new(Connection::open(&server)?, &versions, values);
        clients.push(match redis {
            Some(redis) => client.with_far(connect(redis)?, requests.near_percent),
            None => client,
        });
    }
    let filled = load::fill(&mut clients, requests.items, None, |done| {
        server.nudge();
        progress.doing(format!("{name}: setting keys, {} %", 100 * done / requests.items));
    });
    let refused = filled.map_err(|failure| failure.at(name, &mut server))?.refused;
    progress.doing(name.to_owned());
    let mut clock = Clock::new(requests.warmup.as_secs_f64(), requests.length.as_secs_f64());
    let mut ends = Vec::new();
    let point = requests.mix.point(requests.clients);
    let measured = load::run(&mut clients, point, requests.items, requests.seed, || {
        server.nudge();
        let (phase, begins) = clock.look();
        ends.extend(begins.then(Instant::now));
        Ok(phase)
    });
    let measured = measured.map_err(|failure| failure.at(name, &mut server))?;
    let slots = slots()?;
    let memory = server.peak()?;
    if measured.lost + measured.refused + refused > 0 {
        let refused = measured.refused + refused;
        let what = format!("{} values are gone, {refused} were refused", measured.lost);
        return Err(Error::WrongData { peer: name.to_owned(), what });
    }
    let [begin, end] = ends[..] else { unreachable!("time was measured") };
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
