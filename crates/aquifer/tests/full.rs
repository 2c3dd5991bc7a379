//! A full device: allocation fails with an error, everything stays usable, and freed space can be allocated
//! again.

mod common;

use aquifer::device::MemoryDevice;
use aquifer::{ErrorCode, Flash, Heap, Options};
use common::{Object, Rng, Watchdog, long_or};
use std::sync::Arc;

const RAM_BYTES: u64 = 8 << 20;

fn heap(device_bytes: u64) -> Heap {
    let device = Arc::new(MemoryDevice::new(device_bytes, 4096));
    Heap::open(Options::new().ram_bytes(RAM_BYTES).flash(Flash::Device(device))).unwrap()
}

/// Allocates objects of `bytes` until there is no more memory.
fn fill(heap: &Heap, mut bytes: impl FnMut() -> usize, watchdog: &Watchdog) -> Vec<Object> {
    let mut objects = Vec::new();
    loop {
        watchdog.step();
        let bytes = bytes();
        match heap.allocate(bytes) {
            Ok(address) => objects.push(Object::new(address, bytes)),
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::NoMemory, "{error}");
                return objects;
            }
        }
    }
}

fn free_all(heap: &Heap, objects: Vec<Object>, watchdog: &Watchdog) {
    for object in objects {
        heap.free(object.address).unwrap();
        watchdog.step();
    }
    let stats = heap.stats();
    assert_eq!((stats.objects, stats.object_bytes, stats.flash_live_bytes), (0, 0, 0));
    heap.check().unwrap();
}

/// Fills the device to the last byte that is promised, writes everything, and rewrites it `rounds` times in
/// random order.
fn fill_and_rewrite(device_bytes: u64, rounds: usize, mut bytes: impl FnMut() -> usize) {
    let watchdog = Watchdog::new("a full device");
    let heap = heap(device_bytes);
    let mut objects = fill(&heap, &mut bytes, &watchdog);
    let count = objects.len();
    for object in &mut objects {
        object.write();
        watchdog.step();
    }
    let mut rng = Rng::new(3);
    for _ in 0..rounds * count {
        let object = &mut objects[rng.below(count)];
        object.check();
        object.write();
        watchdog.step();
    }
    for object in &objects {
        object.check();
        watchdog.step();
    }
    heap.check().unwrap();
    let stats = heap.stats();
    assert!(stats.segments_cleaned > 0 && stats.io_errors == 0, "{stats:?}");
    println!("{count} objects, {} of {} bytes live", stats.flash_live_bytes, stats.flash_bytes);
    free_all(&heap, objects, &watchdog);
    // No flash stays promised to the freed objects: as many can be allocated again.
    let again = fill(&heap, &mut bytes, &watchdog);
    assert!(again.len() * 100 >= count * 99, "{} after {count}", again.len());
    free_all(&heap, again, &watchdog);
}

#[test]
fn full_of_tiny_objects() {
    fill_and_rewrite(12 << 20, 3, || 16);
}

#[test]
fn full_of_small_objects() {
    fill_and_rewrite(32 << 20, long_or(3, 1), || 128);
}

/// With a dozen times more data than RAM most leaves are on the device too, and each move of a page writes one.
#[test]
fn full_with_little_ram() {
    fill_and_rewrite(long_or(96 << 20, 64 << 20) as u64, 1, || 128);
}

#[test]
fn full_of_odd_objects() {
    fill_and_rewrite(40 << 20, 3, || 1000);
}

#[test]
fn full_of_pages() {
    fill_and_rewrite(48 << 20, 3, || 4096);
}

#[test]
fn full_of_large_objects() {
    fill_and_rewrite(48 << 20, 3, || 300_000);
}

#[test]
fn full_of_everything() {
    let mut rng = Rng::new(5);
    fill_and_rewrite(48 << 20, 3, move || match rng.below(10) {
        0..7 => 1 + rng.below(300),
        7..9 => 1 + rng.below(4096),
        _ => 1 + rng.below(100_000),
    });
}

#[test]
fn stays_usable_after_frees() {
    let watchdog = Watchdog::new("a full device and frees");
    let heap = heap(32 << 20);
    let mut rng = Rng::new(7);
    let mut objects = fill(&heap, || 2000, &watchdog);
    objects.iter_mut().for_each(Object::write);
    assert_eq!(heap.array(1 << 20, 4096).unwrap_err().code(), ErrorCode::NoMemory);
    for _ in 0..20_000 {
        let index = rng.below(objects.len());
        heap.free(objects.swap_remove(index).address).unwrap();
        let mut object = Object::new(heap.allocate(2000).unwrap(), 2000);
        object.check();
        object.write();
        objects.push(object);
        objects[rng.below(objects.len())].check();
        watchdog.step();
    }
    assert_eq!(heap.allocate(2000).unwrap_err().code(), ErrorCode::NoMemory);
    objects.iter().for_each(Object::check);
    free_all(&heap, objects, &watchdog);
}

#[test]
fn cycles_leak_nothing() {
    let watchdog = Watchdog::new("cycles of allocation");
    let heap = heap(48 << 20);
    let mut rng = Rng::new(9);
    let mut before = None;
    for _ in 0..6 {
        let mut objects = Vec::new();
        for _ in 0..3000 {
            let bytes = 1 + rng.below(6000);
            objects.push(Object::new(heap.allocate(bytes).unwrap(), bytes));
        }
        let array = heap.array(700, 40).unwrap();
        objects.extend((1..700).map(|n| Object::new(array.element(n), 40)));
        for object in &mut objects {
            object.check();
            object.write();
            watchdog.step();
        }
        objects.truncate(3000);
        heap.free(array.base()).unwrap();
        while !objects.is_empty() {
            let object = objects.swap_remove(rng.below(objects.len()));
            object.check();
            heap.free(object.address).unwrap();
            watchdog.step();
        }
        let stats = heap.stats();
        assert_eq!((stats.objects, stats.object_bytes, stats.flash_live_bytes), (0, 0, 0));
        heap.check().unwrap();
        // The bookkeeping of the first round stays; later rounds add nothing to it.
        let metadata = stats.metadata_bytes;
        let limit = *before.get_or_insert(metadata + metadata / 8);
        assert!(metadata <= limit, "{metadata} bytes of metadata after {limit}");
    }
}
