//! All clients together: they set every key once, and then make requests in phases.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::client::{Client, Tally};
use super::connection::Failure;
use crate::distribution::Distribution;
use crate::workload::{Phase, TICK};

/// Keys that a client takes at a time to set them.
const FILL_KEYS: u64 = 256;

/// What the clients ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Point {
    /// Which keys.
    pub distribution: Distribution,
    /// Percent of the requests that get; the others set.
    pub get_percent: u32,
    /// Number of clients, each a thread with a connection.
    pub clients: usize,
    /// Requests that each client sends together.
    pub pipeline: usize,
}

/// Warm-up and measurement by the clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    phase: Phase,
    since: Instant,
    warmup: Duration,
    length: Duration,
}

impl Clock {
    /// The warm-up begins now.
    pub fn new(warmup_s: f64, seconds: f64) -> Self {
        let [warmup, length] = [warmup_s, seconds].map(Duration::from_secs_f64);
        Self { phase: Phase::WarmUp, since: Instant::now(), warmup, length }
    }

    /// The phase now, and whether it begins with this look.
    pub fn look(&mut self) -> (Phase, bool) {
        let (limit, next) = match self.phase {
            Phase::WarmUp => (self.warmup, Phase::Measure),
            _ => (self.length, Phase::Stop),
        };
        let begins = self.since.elapsed() >= limit;
        if begins {
            (self.phase, self.since) = (next, Instant::now());
        }
        (self.phase, begins)
    }
}

/// Sets each of `count` keys once, no more than `keys_per_s` of them if that is given. `progress` is told every [`TICK`] how many are done.
///
/// # Errors
/// The [`Failure`] of a client.
pub fn fill(
    clients: &mut [Client<'_>],
    count: u64,
    keys_per_s: Option<f64>,
    mut progress: impl FnMut(u64),
) -> Result<Tally, Failure> {
    let (started, next, done) = (Instant::now(), AtomicU64::new(0), AtomicU64::new(0));
    let work = |client: &mut Client<'_>, _| {
        let mut tally = Tally::default();
        loop {
            let start = next.fetch_add(FILL_KEYS, Ordering::Relaxed);
            if start >= count {
                return Ok(tally);
            }
            let due = keys_per_s.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(start as f64 / rate));
            thread::sleep(due.saturating_sub(started.elapsed()));
            let end = (start + FILL_KEYS).min(count);
            tally = tally.and(&client.set_all(start..end)?);
            done.fetch_add(end - start, Ordering::Relaxed);
        }
    };
    together(clients, work, || progress(done.load(Ordering::Relaxed)))
}

/// Makes the requests of `point` to `count` keys in the phases that `control` gives. It is called
/// every [`TICK`] and must end with [`Phase::Stop`].
///
/// # Errors
/// The [`Failure`] of a client, or that of `control`; the others are stopped then.
pub fn run(
    clients: &mut [Client<'_>],
    point: Point,
    count: u64,
    seed: u64,
    mut control: impl FnMut() -> Result<Phase, Failure>,
) -> Result<Tally, Failure> {
    let (phase, failed) = (AtomicU8::new(Phase::WarmUp as u8), AtomicBool::new(false));
    let work = |client: &mut Client<'_>, nth: u64| {
        let result = client.run(point, count, seed.wrapping_add(nth.wrapping_mul(0x9E37_79B9)), &phase);
        failed.fetch_or(result.is_err(), Ordering::Relaxed);
        result
    };
    let mut controlled = Ok(Phase::WarmUp);
    let tally = together(clients, work, || {
        if matches!(controlled, Ok(Phase::WarmUp | Phase::Measure)) {
            controlled = if failed.load(Ordering::Relaxed) { Ok(Phase::Stop) } else { control() };
            phase.store(*controlled.as_ref().unwrap_or(&Phase::Stop) as u8, Ordering::Relaxed);
        }
    })?;
    controlled.map(|_| tally)
}

/// Lets each client work in a thread of its own; `tick` is called every [`TICK`] until all are done. Wrong data of one client is not
/// hidden by a connection that another one lost.
fn together(
    clients: &mut [Client<'_>],
    work: impl Fn(&mut Client<'_>, u64) -> Result<Tally, Failure> + Sync,
    mut tick: impl FnMut(),
) -> Result<Tally, Failure> {
    let work = &work;
    let mut results: Vec<_> = thread::scope(|scope| {
        let spawn = |(client, nth)| scope.spawn(move || work(client, nth));
        let workers: Vec<_> = clients.iter_mut().zip(0..).map(spawn).collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            tick();
            thread::sleep(TICK);
        }
        workers.into_iter().map(|worker| worker.join().expect("a client does not panic")).collect()
    });
    results.sort_by_key(|result| !matches!(result, Err(Failure::WrongData(_))));
    results.into_iter().try_fold(Tally::default(), |sum, tally| Ok(sum.and(&tally?)))
}
