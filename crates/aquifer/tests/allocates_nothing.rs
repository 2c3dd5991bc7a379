//! Faults allocate nothing once a heap is open: a program may fault with any lock held, that of its malloc too.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use aquifer::{Array, Heap, Options};
use common::Rng;

const RAM_BYTES: u64 = 8 << 20;
const DATA_BYTES: usize = 16 << 20;
const THREADS: usize = 4;
const TOUCHES: usize = 8_000;

thread_local! {
    /// This thread does nothing but touch objects.
    static TOUCHES_ONLY: Cell<bool> = const { Cell::new(false) };
}

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

struct Watched;

#[global_allocator]
static ALLOCATOR: Watched = Watched;

fn look() {
    if TOUCHES_ONLY.get() {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: as the system's.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        look();
        // SAFETY: passed on to the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        look();
        // SAFETY: passed on to the caller.
        unsafe { System.dealloc(block, layout) };
    }
}

fn touch(array: &Array, seed: u64) {
    let mut rng = Rng::new(seed);
    TOUCHES_ONLY.set(true);
    // All of it has bytes, more than RAM holds: most touches below are read from flash, however late the writer is.
    for n in 0..array.len() {
        // SAFETY: the element has a word, and is this thread's.
        unsafe { array.element(n).cast::<u64>().write_volatile(seed) };
    }
    for touch in 0..TOUCHES {
        // Scattered, and in order now and then, so that faults map pages ahead.
        let first = rng.below(array.len());
        let run = if touch % 64 == 0 { 100 } else { 1 };
        for n in first..(first + run).min(array.len()) {
            let word = array.element(n).cast::<u64>();
            // SAFETY: the element has a word, and is this thread's, or is only read as a whole word.
            unsafe {
                if touch % 3 == 0 {
                    word.write_volatile(seed);
                } else {
                    std::hint::black_box(word.read_volatile());
                }
            }
        }
    }
    TOUCHES_ONLY.set(false);
}

#[test]
fn faults_allocate_nothing() {
    TOUCHES_ONLY.set(true);
    drop(std::hint::black_box(Box::new(7)));
    TOUCHES_ONLY.set(false);
    assert_eq!(ALLOCATIONS.swap(0, Ordering::Relaxed), 2, "the allocator looks");
    for bytes in [100, 1000, 4096] {
        let options = Options::new().ram_bytes(RAM_BYTES).flash_bytes(128 << 20).object_bytes(bytes);
        let heap = Heap::open(options).unwrap();
        let arrays: Vec<Array> =
            (0..THREADS).map(|_| heap.array(DATA_BYTES / THREADS / bytes, bytes).unwrap()).collect();
        std::thread::scope(|scope| {
            for (seed, array) in arrays.iter().enumerate() {
                scope.spawn(move || touch(array, seed as u64));
            }
        });
        let stats = heap.stats();
        assert!(stats.misses > 1000 && stats.evicted_pages > 1000, "{stats:?}");
        assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), 0, "objects of {bytes} bytes");
    }
}
