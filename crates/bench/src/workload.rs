//! Fills the objects, then lets threads read and write them.

use std::hint::black_box;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::distribution::{Distribution, Picker};
use crate::objects::Objects;
use crate::rng::Rng;

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

/// Rewrites every object with random bytes; each thread fills one consecutive part. `progress` is
/// called every [`TICK`] with the number of objects done, at last with all of them.
pub fn fill(objects: Objects<'_>, threads: usize, seed: u64, mut progress: impl FnMut(u64)) {
    let done = AtomicU64::new(0);
    let count = objects.count();
    thread::scope(|scope| {
        let part = count.div_ceil(threads as u64);
        for thread in 0..threads as u64 {
            let done = &done;
            scope.spawn(move || {
                let mut rng = Rng::new(seed ^ thread);
                let end = ((thread + 1) * part).min(count);
                for start in ((thread * part)..end).step_by(FILL_BATCH as usize) {
                    let stop = (start + FILL_BATCH).min(end);
                    (start..stop).for_each(|index| objects.write(index, &mut rng));
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

/// Runs `point` on `objects` in the phases that `control` gives. It is called every [`TICK`] and
/// must end with [`Phase::Stop`]; a change of phase takes effect when it returns.
pub fn run(objects: Objects<'_>, point: Point, seed: u64, mut control: impl FnMut() -> Phase) -> Measured {
    let phase = AtomicU8::new(Phase::WarmUp as u8);
    let picker = Picker::new(point.distribution, objects.count());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..point.threads as u64)
            .map(|thread| {
                let rng = Rng::new(seed.wrapping_add(thread.wrapping_mul(0x9E37_79B9)));
                let worker = Worker { objects, picker, read_percent: point.read_percent.into(), rng };
                let phase = &phase;
                scope.spawn(move || worker.run(phase))
            })
            .collect();
        loop {
            let next = control();
            phase.store(next as u8, Ordering::Relaxed);
            if next == Phase::Stop {
                break;
            }
            thread::sleep(TICK);
        }
        let tallies = workers.into_iter().map(|worker| worker.join().expect("a worker does not panic"));
        sum(tallies)
    })
}

struct Worker<'a> {
    objects: Objects<'a>,
    picker: Picker,
    read_percent: u64,
    rng: Rng,
}

/// One thread's share of [`Measured`].
struct Tally {
    ops: u64,
    writes: u64,
    elapsed: Duration,
    latency_ns: Histogram<u32>,
}

impl Worker<'_> {
    fn run(mut self, phase: &AtomicU8) -> Tally {
        // The phase is looked at before each access: with a slow peer an access takes seconds.
        while phase.load(Ordering::Relaxed) == Phase::WarmUp as u8 {
            self.access();
        }
        let mut tally = Tally { ops: 0, writes: 0, elapsed: Duration::ZERO, latency_ns: histogram() };
        let start = Instant::now();
        while phase.load(Ordering::Relaxed) == Phase::Measure as u8 {
            let before = tally.ops.is_multiple_of(TIMED_EVERY).then(Instant::now);
            tally.writes += u64::from(self.access());
            tally.ops += 1;
            if let Some(before) = before {
                let latency_ns = before.elapsed().as_nanos() as u64;
                tally.latency_ns.saturating_record(latency_ns.max(1));
            }
        }
        tally.elapsed = start.elapsed();
        tally
    }

    /// One access; true if it was a write.
    #[inline]
    fn access(&mut self) -> bool {
        let index = self.picker.pick(&mut self.rng);
        let reads = self.rng.below(100) < self.read_percent;
        if reads {
            black_box(self.objects.read(index));
        } else {
            self.objects.write(index, &mut self.rng);
        }
        !reads
    }
}

/// Two significant digits keep a thread's histogram at 16 KiB; it counts against the RAM limit.
pub fn histogram() -> Histogram<u32> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 2).expect("the bounds are in order")
}

fn sum(tallies: impl Iterator<Item = Tally>) -> Measured {
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
    use std::ptr::NonNull;

    use super::*;

    const COUNT: u64 = 1000;

    fn with_objects(test: impl FnOnce(Objects<'_>)) {
        let mut memory = vec![0u64; COUNT as usize * 16];
        let base = NonNull::new(memory.as_mut_ptr().cast::<u8>()).expect("a vector's address");
        // SAFETY: the vector holds COUNT objects of 128 bytes and outlives the view.
        test(unsafe { Objects::new(base, 128, 128, COUNT) });
    }

    /// Warms up for one tick, measures for one tick.
    fn one_tick_each() -> impl FnMut() -> Phase {
        let mut phases = [Phase::WarmUp, Phase::Measure, Phase::Stop].into_iter();
        move || phases.next().expect("not called after Stop")
    }

    #[test]
    fn fills_every_object() {
        with_objects(|objects| {
            let mut last = 0;
            fill(objects, 3, 1, |done| last = done);
            assert_eq!(last, COUNT);
            assert!((0..COUNT).all(|index| objects.read(index) != 0));
        });
    }

    #[test]
    fn the_read_share_is_kept() {
        with_objects(|objects| {
            for (read_percent, lowest, highest) in [(100, 0.0, 0.0), (50, 0.4, 0.6), (0, 1.0, 1.0)] {
                let point = Point { distribution: Distribution::Uniform, read_percent, threads: 2 };
                let measured = run(objects, point, 5, one_tick_each());
                let share = measured.writes as f64 / measured.ops.max(1) as f64;
                assert!(measured.ops == 0 || (lowest..=highest).contains(&share), "{share}");
                let timed = measured.ops / TIMED_EVERY;
                assert!((timed..=timed + 2).contains(&measured.latency_ns.len()));
            }
        });
    }
}
