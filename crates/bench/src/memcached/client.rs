//! One client: a connection, the requests it sends and the check of every answer.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::connection::{Broken, Connection};
use super::protocol::Stored;
use super::sizes::Sizes;
use super::value;
use super::versions::Versions;
use crate::distribution::Picker;
use crate::rng::{Rng, mix};
use crate::workload::{Phase, histogram};

/// A batch ends before its requests could fill the socket's buffer: the server might wait for us to
/// read its replies while we wait for it to read.
const BATCH_BYTES_MAX: usize = 48 << 10;
/// Sets that are sent together while all keys are set for the first time.
const FILL_PIPELINE: usize = 32;
/// Which keys are near has nothing to do with what else follows from their numbers.
const NEAR_SALT: u64 = 0x4EA2_0000;

/// Why a client stopped.
#[derive(Debug)]
pub enum Failure {
    /// The connection is of no use any more.
    Broken(Broken),
    /// The value of a key is not one that it can have.
    WrongData(String),
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

/// Which requests a client makes.
#[derive(Clone, Debug)]
pub struct Mix {
    /// Keys.
    pub picker: Picker,
    /// Percent of the requests that get; the others set.
    pub get_percent: u64,
    /// Requests that are sent together.
    pub pipeline: usize,
}

/// What a client counted.
#[derive(Clone, Debug)]
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
    /// From the first request to the last reply.
    pub elapsed: Duration,
    /// Nanoseconds from sending to reply, of every request.
    pub latency_ns: Histogram<u32>,
}

impl Tally {
    /// Nothing yet.
    pub fn new() -> Self {
        let (gets, hits, lost, sets, refused) = (0, 0, 0, 0, 0);
        Self { gets, hits, lost, sets, refused, elapsed: Duration::ZERO, latency_ns: histogram() }
    }

    /// Gets and sets.
    pub fn requests(&self) -> u64 {
        self.gets + self.sets
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self::new()
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
    sizes: Sizes,
    value: Vec<u8>,
}

impl<'a> Client<'a> {
    /// A client that sets values of these sizes.
    pub fn new(connection: Connection, versions: &'a Versions, sizes: impl Into<Sizes>) -> Self {
        let sizes = sizes.into();
        Self { connection, far: None, versions, sizes, value: vec![0; sizes.largest()] }
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

    /// Sets each of `keys` once. Returns how many were refused.
    ///
    /// # Errors
    /// [`Failure::Broken`].
    pub fn set_all(&mut self, keys: Range<u64>) -> Result<u64, Failure> {
        let mut tally = Tally::new();
        let mut keys = keys.peekable();
        while keys.peek().is_some() {
            self.batch(FILL_PIPELINE, &mut tally, |client| {
                keys.next().and_then(|key| client.queue_set(key))
            })?;
        }
        Ok(tally.refused)
    }

    /// Makes requests until `phase` ends; those of the measured phase are counted.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn run(&mut self, mix: &Mix, seed: u64, phase: &AtomicU8) -> Result<Tally, Failure> {
        let mut mix = mix.clone();
        let mut rng = Rng::new(seed);
        let mut tally = Tally::new();
        while phase.load(Ordering::Relaxed) == Phase::WarmUp as u8 {
            self.requests(&mut mix, &mut rng, &mut tally)?;
        }
        tally = Tally::new();
        let start = Instant::now();
        while phase.load(Ordering::Relaxed) == Phase::Measure as u8 {
            self.requests(&mut mix, &mut rng, &mut tally)?;
        }
        tally.elapsed = start.elapsed();
        Ok(tally)
    }

    fn requests(&mut self, mix: &mut Mix, rng: &mut Rng, tally: &mut Tally) -> Result<(), Failure> {
        self.batch(mix.pipeline, tally, |client| {
            let key = mix.picker.pick(rng);
            let gets = rng.below(100) < mix.get_percent;
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
        let value = &mut self.value[..self.sizes.of(key)];
        value::fill(value, key, version);
        connection_for(&mut self.connection, &mut self.far, key).set(&value::key(key), value);
        Some(Pending::Set { key, version })
    }

    fn take_stored(&mut self, key: u64, version: u32, tally: &mut Tally) -> Result<(), Failure> {
        tally.sets += 1;
        match connection_for(&mut self.connection, &mut self.far, key).stored()? {
            Stored::Stored => self.versions.stored(key, version),
            Stored::Refused => {
                self.versions.refused(key);
                tally.refused += 1;
            }
        }
        Ok(())
    }

    fn take_value(&mut self, key: u64, oldest: u32, tally: &mut Tally) -> Result<(), Failure> {
        tally.gets += 1;
        let expected_bytes = self.sizes.of(key);
        let connection = connection_for(&mut self.connection, &mut self.far, key);
        let Some(got) = connection.value(&value::key(key))? else {
            tally.lost += u64::from(oldest > 0);
            return Ok(());
        };
        let wrong = |what: String| Failure::WrongData(format!("key {key}: {what}"));
        if got.len() != expected_bytes {
            return Err(wrong(format!("{} bytes came, {expected_bytes} were set", got.len())));
        }
        let version = value::version(got, key).map_err(wrong)?;
        let possible = self.versions.possible(key, oldest);
        if !possible.contains(&version) {
            return Err(wrong(format!("version {version} came, {possible:?} is possible")));
        }
        tally.hits += 1;
        Ok(())
    }
}

/// Who has `key`. Not a method: the client's value is borrowed meanwhile.
fn connection_for<'c>(near: &'c mut Connection, far: &'c mut Option<Far>, key: u64) -> &'c mut Connection {
    match far {
        Some(far) if mix(key ^ NEAR_SALT) % 100 >= far.near_percent => &mut far.connection,
        _ => near,
    }
}
