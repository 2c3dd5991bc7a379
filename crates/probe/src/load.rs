//! A closed loop: each job keeps as many transfers under way as its depth says.

use std::time::Instant;

use aquifer_device::DeviceError;
use aquifer_device::queue::{Direction, Durability, Queue, QueueTransfer};
use hdrhistogram::Histogram;

use crate::control::{Control, Stop};
use crate::machine::processor_time_s;
use crate::report::{Bucket, Job, Latencies, Pattern, Round, Slice, WriteMode};
use aquifer_base::random::Random;

/// When a round is over: whichever comes first.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time of the queue.
    pub duration_ns: u64,
    /// Transfers of all jobs together.
    pub ios: u64,
    /// Bytes written by all jobs together.
    pub written_bytes: u64,
}

/// Longest latency that histograms tell from longer ones.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// Parts that a timeline has at most.
const SLICES: u64 = 64;
/// Shortest part of a timeline where time is not simulated.
const SLICE_NS_MIN: u64 = 100_000_000;

/// Runs jobs side by side; one round for each. What they write is added to `written_bytes`, also when they do not come to their end.
///
/// # Errors
/// [`Stop`]; nothing is under way then.
pub fn run(
    queue: &mut dyn Queue,
    jobs: &[Job],
    limits: Limits,
    random: &mut Random,
    control: &dyn Control,
    written_bytes: &mut u64,
) -> Result<Vec<Round>, Stop> {
    let depth: u32 = jobs.iter().map(|job| job.depth).sum();
    let block_bytes = jobs.iter().map(|job| job.block_bytes).max().unwrap_or(0);
    queue.resize(depth as usize, block_bytes as usize)?;
    let start_ns = queue.now_ns();
    let slice_ns = if queue.is_simulated() { limits.duration_ns / SLICES } else { SLICE_NS_MIN };
    let mut streams: Vec<Stream> =
        jobs.iter().map(|job| Stream::new(job, start_ns, slice_ns, random)).collect();
    let cpu_s = processor_time_s();
    let mut round = Loop { queue, streams: &mut streams, limits, start_ns, written_bytes: 0, ios: 0 };
    let outcome = round.run(random, control);
    *written_bytes += round.written_bytes;
    outcome?;
    let end_ns = queue.now_ns();
    let cpu_s = if queue.is_simulated() { 0.0 } else { processor_time_s() - cpu_s };
    let total: u64 = streams.iter().map(|stream| stream.ios).sum();
    let share = |stream: &Stream| cpu_s * stream.ios as f64 / total.max(1) as f64;
    Ok(streams.iter().map(|stream| stream.round(end_ns - start_ns, share(stream))).collect())
}

/// One job at work.
struct Stream {
    job: Job,
    /// Blocks of the span.
    blocks: u64,
    next_block: u64,
    ios: u64,
    histogram: Histogram<u64>,
    sum_ns: f64,
    max_ns: u64,
    start_ns: u64,
    slice_ns: u64,
    slices: Vec<Slice>,
}

impl Stream {
    fn new(job: &Job, start_ns: u64, slice_ns: u64, random: &mut Random) -> Self {
        let blocks = (job.span_bytes / u64::from(job.block_bytes)).max(1);
        // A sequential job goes on somewhere else in each round: what it begins with must not be in a cache because of the last one.
        let next_block = random.below(blocks);
        let histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 2).expect("valid bounds");
        Stream {
            job: job.clone(),
            blocks,
            next_block,
            ios: 0,
            histogram,
            sum_ns: 0.0,
            max_ns: 0,
            start_ns,
            slice_ns: slice_ns.max(1),
            slices: Vec::new(),
        }
    }

    fn next(&mut self, random: &mut Random) -> QueueTransfer {
        let block = match self.job.pattern {
            Pattern::Random => random.below(self.blocks),
            Pattern::Sequential => {
                let block = self.next_block;
                self.next_block = (block + 1) % self.blocks;
                block
            }
        };
        let is_read = match self.job.read_percent {
            100 => true,
            0 => false,
            percent => random.below(100) < percent.into(),
        };
        let durability = match self.job.write_mode {
            WriteMode::Cached => Durability::Cached,
            WriteMode::FlushEach => Durability::FlushEach,
            WriteMode::Dsync => Durability::Dsync,
        };
        QueueTransfer {
            direction: if is_read { Direction::Read } else { Direction::Write(durability) },
            offset: block * u64::from(self.job.block_bytes),
            len_bytes: self.job.block_bytes as usize,
        }
    }

    fn note(&mut self, latency_ns: u64, done_ns: u64) {
        self.ios += 1;
        self.sum_ns += latency_ns as f64;
        self.max_ns = self.max_ns.max(latency_ns);
        self.histogram.saturating_record(latency_ns);
        let slice = ((done_ns - self.start_ns) / self.slice_ns) as usize;
        // A long stall leaves empty slices behind; a simulated one may be of any length.
        while self.slices.len() <= slice.min(10_000) {
            let end_ns = (self.slices.len() as u64 + 1) * self.slice_ns;
            self.slices.push(Slice { end_s: end_ns as f64 / 1e9, ios: 0, max_ns: 0 });
        }
        if let Some(slice) = self.slices.get_mut(slice) {
            slice.ios += 1;
            slice.max_ns = slice.max_ns.max(latency_ns);
        }
    }

    fn round(&self, duration_ns: u64, cpu_s: f64) -> Round {
        let quantile = |share| self.histogram.value_at_quantile(share).min(self.max_ns);
        let bucket = |value: hdrhistogram::iterators::IterationValue<u64>| Bucket {
            upper_ns: value.value_iterated_to(),
            count: value.count_since_last_iteration(),
        };
        let latency = Latencies {
            mean_ns: if self.ios == 0 { 0.0 } else { self.sum_ns / self.ios as f64 },
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            max_ns: self.max_ns,
            histogram: self.histogram.iter_recorded().map(bucket).collect(),
        };
        Round {
            duration_s: duration_ns as f64 / 1e9,
            ios: self.ios,
            bytes: self.ios * u64::from(self.job.block_bytes),
            cpu_s,
            latency,
            timeline: self.slices.clone(),
        }
    }
}

/// A transfer under way: its job, and when it began.
#[derive(Clone, Copy)]
struct Begun {
    stream: usize,
    at_ns: u64,
}

struct Loop<'a> {
    queue: &'a mut dyn Queue,
    streams: &'a mut [Stream],
    limits: Limits,
    start_ns: u64,
    written_bytes: u64,
    ios: u64,
}

impl Loop<'_> {
    fn run(&mut self, random: &mut Random, control: &dyn Control) -> Result<(), Stop> {
        let of_slot: Vec<usize> = self
            .streams
            .iter()
            .enumerate()
            .flat_map(|(number, stream)| std::iter::repeat_n(number, stream.job.depth as usize))
            .collect();
        let mut begun = Vec::with_capacity(of_slot.len());
        for (slot, &stream) in of_slot.iter().enumerate() {
            begun.push(self.begin(slot, stream, random)?);
        }
        let mut left = of_slot.len();
        let mut first_error = None;
        let mut look = Instant::now();
        let mut stopped = false;
        while left > 0 {
            let completion = self.queue.wait()?;
            let Begun { stream, at_ns } = begun[completion.slot];
            match completion.result {
                Ok(()) => {
                    self.streams[stream].note(completion.done_ns.saturating_sub(at_ns), completion.done_ns)
                }
                Err(error) => first_error = first_error.or(Some(error)),
            }
            if look.elapsed().as_millis() >= 100 {
                look = Instant::now();
                stopped = control.is_stopped();
            }
            if stopped || first_error.is_some() || self.is_over() {
                left -= 1;
            } else {
                begun[completion.slot] = self.begin(completion.slot, stream, random)?;
            }
        }
        match (first_error, stopped) {
            (Some(error), _) => Err(Stop::Device(error)),
            (None, true) => Err(Stop::Interrupted),
            (None, false) => Ok(()),
        }
    }

    fn begin(&mut self, slot: usize, stream: usize, random: &mut Random) -> Result<Begun, DeviceError> {
        let transfer = self.streams[stream].next(random);
        let at_ns = self.queue.now_ns();
        self.queue.submit(slot, transfer)?;
        self.ios += 1;
        if transfer.direction != Direction::Read {
            self.written_bytes += transfer.len_bytes as u64;
        }
        Ok(Begun { stream, at_ns })
    }

    fn is_over(&self) -> bool {
        self.queue.now_ns() - self.start_ns >= self.limits.duration_ns
            || self.ios >= self.limits.ios
            || self.written_bytes >= self.limits.written_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Unwatched;
    use crate::target::FlashSpec;

    /// Ends a run as soon as it asks.
    struct Impatient;

    impl Control for Impatient {
        fn is_stopped(&self) -> bool {
            true
        }

        fn begins(&self, _part: &str, _part_s: f64, _done_s: f64, _total_s: f64) {}
    }

    fn job(read_percent: u8) -> Job {
        Job {
            pattern: Pattern::Random,
            read_percent,
            block_bytes: 4096,
            depth: 4,
            write_mode: WriteMode::Cached,
            span_bytes: 1 << 20,
        }
    }

    fn queue() -> Box<dyn Queue> {
        let spec = FlashSpec::parse("size=64M,dies=1,channels=1").expect("parameters");
        spec.open(1, 4096).expect("a device")
    }

    const ENDLESS: Limits = Limits { duration_ns: u64::MAX, ios: u64::MAX, written_bytes: u64::MAX };

    #[test]
    fn what_an_interrupted_round_has_written_counts() {
        let (mut queue, mut written) = (queue(), 5);
        let outcome = run(&mut *queue, &[job(0)], ENDLESS, &mut Random::new(1), &Impatient, &mut written);
        assert_eq!(outcome.err(), Some(Stop::Interrupted));
        assert!(written > 4 * 4096 && written % 4096 == 5, "{written}");
    }

    #[test]
    fn limits_end_a_round_and_jobs_are_told_apart() {
        let (mut queue, mut written) = (queue(), 0);
        let limits = Limits { ios: 1000, ..ENDLESS };
        let jobs = [job(100), job(0)];
        let rounds = run(&mut *queue, &jobs, limits, &mut Random::new(1), &Unwatched, &mut written);
        let rounds = rounds.expect("nothing stops it");
        assert_eq!(rounds.iter().map(|round| round.ios).sum::<u64>(), 1000);
        assert_eq!(rounds[1].bytes, written);
        for round in rounds {
            let counted: u64 = round.latency.histogram.iter().map(|bucket| bucket.count).sum();
            assert_eq!(counted, round.ios);
            assert_eq!(round.timeline.iter().map(|slice| slice.ios).sum::<u64>(), round.ios);
            assert!(
                round.latency.p50_ns <= round.latency.p99_ns && round.latency.p99_ns <= round.latency.max_ns
            );
        }
    }
}
