//! Objects of different classes never share a leaf, and what is freed together is cheap to clean.

mod common;

use std::collections::HashMap;

use aquifer::{AllocationClass, Heap, Options, Stats, current_class, set_class, with_class};
use common::{Object, Rng, Watchdog};

const LEAF_BYTES: usize = 2 << 20;
const RAM_BYTES: u64 = 8 << 20;

fn heap(flash_bytes: u64) -> Heap {
    let directory = std::env::var_os("TMPDIR").unwrap_or("/var/tmp".into());
    Heap::open(Options::new().ram_bytes(RAM_BYTES).flash_path(directory).flash_bytes(flash_bytes)).unwrap()
}

fn allocate(heap: &Heap, class: u8, bytes: usize) -> Object {
    Object::new(with_class(AllocationClass(class), || heap.allocate(bytes)).unwrap(), bytes)
}

/// The leaves of an object.
fn leaves(object: &Object) -> std::ops::RangeInclusive<usize> {
    let first = object.address as usize;
    first / LEAF_BYTES..=(first + object.bytes.div_ceil(4096).max(1) * 4096 - 1) / LEAF_BYTES
}

#[test]
fn classes_never_share_a_leaf() {
    let watchdog = Watchdog::new("objects of many classes");
    let heap = heap(192 << 20);
    let mut rng = Rng::new(11);
    let mut held: Vec<(u8, Object)> = Vec::new();
    let mut class_of: HashMap<usize, (u8, usize)> = HashMap::new();
    for step in 0..30_000 {
        watchdog.step();
        if rng.below(5) > 1 || held.is_empty() {
            let class = [0, 0, 1, 2, 77, 255][rng.below(6)];
            let bytes = match rng.below(400) {
                0 => 1 + rng.below(3 << 20),
                1..10 => 1 + rng.below(60_000),
                _ => 1 + rng.below(900),
            };
            let mut object = allocate(&heap, class, bytes);
            assert_eq!(heap.class_of(object.address).unwrap(), AllocationClass(class));
            object.check();
            object.write();
            for leaf in leaves(&object) {
                let known = class_of.entry(leaf).or_insert((class, 0));
                assert_eq!(known.0, class, "step {step}: a leaf has objects of two classes");
                known.1 += 1;
            }
            held.push((class, object));
        } else {
            let (_, object) = held.swap_remove(rng.below(held.len()));
            object.check();
            heap.free(object.address).unwrap();
            for leaf in leaves(&object) {
                let known = class_of.get_mut(&leaf).unwrap();
                known.1 -= 1;
                if known.1 == 0 {
                    class_of.remove(&leaf);
                }
            }
        }
    }
    heap.check().unwrap();
    for (class, object) in held {
        object.check();
        assert_eq!(heap.class_of(object.address).unwrap(), AllocationClass(class));
        heap.free(object.address).unwrap();
        assert!(heap.class_of(object.address).is_err());
    }
    let stats = heap.stats();
    assert_eq!((stats.objects, stats.object_bytes, stats.flash_live_bytes), (0, 0, 0));
    heap.check().unwrap();
}

#[test]
fn freed_places_are_reused_in_their_class() {
    let heap = heap(64 << 20);
    let first: Vec<Object> = (0..600).map(|_| allocate(&heap, 1, 100)).collect();
    let freed = first[17].address;
    heap.free(freed).unwrap();
    assert_ne!(allocate(&heap, 0, 100).address, freed);
    assert_ne!(allocate(&heap, 2, 100).address, freed);
    let again: Vec<*mut u8> = (0..512).map(|_| allocate(&heap, 1, 100).address).collect();
    assert!(again.contains(&freed));
}

#[test]
fn an_empty_leaf_is_for_any_class() {
    let heap = heap(64 << 20);
    let first: Vec<Object> = (0..512).map(|_| allocate(&heap, 1, 100)).collect();
    first.iter().for_each(|object| heap.free(object.address).unwrap());
    assert_eq!(
        allocate(&heap, 2, 3000).address as usize / LEAF_BYTES,
        first[0].address as usize / LEAF_BYTES
    );
}

#[test]
fn classes_that_are_not_used_cost_nothing() {
    let watchdog = Watchdog::new("all classes in turn");
    let heap = heap(64 << 20);
    let mut after_first = None;
    for _ in 0..5 {
        let mut objects: Vec<Object> = (0..=255).map(|class| allocate(&heap, class, 50)).collect();
        objects.extend((0..=255).map(|class| allocate(&heap, class, 5000)));
        for object in &mut objects {
            object.write();
            watchdog.step();
        }
        for object in objects {
            object.check();
            heap.free(object.address).unwrap();
        }
        let stats = heap.stats();
        assert_eq!((stats.objects, stats.object_bytes, stats.flash_live_bytes), (0, 0, 0));
        let limit = *after_first.get_or_insert(stats.metadata_bytes / 16 * 17);
        assert!(stats.metadata_bytes <= limit, "{} bytes of metadata after {limit}", stats.metadata_bytes);
        heap.check().unwrap();
    }
    // No flash stays promised to the freed objects: an array of the first size fits again.
    let full = heap.array(400_000, 64).map(|array| heap.free(array.base()).unwrap());
    assert!(full.is_ok(), "{full:?}");
}

#[test]
fn threads_have_classes_of_their_own() {
    let heap = heap(64 << 20);
    assert_eq!(set_class(AllocationClass(9)), AllocationClass::DEFAULT);
    let other = std::thread::scope(|scope| {
        let work = || (current_class(), heap.class_of(heap.allocate(10).unwrap()).unwrap());
        scope.spawn(work).join().unwrap()
    });
    assert_eq!(other, (AllocationClass::DEFAULT, AllocationClass::DEFAULT));
    let array = heap.array(10, 100).unwrap();
    assert_eq!(heap.class_of(array.base()).unwrap(), AllocationClass(9));
    assert_eq!(set_class(AllocationClass::DEFAULT), AllocationClass(9));
    let block = heap.allocate_block(100, 16).unwrap();
    assert_eq!(heap.class_of(block).unwrap(), AllocationClass::DEFAULT);
    assert!(heap.class_of(std::ptr::null()).is_err());
}

/// Objects that stay and objects that go together, allocated in turn: eight rounds, after each of which those that go are
/// freed. What the cleaner had to copy of both.
fn cleaned(short: AllocationClass, long: AllocationClass) -> Stats {
    const BYTES: usize = 1000;
    let watchdog = Watchdog::new("two lifetimes");
    let heap = heap(128 << 20);
    let mut kept = Vec::new();
    for _ in 0..8 {
        let mut going = Vec::new();
        for number in 0..24_000 {
            let stays = number % 4 == 0;
            let mut object = allocate(&heap, if stays { long.0 } else { short.0 }, BYTES);
            object.write();
            if stays {
                kept.push(object)
            } else {
                going.push(object)
            }
            watchdog.step();
        }
        for object in going {
            heap.free(object.address).unwrap();
            watchdog.step();
        }
    }
    for object in kept.iter().step_by(7) {
        object.check();
        watchdog.step();
    }
    heap.check().unwrap();
    let stats = heap.stats();
    assert!(stats.segments_cleaned > 100 && stats.io_errors == 0, "{stats:?}");
    stats
}

#[test]
fn the_cleaner_moves_less_with_classes() {
    let mixed = cleaned(AllocationClass::DEFAULT, AllocationClass::DEFAULT);
    let apart = cleaned(AllocationClass(1), AllocationClass(2));
    println!("cleaned bytes: {} mixed, {} apart", mixed.objects_cleaned_bytes, apart.objects_cleaned_bytes);
    println!("written bytes: {} mixed, {} apart", mixed.device_written_bytes, apart.device_written_bytes);
    assert!(apart.objects_cleaned_bytes < mixed.objects_cleaned_bytes / 2);
    assert!(apart.device_written_bytes < mixed.device_written_bytes);
}
