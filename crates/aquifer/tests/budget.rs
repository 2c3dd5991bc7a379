//! The budget is a ceiling: what the heap says it uses and what the kernel says the process uses both stay
//! below it, whatever the accesses are.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aquifer::{ErrorCode, Heap, Options};
use aquifer_sys::process::memory_of_self;
use common::{Object, Rng, Watchdog};

/// The process's memory is measured, so one test runs at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory of the process, page tables included. Code is not in it: it is mapped as it runs, sixteen pages at a time.
fn process_bytes() -> u64 {
    let used = memory_of_self(&mut [0; 4096]).expect("/proc is mounted");
    used.rss_bytes - used.file_bytes + used.page_table_bytes
}

/// What the process has in RAM now, as the kernel tells it: its mappings of more than 256 KiB.
fn mappings() -> String {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let (mut head, mut large) = ("", Vec::new());
    for line in smaps.lines() {
        match line.strip_prefix("Rss:") {
            Some(rss) if rss.trim().trim_end_matches(" kB").parse().unwrap_or(0) > 256 => {
                large.push(format!("{} {head}", rss.trim()));
            }
            None if line.split(' ').next().is_some_and(|word| word.contains('-')) => head = line,
            _ => {}
        }
    }
    large.join("\n")
}

/// What a process has of the library and of its threads once and keeps, whatever heaps it opens: data of the program that were relocated, arenas of
/// malloc, stacks that stay mapped. It is no part of a budget.
fn once() {
    let heap = Heap::open(Options::new().ram_bytes(8 << 20).flash_bytes(64 << 20)).unwrap();
    let array = heap.array(10_000, 1000).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for element in 0..array.len() {
                    // SAFETY: the byte is in the element; the threads use it as an atomic.
                    unsafe { AtomicU8::from_ptr(array.element(element)) }.store(1, Ordering::Relaxed);
                }
            });
        }
    });
}

/// A heap, and the memory of the process before it was opened.
struct Measured {
    heap: Heap,
    budget: u64,
    before: u64,
    /// Most that was seen of each.
    used_max: AtomicU64,
    process_max: AtomicU64,
    watchdog: Watchdog,
}

impl Measured {
    fn open(budget: u64, flash: u64) -> Self {
        let watchdog = Watchdog::new("a heap within its budget");
        once();
        let before = process_bytes();
        let heap = Heap::open(Options::new().ram_bytes(budget).flash_bytes(flash)).unwrap();
        let (used_max, process_max) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { heap, budget, before, used_max, process_max, watchdog }
    }

    fn sample(&self) {
        self.used_max.fetch_max(self.heap.stats().ram_used_bytes, Ordering::Relaxed);
        self.process_max.fetch_max(process_bytes().saturating_sub(self.before), Ordering::Relaxed);
        self.watchdog.step();
    }

    /// Runs `load` in two threads while a third samples.
    fn under(&self, load: impl Fn(u64) + Sync) {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let sampler = scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    self.sample();
                    std::thread::yield_now();
                }
            });
            let loads: Vec<_> = (0..2)
                .map(|n| {
                    scope.spawn({
                        let load = &load;
                        move || load(n)
                    })
                })
                .collect();
            loads.into_iter().for_each(|load| load.join().unwrap());
            over.store(true, Ordering::Release);
            sampler.join().unwrap();
        });
        self.sample();
        self.assert_within(self.budget);
    }

    #[track_caller]
    fn assert_within(&self, budget: u64) {
        let (used, process) =
            (self.used_max.load(Ordering::Relaxed), self.process_max.load(Ordering::Relaxed));
        println!("budget {budget}: the heap says {used}, the process grew by {process}");
        let limit = budget / 20 * 21;
        assert!(used <= limit, "the heap says it used {used} of {budget} bytes: {:?}", self.heap.stats());
        assert!(
            process <= limit,
            "the process grew by {process}, the budget is {budget}: {:?}\n{}",
            self.heap.stats(),
            mappings()
        );
    }
}

/// Arrays of several sizes with data of `ratio` times the budget, read and written at random, with objects
/// allocated and freed in between.
fn mixed(budget: u64, ratio: u64, operations: usize) {
    let measured = Measured::open(budget, budget * ratio * 2 + (64 << 20));
    let heap = &measured.heap;
    let sizes = [100, 128, 700, 2000, 4096];
    let arrays = sizes.map(|bytes| {
        let count = (budget * ratio) as usize / sizes.len() / bytes;
        (heap.array(count, bytes).unwrap(), bytes)
    });
    measured.under(|thread| {
        let mut rng = Rng::new(thread + 1);
        let mut own: Vec<Object> = Vec::new();
        for _ in 0..operations {
            let (array, bytes) = &arrays[rng.below(arrays.len())];
            let element = array.element(rng.below(array.len()));
            let at = rng.below(*bytes);
            // SAFETY: the byte is in the element; the threads use it as an atomic.
            let byte = unsafe { AtomicU8::from_ptr(element.add(at)) };
            match rng.below(8) {
                0..4 => assert!(byte.load(Ordering::Relaxed) <= 1),
                4..7 => byte.store(1, Ordering::Relaxed),
                _ if own.len() < 500 => {
                    let bytes = 1 + rng.below(6000);
                    own.push(Object::new(heap.allocate(bytes).unwrap(), bytes));
                    own.last_mut().unwrap().write();
                }
                _ => {
                    let object = own.swap_remove(rng.below(own.len()));
                    object.check();
                    heap.free(object.address).unwrap();
                }
            }
        }
        own.iter().for_each(Object::check);
    });
    heap.check().unwrap();
    assert!(heap.stats().evicted_objects > 1000, "{:?}", heap.stats());
}

#[test]
fn sixteen_mebibytes() {
    let _alone = alone();
    mixed(16 << 20, 6, 60_000);
}

#[test]
fn sixty_four_mebibytes() {
    let _alone = alone();
    mixed(64 << 20, 4, 120_000);
}

#[test]
fn two_hundred_and_fifty_six_mebibytes() {
    let _alone = alone();
    mixed(256 << 20, 2, 250_000);
}

/// Every access in another 2 MiB range: page tables would take as much as the pages.
#[test]
fn scattered_accesses() {
    let _alone = alone();
    let measured = Measured::open(16 << 20, 2 << 30);
    const RANGE: usize = 512;
    let array = measured.heap.array(4000 * RANGE, 64).unwrap();
    measured.under(|thread| {
        let mut rng = Rng::new(thread + 1);
        for _ in 0..60_000 {
            let word = array.element(rng.below(4000) * RANGE + thread as usize).cast::<u64>();
            // SAFETY: each thread has its own elements, of 64 bytes.
            unsafe { word.write(word.read() + 1) };
        }
    });
    measured.heap.check().unwrap();
}

/// As much pinned as may be, while others go on.
#[test]
fn pins_up_to_the_limit() {
    let _alone = alone();
    let measured = Measured::open(16 << 20, 512 << 20);
    let heap = &measured.heap;
    let array = heap.array(200_000, 256).unwrap();
    let mut pinned = Vec::new();
    let error = loop {
        let element = array.element(pinned.len() * 600);
        match heap.pin(element, 256) {
            Ok(()) => pinned.push(element),
            Err(error) => break error,
        }
        assert!(pinned.len() < 300, "pins have no limit");
    };
    assert_eq!(error.code(), ErrorCode::Pinned, "{error}");
    assert!(pinned.len() >= 16, "only {} pages may be pinned", pinned.len());
    measured.under(|thread| {
        let mut rng = Rng::new(thread + 1);
        for _ in 0..60_000 {
            let word = array.element(rng.below(100_000) * 2 + thread as usize).cast::<u64>();
            // SAFETY: each thread has its own elements, of 256 bytes.
            unsafe { word.write(word.read() + 1) };
        }
    });
    for element in pinned {
        heap.unpin(element, 256).unwrap();
    }
    heap.check().unwrap();
}

/// Size classes one after the other: each gets the RAM that the one before had.
#[test]
fn many_size_classes_in_turn() {
    let _alone = alone();
    let measured = Measured::open(16 << 20, 1 << 30);
    let heap = &measured.heap;
    for bytes in [128, 1024, 16, 4096, 320, 2560, 48, 640] {
        let count = (20 << 20) / (bytes + 100);
        let array = heap.array(count, bytes).unwrap();
        // Not kept in a list: that would count as memory of the process.
        let element = |n: usize, version| Object { address: array.element(n), bytes, version };
        for n in 0..count {
            element(n, 0).write();
            measured.watchdog.step();
        }
        measured.sample();
        (0..count).for_each(|n| element(n, 1).check());
        measured.sample();
        // A working set of a quarter of the RAM is read from RAM after some rounds.
        let hot = (4 << 20) / (bytes + 100);
        let mut share = 0.0;
        for _ in 0..12 {
            let before = heap.stats();
            (0..hot).for_each(|n| element(n, 1).check());
            let after = heap.stats();
            share = (after.misses - before.misses) as f64 / hot as f64;
            measured.watchdog.step();
        }
        measured.sample();
        assert!(share < 0.05, "{bytes} bytes: {share} of the accesses miss: {:?}", heap.stats());
        measured.assert_within(measured.budget);
    }
    heap.check().unwrap();
}
