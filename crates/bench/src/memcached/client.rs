//! One client: a connection, the requests it sends and the check of every answer.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::connection::{Connection, Failure};
use super::load::Point;
use super::value::{self, Values};
use super::versions::Versions;
use crate::distribution::Picker;
use crate::rng::{Rng, mix};
use crate::workload::{Phase, histogram};

/// A batch ends before its requests could fill the socket's buffer: the server might wait for us to
/// read its replies while we wait for it to read.
const BATCH_BYTES_MAX: usize = 48 << 10;
/// Requests that are sent together while time is not measured.
const PIPELINE: usize = 32;
/// Which keys are near has nothing to do with what else follows from their numbers.
const NEAR_SALT: u64 = 0x4EA2_0000;

/// Requests, and what came of them.
#[derive(Clone, Debug, Serialize)]
pub struct Tally {
    /// Gets.
    pub gets: u64,
    /// Of these, answered with a value.
    pub hits: u64,
    /// Of the others, those whose key had been set.
    pub lost: u64,
    /// Sets.
    pub sets: u64,
    /// Of these, refused for want of memory.
    pub refused: u64,
    /// Requests per second, from the first one to the last reply of each client.
    pub requests_per_s: f64,
    /// The same for hits.
    pub hits_per_s: f64,
    /// Nanoseconds from sending to reply, of every request.
    #[serde(skip)]
    pub latency_ns: Histogram<u32>,
}

impl Default for Tally {
    fn default() -> Self {
        let (gets, hits, lost, sets, refused) = (0, 0, 0, 0, 0);
        let (requests_per_s, hits_per_s, latency_ns) = (0.0, 0.0, histogram());
        Self { gets, hits, lost, sets, refused, requests_per_s, hits_per_s, latency_ns }
    }
}

impl Tally {
    /// Gets and sets.
    pub fn requests(&self) -> u64 {
        self.gets + self.sets
    }

    /// That of both together.
    pub fn and(mut self, other: &Self) -> Self {
        self.gets += other.gets;
        self.hits += other.hits;
        self.lost += other.lost;
        self.sets += other.sets;
        self.refused += other.refused;
        self.requests_per_s += other.requests_per_s;
        self.hits_per_s += other.hits_per_s;
        self.latency_ns += &other.latency_ns;
        self
    }
}

enum Pending {
    Get { key: u64, oldest: u32 },
    Set { key: u64, version: u32 },
}

/// Somebody else who is asked for some of the keys.
#[derive(Debug)]
struct Far {
    connection: Connection,
    /// Percent of the keys for which they are not asked.
    near_percent: u64,
}

/// A connection that knows which answers are right.
#[derive(Debug)]
pub struct Client<'a> {
    connection: Connection,
    far: Option<Far>,
    versions: &'a Versions,
    values: Values,
    value: Vec<u8>,
}

impl<'a> Client<'a> {
    /// A client that sets such values.
    pub fn new(connection: Connection, versions: &'a Versions, values: Values) -> Self {
        Self { connection, far: None, versions, values, value: Vec::new() }
    }

    /// Asks somebody else for the keys that are not among `near_percent` of all.
    pub fn with_far(mut self, connection: Connection, near_percent: u64) -> Self {
        self.far = Some(Far { connection, near_percent });
        self
    }

    /// The connection, on which nothing is on its way unless the client failed.
    pub fn into_connection(self) -> Connection {
        self.connection
    }

    /// Sets each of `keys` once.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn set_all(&mut self, keys: impl IntoIterator<Item = u64>) -> Result<Tally, Failure> {
        self.all(keys, Self::queue_set)
    }

    /// Gets each of `keys` once, and checks what comes.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn get_all(&mut self, keys: impl IntoIterator<Item = u64>) -> Result<Tally, Failure> {
        self.all(keys, |client, key| Some(client.queue_get(key)))
    }

    fn all(
        &mut self,
        keys: impl IntoIterator<Item = u64>,
        queue: impl Fn(&mut Self, u64) -> Option<Pending>,
    ) -> Result<Tally, Failure> {
        let mut tally = Tally::default();
        let mut keys = keys.into_iter().peekable();
        while keys.peek().is_some() {
            self.batch(PIPELINE, &mut tally, |client| keys.next().and_then(|key| queue(client, key)))?;
        }
        Ok(tally)
    }

    /// Turns the bits of byte number `byte` of the value of `key` around at the server, which nobody is told.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn flip(&mut self, key: u64, byte: usize) -> Result<(), Failure> {
        self.values.fill(&mut self.value, key, self.versions.oldest(key));
        self.value[byte] ^= 0xff;
        let connection = connection_for(&mut self.connection, &mut self.far, key);
        connection.set(&value::key(key), &self.value);
        connection.send()?;
        connection.stored().map(drop)
    }

    /// Makes requests of `point` to `count` keys until `phase` ends; those of the measured phase are counted.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn run(&mut self, point: Point, count: u64, seed: u64, phase: &AtomicU8) -> Result<Tally, Failure> {
        let mut picker = Picker::new(point.distribution, count);
        let (mut rng, mut tally) = (Rng::new(seed), Tally::default());
        while phase.load(Ordering::Relaxed) == Phase::WarmUp as u8 {
            self.requests(point, &mut picker, &mut rng, &mut tally)?;
        }
        tally = Tally::default();
        let start = Instant::now();
        while phase.load(Ordering::Relaxed) == Phase::Measure as u8 {
            self.requests(point, &mut picker, &mut rng, &mut tally)?;
        }
        let each_s = |count: u64| count as f64 / start.elapsed().as_secs_f64();
        (tally.requests_per_s, tally.hits_per_s) = (each_s(tally.requests()), each_s(tally.hits));
        Ok(tally)
    }

    fn requests(
        &mut self,
        point: Point,
        picker: &mut Picker,
        rng: &mut Rng,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        self.batch(point.pipeline, tally, |client| {
            let key = picker.pick(rng);
            let gets = rng.below(100) < point.get_percent.into();
            // A key that somebody else is setting just now is read.
            let set = if gets { None } else { client.queue_set(key) };
            Some(set.unwrap_or_else(|| client.queue_get(key)))
        })
    }

    /// Sends up to `pipeline` requests of `next` and takes their replies.
    fn batch(
        &mut self,
        pipeline: usize,
        tally: &mut Tally,
        mut next: impl FnMut(&mut Self) -> Option<Pending>,
    ) -> Result<(), Failure> {
        let mut batch = Vec::with_capacity(pipeline);
        while batch.len() < pipeline && self.queued_bytes() < BATCH_BYTES_MAX {
            let Some(pending) = next(self) else { break };
            batch.push(pending);
        }
        let sent = Instant::now();
        self.connection.send()?;
        if let Some(far) = &mut self.far {
            far.connection.send()?;
        }
        for pending in batch {
            match pending {
                Pending::Get { key, oldest } => self.take_value(key, oldest, tally)?,
                Pending::Set { key, version } => self.take_stored(key, version, tally)?,
            }
            tally.latency_ns.saturating_record((sent.elapsed().as_nanos() as u64).max(1));
        }
        Ok(())
    }

    fn queued_bytes(&self) -> usize {
        self.connection.queued_bytes() + self.far.as_ref().map_or(0, |far| far.connection.queued_bytes())
    }

    fn queue_get(&mut self, key: u64) -> Pending {
        connection_for(&mut self.connection, &mut self.far, key).get(&value::key(key));
        Pending::Get { key, oldest: self.versions.oldest(key) }
    }

    fn queue_set(&mut self, key: u64) -> Option<Pending> {
        let version = self.versions.begin_set(key)?;
        self.values.fill(&mut self.value, key, version);
        connection_for(&mut self.connection, &mut self.far, key).set(&value::key(key), &self.value);
        Some(Pending::Set { key, version })
    }

    fn take_stored(&mut self, key: u64, version: u32, tally: &mut Tally) -> Result<(), Failure> {
        tally.sets += 1;
        if connection_for(&mut self.connection, &mut self.far, key).stored()? {
            self.versions.stored(key, version);
        } else {
            self.versions.refused(key);
            tally.refused += 1;
        }
        Ok(())
    }

    /// A value that is not there is counted; one with other bytes than any possible version ends everything.
    fn take_value(&mut self, key: u64, oldest: u32, tally: &mut Tally) -> Result<(), Failure> {
        tally.gets += 1;
        let connection = connection_for(&mut self.connection, &mut self.far, key);
        let Some(got) = connection.value(&value::key(key))? else {
            tally.lost += u64::from(oldest > 0);
            return Ok(());
        };
        let possible = self.versions.possible(key, oldest);
        self.values.check(got, key, &possible).map_err(Failure::WrongData)?;
        tally.hits += 1;
        Ok(())
    }
}

/// The connection to the server that has `key`. Not a method: the value of the client is borrowed meanwhile.
fn connection_for<'c>(near: &'c mut Connection, far: &'c mut Option<Far>, key: u64) -> &'c mut Connection {
    match far {
        Some(far) if mix(key ^ NEAR_SALT) % 100 >= far.near_percent => &mut far.connection,
        _ => near,
    }
}
