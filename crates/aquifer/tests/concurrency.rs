//! Several threads on the same objects, pages and ranges, and several heaps at once.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};

use aquifer::{Array, ErrorCode, Faults, Heap, Options};
use common::{Object, Rng, Watchdog, is_child, long_or, run_child};

const RAM_BYTES: u64 = 8 << 20;
const THREADS: usize = 4;

fn heap(faults: Faults) -> Heap {
    Heap::open(Options::new().ram_bytes(RAM_BYTES).flash_bytes(128 << 20).faults(faults)).unwrap()
}

/// Runs the body with either way of delivering faults.
fn both_ways(name: &str, body: impl Fn(&Heap, &Watchdog)) {
    for faults in [Faults::Signal, Faults::Thread, Faults::Fence] {
        let watchdog = Watchdog::new(format!("{name} with {faults:?}"));
        let heap = heap(faults);
        body(&heap, &watchdog);
        heap.check().unwrap();
    }
}

/// A word of an element that threads share.
fn word(array: &Array, element: usize, number: usize) -> &AtomicU64 {
    // SAFETY: callers stay within the element; everybody uses the word as an atomic.
    unsafe { AtomicU64::from_ptr(array.element(element).cast::<u64>().add(number)) }
}

/// Reads of a whole array push everything else out of RAM.
fn push_out(array: &Array) {
    for n in 0..array.len() {
        word(array, n, 0).load(Ordering::Relaxed);
    }
}

fn written_array(heap: &Heap, count: usize, bytes: usize) -> Array {
    let array = heap.array(count, bytes).unwrap();
    for n in 0..count {
        word(&array, n, 0).store(n as u64, Ordering::Relaxed);
    }
    array
}

#[test]
fn threads_fault_one_object() {
    both_ways("threads that fault one object", |heap, watchdog| {
        let array = written_array(heap, 8000, 2000);
        let barrier = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let mut rng = Rng::new(1);
                    for _ in 0..3000 {
                        // All threads choose the same element and touch it at the same moment.
                        let n = rng.below(array.len());
                        barrier.wait();
                        assert_eq!(word(&array, n, 0).load(Ordering::Relaxed), n as u64);
                        watchdog.step();
                    }
                });
            }
        });
    });
}

#[test]
fn threads_write_words_of_one_object() {
    both_ways("threads that write one object", |heap, watchdog| {
        // More than fits, so that objects leave while they are written.
        let array = heap.array(6000, 2048).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let array = &array;
                scope.spawn(move || {
                    let mut rng = Rng::new(thread as u64 + 1);
                    for _ in 0..15_000 {
                        // Not atomic on purpose: a write that is lost shows as a wrong count.
                        let counter = word(array, rng.below(array.len()), thread * 17);
                        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                        watchdog.step();
                    }
                });
            }
        });
        for thread in 0..THREADS {
            let total: u64 =
                (0..array.len()).map(|n| word(&array, n, thread * 17).load(Ordering::Relaxed)).sum();
            assert_eq!(total, 15_000, "thread {thread}");
            watchdog.step();
        }
    });
}

#[test]
fn threads_add_to_the_same_words() {
    both_ways("threads that add to the same words", |heap, watchdog| {
        let array = heap.array(6000, 2048).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let array = &array;
                scope.spawn(move || {
                    let mut rng = Rng::new(thread as u64 + 1);
                    for _ in 0..10_000 {
                        word(array, rng.below(array.len()), 3).fetch_add(1, Ordering::Relaxed);
                        watchdog.step();
                    }
                });
            }
        });
        let total: u64 = (0..array.len()).map(|n| word(&array, n, 3).load(Ordering::Relaxed)).sum();
        assert_eq!(total, 10_000 * THREADS as u64);
    });
}

#[test]
fn churn_while_others_read() {
    both_ways("churn while others read", |heap, watchdog| {
        let array = written_array(heap, 6000, 1500);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let churns: Vec<_> = (0..2)
                .map(|thread| {
                    scope.spawn(move || {
                        let mut rng = Rng::new(thread + 10);
                        let mut objects: Vec<Object> = Vec::new();
                        for _ in 0..12_000 {
                            if objects.len() < 400 || (objects.len() < 800 && rng.below(2) == 0) {
                                let most = if rng.below(30) == 0 { 50_000 } else { 3000 };
                                let bytes = 1 + rng.below(most);
                                let mut object = Object::new(heap.allocate(bytes).unwrap(), bytes);
                                object.check();
                                object.write();
                                objects.push(object);
                            } else {
                                let object = objects.swap_remove(rng.below(objects.len()));
                                object.check();
                                heap.free(object.address).unwrap();
                            }
                            watchdog.step();
                        }
                        objects.iter().for_each(|object| heap.free(object.address).unwrap());
                    })
                })
                .collect();
            for thread in 0..2 {
                let (array, over) = (&array, &over);
                scope.spawn(move || {
                    let mut rng = Rng::new(thread + 20);
                    while !over.load(Ordering::Relaxed) {
                        let n = rng.below(array.len());
                        assert_eq!(word(array, n, 0).load(Ordering::Relaxed), n as u64);
                    }
                });
            }
            churns.into_iter().for_each(|churn| churn.join().unwrap());
            over.store(true, Ordering::Relaxed);
        });
        assert_eq!(heap.stats().objects, array.len() as u64);
    });
}

/// One thread walks through a leaf in order while others allocate and free in the same leaf: pages that
/// the walk maps ahead may belong to nobody, or to somebody else a moment later.
#[test]
fn walks_beside_churn() {
    both_ways("walks beside churn", |heap, watchdog| {
        let shared: Mutex<Vec<Object>> = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..THREADS as u64 {
                let shared = &shared;
                scope.spawn(move || {
                    let mut rng = Rng::new(thread + 1);
                    for round in 0..250 {
                        // The whole leaf changes its size from round to round.
                        let bytes = [16, 160, 224, 1000, 4096][(round + thread as usize) % 5];
                        let mut objects: Vec<Object> =
                            (0..60).map(|_| Object::new(heap.allocate(bytes).unwrap(), bytes)).collect();
                        objects.sort_by_key(|object| object.address as usize);
                        objects.iter().for_each(Object::check);
                        objects.iter_mut().filter(|_| rng.below(2) == 0).for_each(Object::write);
                        objects.iter().for_each(Object::check);
                        watchdog.step();
                        let mut others = shared.lock().unwrap();
                        others.extend(objects.split_off(50));
                        let surplus = others.len().saturating_sub(100);
                        objects.extend(others.drain(..surplus));
                        drop(others);
                        for object in objects {
                            object.check();
                            heap.free(object.address).unwrap();
                        }
                    }
                });
            }
        });
        for object in shared.into_inner().unwrap() {
            object.check();
            heap.free(object.address).unwrap();
        }
        assert_eq!((heap.stats().objects, heap.stats().flash_live_bytes), (0, 0));
    });
}

#[test]
fn prefetch_races_faults() {
    both_ways("prefetch that races faults", |heap, watchdog| {
        let array = written_array(heap, 12_000, 1200);
        push_out(&array);
        std::thread::scope(|scope| {
            for thread in 0..THREADS as u64 {
                let array = &array;
                scope.spawn(move || {
                    // Threads 0 and 1 choose the same elements, and so do 2 and 3.
                    let mut rng = Rng::new(thread / 2);
                    for _ in 0..150 {
                        let chosen: Vec<usize> = (0..100).map(|_| rng.below(array.len())).collect();
                        if thread % 2 == 0 {
                            let addresses: Vec<_> =
                                chosen.iter().map(|&n| array.element(n).cast_const()).collect();
                            heap.prefetch(&addresses).unwrap();
                        }
                        for n in chosen {
                            assert_eq!(word(array, n, 0).load(Ordering::Relaxed), n as u64);
                        }
                        watchdog.step();
                    }
                });
            }
        });
    });
}

#[test]
fn pins_of_one_page_nest_across_threads() {
    both_ways("pins of one page", |heap, watchdog| {
        let array = written_array(heap, 6000, 2000);
        let barrier = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for thread in 0..THREADS as u64 {
                let (array, barrier) = (&array, &barrier);
                scope.spawn(move || {
                    let mut rng = Rng::new(thread + 1);
                    for _ in 0..long_or(15, 5) {
                        // Few elements, so that first pins and last unpins of a page meet.
                        for _ in 0..500 {
                            let element = array.element(rng.below(2));
                            heap.pin(element, 2000).unwrap();
                            heap.unpin(element, 2000).unwrap();
                        }
                        (0..2).for_each(|n| heap.pin(array.element(n), 2000).unwrap());
                        if barrier.wait().is_leader() {
                            heap.check().unwrap();
                            // Everything else leaves, but pinned pages must not.
                            push_out(array);
                            heap.check().unwrap();
                            let error = heap.free(array.base()).unwrap_err();
                            assert_eq!(error.code(), ErrorCode::Pinned, "{error}");
                        }
                        barrier.wait();
                        (0..2).for_each(|n| heap.unpin(array.element(n), 2000).unwrap());
                        watchdog.step();
                    }
                });
            }
        });
        for n in 0..3 {
            let error = heap.unpin(array.element(n), 2000).unwrap_err();
            assert_eq!(error.code(), ErrorCode::Invalid, "{error}");
        }
        heap.free(array.base()).unwrap();
    });
}

/// Walks map pages along that belong to no object. Nothing of them may be left when the leaf is given out for
/// objects of another size.
#[test]
fn a_leaf_changes_its_size() {
    both_ways("a leaf that changes its size", |heap, watchdog| {
        let others = written_array(heap, 4000, 2000);
        for round in 0..long_or(40, 20) {
            let bytes = [160, 224, 48, 1000, 320][round % 5];
            let count = [200, 240][round % 2];
            let mut objects: Vec<Object> =
                (0..count).map(|_| Object::new(heap.allocate(bytes).unwrap(), bytes)).collect();
            objects.sort_by_key(|object| object.address as usize);
            // In order, up to where nothing is allocated.
            objects.iter().for_each(Object::check);
            objects.iter_mut().for_each(Object::write);
            push_out(&others);
            for object in &objects {
                object.check();
                heap.free(object.address).unwrap();
                watchdog.step();
            }
        }
        assert_eq!(heap.stats().objects, others.len() as u64);
    });
}

/// In a process of its own, because there are as many heaps in a process as tests run at a time.
#[test]
fn sixteen_heaps_and_no_more() {
    if !is_child("sixteen_heaps_and_no_more") {
        let output = run_child("sixteen_heaps_and_no_more");
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let watchdog = Watchdog::new("heaps opened and closed");
    for round in 0..20 {
        let heaps: Vec<Heap> = (0..16).map(|_| small()).collect();
        let refused = Heap::open(Options::new().ram_bytes(RAM_BYTES).flash_bytes(64 << 20));
        assert_eq!(refused.err().map(|error| error.code()), Some(ErrorCode::Kernel));
        for (n, heap) in heaps.iter().enumerate() {
            let mut object = Object::new(heap.allocate(5000).unwrap(), 5000);
            object.write();
            object.check();
            // An object of another heap is foreign.
            let other = &heaps[(n + 1) % heaps.len()];
            assert_eq!(other.free(object.address).unwrap_err().code(), ErrorCode::Foreign);
            watchdog.step();
        }
        // Closed in another order than opened.
        let mut heaps = heaps;
        while !heaps.is_empty() {
            heaps.swap_remove((round * 7) % heaps.len());
        }
        watchdog.step();
    }
}

fn small() -> Heap {
    Heap::open(Options::new().ram_bytes(RAM_BYTES).flash_bytes(64 << 20)).unwrap()
}

#[test]
fn heaps_come_and_go_while_others_work() {
    let watchdog = Watchdog::new("heaps that come and go");
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let watchdog = &watchdog;
            scope.spawn(move || {
                for round in 0..12 {
                    let heap = if (round + thread) % 3 == 0 { heap(Faults::Thread) } else { small() };
                    let mut objects: Vec<Object> =
                        (0..1500).map(|_| Object::new(heap.allocate(6000).unwrap(), 6000)).collect();
                    objects.iter_mut().for_each(Object::write);
                    objects.iter().for_each(Object::check);
                    watchdog.step();
                }
            });
        }
    });
}
