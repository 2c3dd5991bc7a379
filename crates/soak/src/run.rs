//! All threads, quiescent points, the outcome; and the end of a run that hangs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use aquifer::{Error, Heap};
use aquifer_base::limits::OS_PAGE_BYTES;

use crate::Config;
use crate::outcome::{Counts, Outcome, Snapshot};
use crate::worker::{Shared, Worker};

/// What the quiescent points have seen.
#[derive(Default)]
struct Seen {
    checks: u64,
    ram_bytes_max: u64,
}

/// Runs `config` to its end; `observe` is called at each quiescent point.
///
/// # Errors
/// The heap could not be opened. Everything else is in the outcome.
pub fn run(config: &Config, observe: &(dyn Fn(&Snapshot) + Sync)) -> Result<Outcome, Error> {
    let done = Arc::new(AtomicU64::new(0));
    let shared = Shared {
        heap: Heap::open(config.options.clone())?,
        slots: (0..config.objects).map(|_| Mutex::new(None)).collect(),
        seed: config.seed,
        done: done.clone(),
        differences: AtomicU64::new(0),
        described: Mutex::default(),
    };
    let watchdog = Watchdog::new(done);
    let seen = Mutex::new(Seen::default());
    let counts = work(config, &shared, &seen, observe);
    // What follows counts no operations.
    drop(watchdog);
    let stats = shared.heap.stats();
    read_all(&shared);
    free_all(&shared);
    let Seen { checks, ram_bytes_max } = seen.into_inner().expect("no thread panicked");
    Ok(Outcome {
        operations: shared.done.load(Ordering::Relaxed),
        counts,
        differences: shared.differences.load(Ordering::Relaxed),
        described: shared.described.into_inner().expect("no thread panicked"),
        checks: checks + 1,
        ram_bytes_max,
        stats,
    })
}

/// The threads, phase by phase.
fn work(
    config: &Config,
    shared: &Shared,
    seen: &Mutex<Seen>,
    observe: &(dyn Fn(&Snapshot) + Sync),
) -> Counts {
    let (threads, start) = (config.threads.max(1), Instant::now());
    let barrier = Barrier::new(threads);
    let over = AtomicBool::new(false);
    let mut counts = Counts::default();
    std::thread::scope(|scope| {
        let run = |number: usize| {
            let mut worker = Worker::new(shared, number);
            let mut left = share(config.operations, threads, number);
            while !over.load(Ordering::Acquire) {
                let now = share(config.operations_per_phase, threads, number).min(left);
                worker.work(now);
                left -= now;
                if barrier.wait().is_leader() {
                    rest(shared, &mut seen.lock().expect("no thread panicked"));
                    let snapshot = snapshot(shared);
                    observe(&snapshot);
                    let late = config.time_limit.is_some_and(|limit| start.elapsed() >= limit);
                    over.store(late || snapshot.operations >= config.operations, Ordering::Release);
                }
                barrier.wait();
            }
            worker.finish()
        };
        let handles: Vec<_> = (0..threads).map(|number| scope.spawn(move || run(number))).collect();
        handles.into_iter().for_each(|handle| counts.add(&handle.join().expect("no thread panicked")));
    });
    counts
}

/// Part `number` of `total` divided by `parts`.
fn share(total: u64, parts: usize, number: usize) -> u64 {
    let (parts, number) = (parts as u64, number as u64);
    total * (number + 1) / parts - total * number / parts
}

fn snapshot(shared: &Shared) -> Snapshot {
    Snapshot {
        operations: shared.done.load(Ordering::Relaxed),
        differences: shared.differences.load(Ordering::Relaxed),
        stats: shared.heap.stats(),
    }
}

/// A quiescent point: no thread uses the heap.
fn rest(shared: &Shared, seen: &mut Seen) {
    seen.checks += 1;
    if let Err(error) = shared.heap.check() {
        shared.differ(|| error.to_string());
    }
    let stats = shared.heap.stats();
    seen.ram_bytes_max = seen.ram_bytes_max.max(stats.ram_used_bytes);
    let (mut objects, mut bytes) = (0, 0);
    for slot in 0..shared.slots.len() {
        if let Some(object) = &*shared.lock(slot) {
            objects += object.count();
            bytes += object.bytes();
        }
    }
    if (stats.objects, stats.object_bytes) != (objects, bytes) {
        let (had, had_bytes) = (stats.objects, stats.object_bytes);
        shared.differ(|| {
            format!("the heap counts {had} objects of {had_bytes} bytes, the model {objects} of {bytes}")
        });
    }
}

fn read_all(shared: &Shared) {
    let mut scratch = [0; OS_PAGE_BYTES];
    for slot in 0..shared.slots.len() {
        if let Some(Err(difference)) = shared.lock(slot).as_ref().map(|object| object.read_all(&mut scratch))
        {
            shared.differ(|| format!("object {slot} at the end: {difference}"));
        }
    }
}

/// After everything is freed, nothing may be left in the log or in the counts.
fn free_all(shared: &Shared) {
    for slot in 0..shared.slots.len() {
        if let Some(object) = shared.lock(slot).take()
            && let Err(error) = shared.heap.free(object.address())
        {
            shared.differ(|| format!("object {slot} could not be freed: {error}"));
        }
    }
    if let Err(error) = shared.heap.check() {
        shared.differ(|| format!("after all was freed: {error}"));
    }
    let stats = shared.heap.stats();
    if (stats.objects, stats.object_bytes, stats.flash_live_bytes) != (0, 0, 0) {
        shared.differ(|| format!("something is left after all was freed: {stats:?}"));
    }
}

/// No operation of any thread ended in this time: far longer than any disk takes.
const PATIENCE_S: u32 = 120;

/// Aborts the process when nothing is counted for two minutes, until this is dropped.
struct Watchdog {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Watches `progress`.
    fn new(progress: Arc<AtomicU64>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = stop.clone();
        let thread = std::thread::spawn(move || watch(&progress, &stopping));
        Self { stop, thread: Some(thread) }
    }
}

fn watch(progress: &AtomicU64, stop: &AtomicBool) {
    let (mut before, mut still_s) = (progress.load(Ordering::Relaxed), 0);
    while !stop.load(Ordering::Relaxed) {
        std::thread::park_timeout(Duration::from_secs(1));
        let now = progress.load(Ordering::Relaxed);
        still_s = if now == before { still_s + 1 } else { 0 };
        before = now;
        if still_s >= PATIENCE_S {
            eprintln!("soak: nothing happened for {PATIENCE_S} seconds after {now} operations: a hang");
            std::process::abort();
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
