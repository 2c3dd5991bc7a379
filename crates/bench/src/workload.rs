//! Fills the objects, then lets threads read and write them.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::distribution::{Distribution, Picker};
use crate::error::Result;
use crate::ledger::Versions;
use crate::rng::Rng;
use crate::verified::Verified;

/// How often the controlling thread looks at the clock and its counters.
pub const TICK: Duration = Duration::from_millis(20);
/// Objects filled between two looks at the progress counter.
const FILL_BATCH: u64 = 4096;
/// One access in this many is timed, so that reading the clock does not slow RAM hits down.
const TIMED_EVERY: u64 = 8;
/// Latencies above this are counted as this much: 100 s.
const LATENCY_NS_MAX: u64 = 100_000_000_000;

/// What the threads do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Which objects are accessed.
    pub distribution: Distribution,
    /// Percent of the accesses that read; the others rewrite the whole object.
    pub read_percent: u32,
    /// Number of threads.
    pub threads: usize,
}

/// What the threads do with their accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Phase {
    /// Accesses are made but not counted.
    WarmUp,
    /// Accesses are counted.
    Measure,
    /// The threads end.
    Stop,
}

/// What the threads did in the measured phase.
#[derive(Debug)]
pub struct Measured {
    /// Accesses.
    pub ops: u64,
    /// Of these, rewrites.
    pub writes: u64,
    /// Sum over the threads of each one's own rate.
    pub ops_per_s: f64,
    /// Nanoseconds of a sample of the accesses.
    pub latency_ns: Histogram<u32>,
}

impl Measured {
    /// The latency that `percent` of the sampled accesses did not exceed.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        self.latency_ns.value_at_percentile(percent)
    }
}

/// Writes every object for the first time; each thread fills one consecutive part. `progress` is called every [`TICK`]
/// with the number of objects done, at last with all of them.
pub fn fill(objects: Verified<'_>, threads: usize, mut progress: impl FnMut(u64)) {
    let done = AtomicU64::new(0);
    let count = objects.count();
    thread::scope(|scope| {
        let part = count.div_ceil(threads as u64);
        for thread in 0..threads as u64 {
            let done = &done;
            scope.spawn(move || {
                let end = ((thread + 1) * part).min(count);
                for start in ((thread * part)..end).step_by(FILL_BATCH as usize) {
                    let stop = (start + FILL_BATCH).min(end);
                    (start..stop).for_each(|index| objects.fill(index));
                    done.fetch_add(stop - start, Ordering::Relaxed);
                }
            });
        }
        while done.load(Ordering::Relaxed) < count {
            progress(done.load(Ordering::Relaxed));
            thread::sleep(TICK);
        }
        progress(count);
    });
}

/// Runs `point` on `objects`, which are filled, in the phases that `control` gives. It is called every [`TICK`] and must
/// end with [`Phase::Stop`]; a change of phase takes effect when it returns.
///
/// # Errors
/// [`Error::WrongData`](crate::Error::WrongData) of the first thread that reads something wrong, which stops the others; those of `control`.
pub fn run(
    objects: Verified<'_>,
    point: Point,
    seed: u64,
    mut control: impl FnMut() -> Result<Phase>,
) -> Result<Measured> {
    let (phase, failed) = (AtomicU8::new(Phase::WarmUp as u8), AtomicBool::new(false));
    let picker = Picker::new(point.distribution, objects.count());
    thread::scope(|scope| {
        let (phase, failed) = (&phase, &failed);
        let workers: Vec<_> = (0..point.threads as u64)
            .map(|thread| {
                let rng = Rng::new(seed.wrapping_add(thread.wrapping_mul(0x9E37_79B9)));
                let (read_percent, versions) = (point.read_percent.into(), objects.versions());
                let worker = Worker { objects, picker, read_percent, rng, versions };
                scope.spawn(move || {
                    let tally = worker.run(phase);
                    failed.fetch_or(tally.is_err(), Ordering::Relaxed);
                    tally
                })
            })
            .collect();
        let controlled = loop {
            let next = if failed.load(Ordering::Relaxed) { Ok(Phase::Stop) } else { control() };
            phase.store(*next.as_ref().unwrap_or(&Phase::Stop) as u8, Ordering::Relaxed);
            match next {
                Ok(Phase::Stop) => break Ok(()),
                Ok(_) => thread::sleep(TICK),
                Err(error) => break Err(error),
            }
        };
        let tallies = workers.into_iter().map(|worker| worker.join().expect("a worker does not panic"));
        let tallies = tallies.collect::<Result<Vec<_>>>()?;
        controlled.map(|()| sum(&tallies))
    })
}

struct Worker<'a> {
    objects: Verified<'a>,
    picker: Picker,
    read_percent: u64,
    rng: Rng,
    versions: Versions<'a>,
}

/// One thread's share of [`Measured`].
struct Tally {
    ops: u64,
    writes: u64,
    elapsed: Duration,
    latency_ns: Histogram<u32>,
}

impl Worker<'_> {
    fn run(mut self, phase: &AtomicU8) -> Result<Tally> {
        // The phase is looked at before each access: with a slow peer an access takes seconds.
        while phase.load(Ordering::Relaxed) == Phase::WarmUp as u8 {
            self.access()?;
        }
        let mut tally = Tally { ops: 0, writes: 0, elapsed: Duration::ZERO, latency_ns: histogram() };
        let start = Instant::now();
        while phase.load(Ordering::Relaxed) == Phase::Measure as u8 {
            let before = tally.ops.is_multiple_of(TIMED_EVERY).then(Instant::now);
            tally.writes += u64::from(self.access()?);
            tally.ops += 1;
            if let Some(before) = before {
                let latency_ns = before.elapsed().as_nanos() as u64;
                tally.latency_ns.saturating_record(latency_ns.max(1));
            }
        }
        tally.elapsed = start.elapsed();
        Ok(tally)
    }

    /// One access; true if it was a write.
    #[inline]
    fn access(&mut self) -> Result<bool> {
        let index = self.picker.pick(&mut self.rng);
        let reads = self.rng.below(100) < self.read_percent;
        if reads {
            self.objects.read(index)?;
        } else {
            self.objects.write(index, &mut self.versions);
        }
        Ok(!reads)
    }
}

/// Two significant digits keep a thread's histogram at 16 KiB; it counts against the RAM limit.
pub fn histogram() -> Histogram<u32> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 2).expect("the bounds are in order")
}

fn sum(tallies: &[Tally]) -> Measured {
    let mut measured = Measured { ops: 0, writes: 0, ops_per_s: 0.0, latency_ns: histogram() };
    for tally in tallies {
        measured.ops += tally.ops;
        measured.writes += tally.writes;
        if tally.ops > 0 {
            measured.ops_per_s += tally.ops as f64 / tally.elapsed.as_secs_f64();
        }
        measured.latency_ns.add(&tally.latency_ns).expect("all histograms have the same bounds");
    }
    measured
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::ledger::Ledger;
    use crate::objects::in_memory;

    const COUNT: u64 = 1000;

    fn with_objects(test: impl FnOnce(Verified<'_>)) {
        in_memory(128, COUNT, |objects| test(Verified::new(objects, &Ledger::new("test", COUNT))));
    }

    fn filled(test: impl FnOnce(Verified<'_>)) {
        with_objects(|objects| {
            fill(objects, 2, |_| {});
            test(objects);
        });
    }

    /// Warms up for one tick, measures for one tick.
    fn one_tick_each() -> impl FnMut() -> Result<Phase> {
        let mut phases = [Phase::WarmUp, Phase::Measure, Phase::Stop].into_iter();
        move || Ok(phases.next().expect("not called after Stop"))
    }

    fn point(read_percent: u32) -> Point {
        Point { distribution: Distribution::Uniform, read_percent, threads: 2 }
    }

    #[test]
    fn fills_every_object() {
        with_objects(|objects| {
            assert!((0..COUNT).all(|index| objects.read(index).is_err()));
            let mut last = 0;
            fill(objects, 3, |done| last = done);
            assert_eq!(last, COUNT);
            (0..COUNT).try_for_each(|index| objects.read(index)).expect("filled");
        });
    }

    #[test]
    fn the_read_share_is_kept() {
        filled(|objects| {
            for (read_percent, lowest, highest) in [(100, 0.0, 0.0), (50, 0.4, 0.6), (0, 1.0, 1.0)] {
                let measured = run(objects, point(read_percent), 5, one_tick_each()).expect("all is right");
                let share = measured.writes as f64 / measured.ops.max(1) as f64;
                assert!(measured.ops == 0 || (lowest..=highest).contains(&share), "{share}");
                let timed = measured.ops / TIMED_EVERY;
                assert!((timed..=timed + 2).contains(&measured.latency_ns.len()));
            }
            (0..COUNT).try_for_each(|index| objects.read(index)).expect("all was written by us");
        });
    }

    #[test]
    fn a_wrong_byte_ends_the_run() {
        filled(|objects| {
            (0..COUNT).for_each(|index| objects.flip(index, 77).expect("there is such a byte"));
            // Nobody says that it is over.
            let ended = run(objects, point(100), 5, || Ok(Phase::WarmUp));
            let wrong = |what: &str| what.contains(" word 9: wanted 0x");
            assert!(matches!(ended, Err(Error::WrongData { peer, what }) if peer == "test" && wrong(&what)));
        });
    }

    #[test]
    fn what_stops_the_clock_is_told() {
        filled(|objects| {
            let ended = run(objects, point(50), 5, || Err(Error::Input("no more".to_owned())));
            assert!(matches!(ended, Err(Error::Input(_))));
        });
    }
}
