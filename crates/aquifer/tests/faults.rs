//! A device that fails at each of its calls in turn: wrong bytes are never returned, nothing hangs, nothing
//! aborts, and what can be read is right.
//!
//! Each kind of fault is tried at some calls of the workload; `AQUIFER_FAULTS_ALL=1` tries every call.
//! The workload touches objects under pins, because a pin returns the error that a pointer cannot.

mod common;

use std::sync::{Arc, OnceLock};

use aquifer::device::{FaultKind, FaultPlan, Faulty, MemoryDevice, Operation};
use aquifer::{Error, ErrorCode, Flash, Heap, Options};
use common::{Object, Rng, Watchdog, long_or};

const RAM_BYTES: u64 = 8 << 20;
const DEVICE_BYTES: u64 = 28 << 20;
/// Their bytes are two and a half times the RAM.
const OBJECTS: usize = 6500;
const OPERATIONS: usize = 12_000;
/// Calls at which each kind of fault is tried; at half as many in the short form.
const PLACES: usize = 10;

type Device = Arc<Faulty<MemoryDevice>>;

fn device(plan: FaultPlan) -> Device {
    Arc::new(Faulty::new(MemoryDevice::new(DEVICE_BYTES, 4096), plan))
}

fn open(device: &Device) -> Heap {
    let options = Options::new().ram_bytes(RAM_BYTES).flash(Flash::Device(device.clone()));
    Heap::open(options).expect("opening a heap writes nothing")
}

/// What a run of the workload met.
#[derive(Default, Debug)]
struct Met {
    read_errors: u64,
    other_errors: u64,
}

/// A heap, its objects, and whether the device may have failed.
struct Run<'a> {
    heap: Heap,
    objects: Vec<Object>,
    rng: Rng,
    met: Met,
    may_fail: bool,
    watchdog: &'a Watchdog,
}

impl<'a> Run<'a> {
    /// A run on a device that may fail, without objects.
    fn new(heap: Heap, watchdog: &'a Watchdog) -> Self {
        Self { heap, objects: Vec::new(), rng: Rng::new(11), met: Met::default(), may_fail: true, watchdog }
    }

    /// An error is only right if the device may have failed, and if it is one of a device.
    #[track_caller]
    fn accept(&self, error: &Error) {
        assert!(self.may_fail, "{error}");
        assert!(matches!(error.code(), ErrorCode::Io | ErrorCode::Corrupt), "{error}");
    }

    fn allocate(&mut self) {
        let bytes = match self.rng.below(100) {
            0..30 => 1 + self.rng.below(256),
            30..96 => 1000 + self.rng.below(3097),
            _ => 4097 + self.rng.below(60_000),
        };
        match self.heap.allocate(bytes) {
            Ok(address) => self.objects.push(Object::new(address, bytes)),
            Err(error) => {
                self.met.other_errors += 1;
                self.accept(&error);
            }
        }
    }

    /// Compares the object with the model and, if wanted, writes it. It may be unreadable, never wrong.
    fn touch(&mut self, index: usize, write: bool) {
        let Object { address, bytes, .. } = self.objects[index];
        match self.heap.pin(address, bytes) {
            Ok(()) => {
                self.objects[index].check();
                if write {
                    self.objects[index].write();
                }
                self.heap.unpin(address, bytes).expect("it is pinned");
            }
            Err(error) => {
                self.met.read_errors += 1;
                self.accept(&error);
            }
        }
    }

    fn free(&mut self, index: usize) {
        match self.heap.free(self.objects[index].address) {
            Ok(()) => {
                self.objects.swap_remove(index);
            }
            // It is as it was.
            Err(error) => {
                self.met.other_errors += 1;
                self.accept(&error);
            }
        }
    }

    fn prefetch(&mut self) {
        let count = self.objects.len();
        let chosen: Vec<*const u8> =
            (0..20).map(|_| self.objects[self.rng.below(count)].address.cast_const()).collect();
        if let Err(error) = self.heap.prefetch(&chosen) {
            self.met.other_errors += 1;
            self.accept(&error);
        }
    }

    fn work(&mut self) {
        while self.objects.len() + (self.met.other_errors as usize) < OBJECTS {
            self.allocate();
            if !self.objects.is_empty() {
                self.touch(self.objects.len() - 1, true);
            }
            self.watchdog.step();
        }
        for _ in 0..OPERATIONS {
            let index = self.rng.below(self.objects.len());
            match self.rng.below(20) {
                0..9 => self.touch(index, false),
                9..16 => self.touch(index, true),
                16..18 => self.prefetch(),
                18 => self.free(index),
                _ => self.allocate(),
            }
            self.watchdog.step();
        }
        for index in 0..self.objects.len() {
            self.touch(index, false);
            self.watchdog.step();
        }
    }

    fn free_all(&mut self) {
        for index in (0..self.objects.len()).rev() {
            self.free(index);
            self.watchdog.step();
        }
    }
}

/// Runs the workload on a device with this plan; with a plan without faults, no error may come.
fn run(plan: FaultPlan, may_fail: bool, watchdog: &Watchdog) -> (Met, Device) {
    let device = device(plan);
    let heap = open(&device);
    let mut run = Run::new(heap, watchdog);
    run.may_fail = may_fail;
    run.work();
    if !may_fail {
        run.heap.check().expect("the heap is sound");
    }
    run.free_all();
    if !may_fail {
        let stats = run.heap.stats();
        assert!(stats.misses > 1000 && stats.segments_cleaned > 0, "the workload is too small: {stats:?}");
        assert_eq!((stats.objects, stats.flash_live_bytes), (0, 0));
    }
    let met = run.met;
    drop(run.heap);
    watchdog.step();
    (met, device)
}

/// Reads and writes of the device that the workload makes. They vary a little from run to run.
fn calls(watchdog: &Watchdog) -> (u64, u64) {
    static CALLS: OnceLock<(u64, u64)> = OnceLock::new();
    *CALLS.get_or_init(|| {
        let (_, device) = run(FaultPlan::new(0), false, watchdog);
        (device.calls(Operation::Read), device.calls(Operation::Write))
    })
}

fn at_each_call(operation: Operation, kind: impl Fn(u64) -> FaultKind) {
    let watchdog = Watchdog::new(format!("{:?} at a {operation}", kind(1)));
    let (reads, writes) = calls(&watchdog);
    let total = if operation == Operation::Read { reads } else { writes };
    let step = if std::env::var_os("AQUIFER_FAULTS_ALL").is_some() {
        1
    } else {
        (total / long_or(PLACES, PLACES / 2) as u64).max(1)
    };
    let mut met = Met::default();
    for nth in (1..=total).step_by(step as usize) {
        let (one, _) = run(FaultPlan::new(nth).on_nth(operation, nth, kind(nth)), true, &watchdog);
        met.read_errors += one.read_errors;
        met.other_errors += one.other_errors;
    }
    println!("{:?} at every {step}th of {total} {operation}s: {met:?}", kind(1));
}

#[test]
fn a_read_fails() {
    at_each_call(Operation::Read, |_| FaultKind::Eio);
}

#[test]
fn a_read_is_short() {
    at_each_call(Operation::Read, |_| FaultKind::ShortRead);
}

#[test]
fn a_read_has_a_wrong_bit() {
    at_each_call(Operation::Read, |nth| FaultKind::BitFlip { bit: nth.wrapping_mul(7919) });
}

#[test]
fn a_write_fails() {
    at_each_call(Operation::Write, |_| FaultKind::Eio);
}

#[test]
fn a_write_is_torn() {
    at_each_call(Operation::Write, |nth| FaultKind::TornWrite { keep_blocks: (nth % 32) as usize });
}

#[test]
fn a_write_finds_no_space() {
    at_each_call(Operation::Write, |_| FaultKind::NoSpace);
}

#[test]
fn a_write_has_a_wrong_bit() {
    at_each_call(Operation::Write, |nth| FaultKind::BitFlip { bit: nth.wrapping_mul(104_729) });
}

#[test]
fn a_write_is_lost() {
    at_each_call(Operation::Write, |_| FaultKind::LostWrite);
}

/// A device that dies and stays dead.
#[test]
fn the_device_dies() {
    let watchdog = Watchdog::new("a device that dies");
    let (reads, writes) = calls(&watchdog);
    for share in [1, 3, 6, 9] {
        let dead_reads = FaultPlan::new(0).from_nth(Operation::Read, reads * share / 10 + 1, FaultKind::Eio);
        run(dead_reads.clone(), true, &watchdog);
        let at_write = writes * share / 10 + 1;
        run(FaultPlan::new(0).from_nth(Operation::Write, at_write, FaultKind::Eio), true, &watchdog);
        run(dead_reads.from_nth(Operation::Write, at_write, FaultKind::NoSpace), true, &watchdog);
    }
}

/// A device that fails now and then in every way.
#[test]
fn the_device_is_flaky() {
    let watchdog = Watchdog::new("a flaky device");
    for seed in 1..=6 {
        let plan = FaultPlan::new(seed)
            .with_probability(Operation::Read, 0.01, FaultKind::Eio)
            .with_probability(Operation::Read, 0.01, FaultKind::ShortRead)
            .with_probability(Operation::Read, 0.01, FaultKind::BitFlip { bit: seed * 1001 })
            .with_probability(Operation::Write, 0.02, FaultKind::BitFlip { bit: seed * 70_001 })
            .with_probability(Operation::Write, 0.02, FaultKind::LostWrite);
        let (met, device) = run(plan, true, &watchdog);
        assert!(met.read_errors > 0 && device.calls(Operation::Read) > 0);
    }
}

/// Reads fail for good while most of the table is on flash: what is dirty in RAM cannot be written back, because the leaves that
/// it belongs to cannot be read, until there is no room in RAM for anything else.
#[test]
fn reads_die_under_random_writes() {
    const BYTES: usize = 100;
    let watchdog = Watchdog::new("random writes when reads have died");
    let plan = FaultPlan::new(0).from_nth(Operation::Read, 30_000, FaultKind::Eio);
    let device = Arc::new(Faulty::new(MemoryDevice::new(160 << 20, 4096), plan));
    let heap = open(&device);
    let array = heap.array(700_000, BYTES).expect("it fits the flash");
    let mut run = Run::new(heap, &watchdog);
    run.objects.extend((0..array.len()).map(|n| Object::new(array.element(n), BYTES)));
    let count = run.objects.len();
    for n in 0..count + 100_000 {
        let index = if n < count { n * 7919 % count } else { run.rng.below(count) };
        run.touch(index, true);
        watchdog.step();
    }
    assert!(run.met.read_errors > 1000, "{:?}", run.met);
}

/// Reads fail for good on a full device: nothing can be cleaned, so that there is room only where all is garbage.
#[test]
fn reads_die_on_a_full_device() {
    let watchdog = Watchdog::new("a full device whose reads have died");
    let device = device(FaultPlan::new(0).from_nth(Operation::Read, 1000, FaultKind::Eio));
    let heap = open(&device);
    let mut run = Run::new(heap, &watchdog);
    while let Ok(address) = run.heap.allocate(3000) {
        run.objects.push(Object::new(address, 3000));
        run.touch(run.objects.len() - 1, true);
        watchdog.step();
    }
    for _ in 0..20_000 {
        let index = run.rng.below(run.objects.len());
        run.touch(index, true);
        run.free(index);
        if let Ok(address) = run.heap.allocate(3000) {
            run.objects.push(Object::new(address, 3000));
            run.touch(run.objects.len() - 1, true);
        }
        watchdog.step();
    }
    assert!(run.met.read_errors > 1000, "{:?}", run.met);
}

/// Segments that cannot be read whole are given up. On a full device that leaves less room than was promised:
/// then writing stops, with errors instead of waits for room that will never come.
#[test]
fn a_full_device_loses_writes() {
    let watchdog = Watchdog::new("a full device that loses writes");
    let device = device(FaultPlan::new(5).with_probability(Operation::Write, 0.03, FaultKind::LostWrite));
    let heap = open(&device);
    let mut run = Run::new(heap, &watchdog);
    while let Ok(address) = run.heap.allocate(3000) {
        run.objects.push(Object::new(address, 3000));
    }
    for round in 0..4 {
        for index in 0..run.objects.len() {
            let index = if round == 0 { index } else { run.rng.below(run.objects.len()) };
            run.touch(index, true);
            watchdog.step();
        }
    }
    assert!(run.met.read_errors > 0, "{:?}", run.met);
    run.free_all();
}
