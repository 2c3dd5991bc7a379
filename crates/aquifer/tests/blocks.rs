//! Blocks that share pages: no byte is lost or seen twice, the budget holds, pages of zeros cost no flash.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};

use aquifer::{Faults, Heap, Options};
use common::{Object, Rng, Watchdog};

const PAGE: usize = 4096;

fn heap(ram: u64, flash: u64, faults: Faults) -> Heap {
    let options = Options::new().ram_bytes(ram).flash_bytes(flash).object_bytes(PAGE).faults(faults);
    Heap::open(options).unwrap()
}

fn word(block: *mut u8, at: usize) -> &'static AtomicU64 {
    // SAFETY: callers stay within their block; everybody uses the words as atomics.
    unsafe { AtomicU64::from_ptr(block.add(at).cast()) }
}

#[test]
fn blocks_keep_their_bytes_while_others_come_and_go() {
    for faults in [Faults::Signal, Faults::Thread, Faults::Fence] {
        let watchdog = Watchdog::new(format!("blocks with {faults:?}"));
        let heap = heap(8 << 20, 256 << 20, faults);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (heap, watchdog) = (&heap, &watchdog);
                scope.spawn(move || {
                    let mut rng = Rng::new(thread + 1);
                    let mut own: Vec<Object> = Vec::new();
                    let mut bytes_held = 0;
                    for _ in 0..8000 {
                        let bytes = match rng.below(10) {
                            0..6 => 1 + rng.below(600),
                            6..9 => 1 + rng.below(9000),
                            _ => 1 + rng.below(300_000),
                        };
                        if bytes_held + bytes < 12 << 20 && rng.below(5) > 0 {
                            own.push(Object::new(heap.allocate_block(bytes, 16).unwrap(), bytes));
                            own.last_mut().unwrap().write();
                            bytes_held += bytes;
                        } else if !own.is_empty() {
                            let object = own.swap_remove(rng.below(own.len()));
                            object.check();
                            bytes_held -= object.bytes;
                            heap.free(object.address).unwrap();
                        }
                        if !own.is_empty() && rng.below(3) == 0 {
                            let pick = rng.below(own.len());
                            own[pick].check();
                            own[pick].write();
                        }
                        watchdog.step();
                    }
                    for object in own {
                        object.check();
                        heap.free(object.address).unwrap();
                    }
                });
            }
        });
        heap.check().unwrap();
        let stats = heap.stats();
        assert_eq!((stats.objects, stats.object_bytes), (0, 0));
        assert!(stats.device_reads > 1000, "{stats:?}");
    }
}

/// Pages behind a fence are mappings of their own, of which a process has 65,530 unless somebody has raised that.
#[test]
fn more_pages_may_be_in_ram_than_there_are_mappings() {
    const PAGES: usize = 150_000;
    let watchdog = Watchdog::new("more pages than mappings");
    let heap = heap(320 << 20, 1 << 30, Faults::Fence);
    let block = heap.allocate_block(PAGES * PAGE, PAGE).unwrap();
    // Every second page, in no order: none has a neighbour that is accessible.
    let pages = || (0..PAGES / 2).map(|n| n * 40_507 % (PAGES / 2) * 2);
    for page in pages() {
        word(block, page * PAGE).store(page as u64 + 1, Ordering::Relaxed);
        watchdog.step();
    }
    for page in pages() {
        assert_eq!(word(block, page * PAGE).load(Ordering::Relaxed), page as u64 + 1);
        watchdog.step();
    }
    let mappings = std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    let most = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse().unwrap();
    assert!(mappings < most, "{mappings} mappings of {most}");
    assert!(heap.stats().hits > 0, "{:?}", heap.stats());
}

#[test]
fn walks_in_any_direction_find_their_bytes() {
    let heap = heap(8 << 20, 128 << 20, Faults::Signal);
    let pages = 10_000;
    let block = heap.allocate_block(pages * PAGE, PAGE).unwrap();
    for page in 0..pages {
        word(block, page * PAGE + 8).store(page as u64, Ordering::Relaxed);
    }
    for stride in [1, -1, 2, 7, -3, 100] {
        let mut at = if stride > 0 { 0 } else { pages as i64 - 1 };
        while (0..pages as i64).contains(&at) {
            assert_eq!(
                word(block, at as usize * PAGE + 8).load(Ordering::Relaxed),
                at as u64,
                "stride {stride}"
            );
            at += stride;
        }
    }
    heap.check().unwrap();
    assert!(heap.stats().hits > 1000, "read ahead: {:?}", heap.stats());
}

#[test]
fn pages_of_zeros_cost_no_flash() {
    let heap = heap(8 << 20, 128 << 20, Faults::Signal);
    let bytes = 60 << 20;
    let block = heap.allocate_block(bytes, 16).unwrap();
    for value in [1, 0] {
        for page in 0..bytes / PAGE {
            word(block, page * PAGE).store(value, Ordering::Relaxed);
        }
    }
    let before = heap.stats().flash_live_bytes;
    assert!(before < 16 << 20, "{before} bytes are live of pages that are zeros again");
    assert!((0..bytes / PAGE).all(|page| word(block, page * PAGE).load(Ordering::Relaxed) == 0));
    heap.check().unwrap();
}

/// One word on each of many pages, far apart: their page tables must stay within the budget too.
#[test]
fn thinly_spread_pages_stay_within_the_budget() {
    let ram = 16u64 << 20;
    let heap = heap(ram, 3 << 30, Faults::Signal);
    let bytes = 2 << 30;
    let block = heap.allocate_block(bytes, 16).unwrap();
    let mut rng = Rng::new(1);
    for n in 0..60_000 {
        word(block, rng.below(bytes / 8) * 8).fetch_add(1, Ordering::Relaxed);
        if n % 100 == 0 {
            let stats = heap.stats();
            assert!(stats.ram_used_bytes <= ram / 20 * 21, "{stats:?}");
        }
    }
    heap.check().unwrap();
}
