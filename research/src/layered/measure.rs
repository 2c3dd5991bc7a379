//! One cell: a stack under a load.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aquifer_bench::error::{Error, Result};
use aquifer_bench::process::{Memory, cpu_ns};
use aquifer_bench::rng::Rng;
use aquifer_bench::study::Fields;
use aquifer_bench::workload::histogram;
use aquifer_device::nand::Timing;
use aquifer_volume::PAGE_BYTES;
use hdrhistogram::Histogram;

use super::Point;
use super::mounted::{Mounted, Reads};
use super::pattern::Pages;
use super::stack::{Contestant, stamp};

const WORDS_PER_PAGE: u64 = PAGE_BYTES as u64 / 8;
/// Accesses for each page of RAM before the flash takes any time.
const FILLING: u64 = 3;

/// A stack, and what is done with it.
pub struct Cell<'a> {
    /// Accesses of a thread from one sync to the next.
    pub sync_every: u64,
    /// At the flash's speed, before those that count.
    pub warmup: Duration,
    /// Measured time.
    pub length: Duration,
    /// What is done.
    pub point: &'a Point,
    /// By whom.
    pub stack: Contestant,
    /// Its file.
    pub mounted: Mounted,
}

/// What a thread counts.
struct Tally {
    latency_ns: Histogram<u32>,
    accesses: u64,
    sum_ns: u64,
    syncs: u64,
    sync_ns: u64,
}

/// Threads begin and end together.
struct Phase {
    is_measured: AtomicBool,
    is_over: AtomicBool,
    started: Barrier,
}

impl Cell<'_> {
    /// Fills the RAM, warms up, measures.
    ///
    /// # Errors
    /// [`Error::WrongData`], [`Error::Unavailable`].
    pub fn measure(&self, run: u32) -> Result<Fields> {
        self.fill_ram(run)?;
        self.mounted.set_timing(self.point.speed.timing());
        let threads = self.point.threads;
        let phase = Phase {
            is_measured: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            started: Barrier::new(threads as usize + 1),
        };
        let (tallies, seconds, cpu_ns, reads) = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|thread| {
                    let (phase, rng) = (&phase, Rng::new(u64::from(run) << 16 | u64::from(thread)));
                    scope.spawn(move || self.work(phase, rng))
                })
                .collect();
            phase.started.wait();
            std::thread::sleep(self.warmup);
            let (before, began, cpu_before_ns) = (self.mounted.reads(), Instant::now(), cpu_ns());
            phase.is_measured.store(true, Ordering::Release);
            std::thread::sleep(self.length);
            phase.is_over.store(true, Ordering::Release);
            let (seconds, cpu_ns) = (began.elapsed().as_secs_f64(), cpu_ns() - cpu_before_ns);
            let after = self.mounted.reads();
            let tallies: Result<Vec<_>> =
                workers.into_iter().map(|worker| worker.join().expect("it does not panic")).collect();
            let reads = Reads {
                pages: after.pages - before.pages,
                nodes: after.nodes - before.nodes,
                flash: after.flash - before.flash,
            };
            (tallies, seconds, cpu_ns, reads)
        });
        let vm_pte_bytes = Memory::now()?.vm_pte_bytes;
        // What is left to write is written without waiting.
        self.mounted.set_timing(Timing::NONE);
        Ok(summed(&tallies?, seconds, cpu_ns, reads).with("vm_pte_bytes", vm_pte_bytes))
    }

    fn fill_ram(&self, run: u32) -> Result<()> {
        let frames = self.point.ram_bytes / PAGE_BYTES as u64;
        let mut pages = self.pages();
        let mut rng = Rng::new(u64::from(run) << 32);
        let words = self.mounted.words();
        for _ in 0..frames * FILLING {
            self.look(words, pages.pick(&mut rng))?;
        }
        Ok(())
    }

    fn pages(&self) -> Pages {
        Pages::new(self.point.load.pattern, self.point.data_bytes / PAGE_BYTES as u64)
    }

    fn look(&self, words: &[AtomicU64], page: u64) -> Result<()> {
        let found = words[(page * WORDS_PER_PAGE) as usize].load(Ordering::Relaxed);
        if found == stamp(page as u32) {
            return Ok(());
        }
        let (peer, what) = (self.stack.to_string(), format!("page {page} begins with {found:016x}"));
        Err(Error::WrongData { peer, what })
    }

    fn work(&self, phase: &Phase, mut rng: Rng) -> Result<Tally> {
        let words = self.mounted.words();
        let (mut pages, reads) = (self.pages(), u64::from(self.point.load.read_percent));
        let mut tally = Tally::new();
        let (mut is_measured, mut steps) = (false, 0);
        phase.started.wait();
        while !phase.is_over.load(Ordering::Relaxed) {
            if !is_measured && phase.is_measured.load(Ordering::Acquire) {
                (tally, is_measured) = (Tally::new(), true);
            }
            let (page, is_read) = (pages.pick(&mut rng), rng.below(100) < reads);
            let began = Instant::now();
            if is_read {
                self.look(words, page)?;
            } else {
                let slot = page * WORDS_PER_PAGE + 1 + rng.below(WORDS_PER_PAGE - 1);
                words[slot as usize].store(steps, Ordering::Relaxed);
            }
            tally.note(began.elapsed());
            steps += 1;
            if reads < 100 && steps % self.sync_every == 0 {
                let began = Instant::now();
                self.mounted.sync()?;
                tally.syncs += 1;
                tally.sync_ns += began.elapsed().as_nanos() as u64;
            }
        }
        Ok(tally)
    }
}

impl Tally {
    fn new() -> Self {
        Tally { latency_ns: histogram(), accesses: 0, sum_ns: 0, syncs: 0, sync_ns: 0 }
    }

    fn note(&mut self, took: Duration) {
        let ns = took.as_nanos() as u64;
        self.latency_ns.saturating_record(ns.max(1));
        self.sum_ns += ns;
        self.accesses += 1;
    }
}

fn summed(tallies: &[Tally], seconds: f64, cpu_ns: u64, reads: Reads) -> Fields {
    let sum = |value: fn(&Tally) -> u64| tallies.iter().map(value).sum::<u64>();
    let mut latency_ns = histogram();
    for tally in tallies {
        latency_ns.add(&tally.latency_ns).expect("both have the same bounds");
    }
    let (accesses, syncs) = (sum(|tally| tally.accesses), sum(|tally| tally.syncs));
    let each = |count: u64| count as f64 / accesses.max(1) as f64;
    Fields::default()
        .with("ops_per_s", accesses as f64 / seconds)
        .with("mean_ns", each(sum(|tally| tally.sum_ns)))
        .with("p50_ns", latency_ns.value_at_quantile(0.5))
        .with("p99_ns", latency_ns.value_at_quantile(0.99))
        .with("cpu_ns_each", each(cpu_ns))
        .with("hit_percent", 100.0 * (1.0 - each(reads.pages)))
        .with("flash_reads_each", each(reads.flash))
        .with("node_reads_each", each(reads.nodes))
        .with("syncs", syncs)
        .with("sync_ns", sum(|tally| tally.sync_ns) as f64 / syncs.max(1) as f64)
}
