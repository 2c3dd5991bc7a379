//! All clients together: they set every key once, and then make requests in phases.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::client::{Client, Failure, Mix, Tally};
use crate::distribution::{Distribution, Picker};
use crate::workload::{Phase, TICK, histogram};

/// Keys that a client takes at a time to set them.
const FILL_KEYS: u64 = 256;

/// What the clients ask for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
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

/// What the clients counted in the measured phase.
#[derive(Debug)]
pub struct Measured {
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
    /// Sum over the clients of each one's own rate of requests.
    pub requests_per_s: f64,
    /// The same for hits.
    pub hits_per_s: f64,
    /// Nanoseconds of every request.
    pub latency_ns: Histogram<u32>,
}

/// Sets each of `count` keys once, no more than `keys_per_s` of them if that is given. `progress` is told every [`TICK`] how many are done. Returns how
/// many were refused.
///
/// # Errors
/// The [`Failure`] of the first client that has one.
pub fn fill(
    clients: &mut [Client<'_>],
    count: u64,
    keys_per_s: Option<f64>,
    mut progress: impl FnMut(u64),
) -> Result<u64, Failure> {
    let started = Instant::now();
    let (next, done, running) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(clients.len() as u64));
    let work = |client: &mut Client<'_>| {
        let mut refused = 0;
        loop {
            let start = next.fetch_add(FILL_KEYS, Ordering::Relaxed);
            if start >= count {
                return Ok(refused);
            }
            let due = keys_per_s.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(start as f64 / rate));
            thread::sleep(due.saturating_sub(started.elapsed()));
            let end = (start + FILL_KEYS).min(count);
            refused += client.set_all(start..end)?;
            done.fetch_add(end - start, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        let (work, running) = (&work, &running);
        let spawn = |client| {
            scope.spawn(move || {
                let result = work(client);
                running.fetch_sub(1, Ordering::Relaxed);
                result
            })
        };
        let workers: Vec<_> = clients.iter_mut().map(spawn).collect();
        while running.load(Ordering::Relaxed) > 0 {
            progress(done.load(Ordering::Relaxed));
            thread::sleep(TICK);
        }
        workers.into_iter().map(|worker| worker.join().expect("a client does not panic")).sum()
    })
}

/// Makes the requests of `point` to `count` keys in the phases that `control` gives. It is called
/// every [`TICK`] and must end with [`Phase::Stop`].
///
/// # Errors
/// The [`Failure`] of the first client that has one; the others are stopped then.
pub fn run(
    clients: &mut [Client<'_>],
    point: Point,
    count: u64,
    seed: u64,
    mut control: impl FnMut() -> Phase,
) -> Result<Measured, Failure> {
    let (phase, failed) = (AtomicU8::new(Phase::WarmUp as u8), AtomicBool::new(false));
    let mix = Mix {
        picker: Picker::new(point.distribution, count),
        get_percent: point.get_percent.into(),
        pipeline: point.pipeline,
    };
    thread::scope(|scope| {
        let (phase, failed, mix) = (&phase, &failed, &mix);
        let mut workers = Vec::new();
        for (nth, client) in clients.iter_mut().enumerate() {
            let seed = seed.wrapping_add((nth as u64).wrapping_mul(0x9E37_79B9));
            workers.push(scope.spawn(move || {
                let result = client.run(mix, seed, phase);
                failed.fetch_or(result.is_err(), Ordering::Relaxed);
                result
            }));
        }
        loop {
            let next = if failed.load(Ordering::Relaxed) { Phase::Stop } else { control() };
            phase.store(next as u8, Ordering::Relaxed);
            if next == Phase::Stop {
                break;
            }
            thread::sleep(TICK);
        }
        let tallies = workers.into_iter().map(|worker| worker.join().expect("a client does not panic"));
        Ok(sum(&tallies.collect::<Result<Vec<_>, _>>()?))
    })
}

fn sum(tallies: &[Tally]) -> Measured {
    let total = |count: &dyn Fn(&Tally) -> u64| tallies.iter().map(count).sum::<u64>();
    let rate = |count: &dyn Fn(&Tally) -> u64| {
        let active = tallies.iter().filter(|tally| tally.requests() > 0);
        active.map(|tally| count(tally) as f64 / tally.elapsed.as_secs_f64()).sum::<f64>()
    };
    let mut latency_ns = histogram();
    tallies.iter().for_each(|tally| latency_ns += &tally.latency_ns);
    Measured {
        gets: total(&|tally| tally.gets),
        hits: total(&|tally| tally.hits),
        lost: total(&|tally| tally.lost),
        sets: total(&|tally| tally.sets),
        refused: total(&|tally| tally.refused),
        requests_per_s: rate(&Tally::requests),
        hits_per_s: rate(&|tally| tally.hits),
        latency_ns,
    }
}
