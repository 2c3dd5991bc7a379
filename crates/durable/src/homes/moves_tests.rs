//! Heaps whose areas go from one class to another.

use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::Ordering;

use aquifer_base::HomeAddress;

use crate::homes::{AREA_BYTES, CLASS_LOST, ROOT, class_home};
use crate::{DurableHeap, Error, Options, Result, Transaction};

/// Three slots in an area, and one.
const SMALLER: u64 = 5 << 20;
const LARGER: u64 = 12 << 20;

fn open(dir: &Path, areas: u32) -> DurableHeap {
    let options = Options { cleans_ahead: false, ..Options::default() };
    let heap = DurableHeap::open(&dir.join("heap"), &options).expect("a heap");
    heap.core().homes.end_with(areas);
    heap
}

fn alloc(heap: &DurableHeap, bytes: u64) -> Result<HomeAddress> {
    heap.transaction(|tx| tx.alloc(bytes))
}

fn free(heap: &DurableHeap, homes: impl IntoIterator<Item = HomeAddress>) {
    homes.into_iter().for_each(|home| heap.transaction(|tx| tx.free(home)).expect("it is allocated"));
}

/// Allocates until there is no home space left.
fn fill(heap: &DurableHeap, bytes: u64) -> Vec<HomeAddress> {
    let mut homes = Vec::new();
    loop {
        match alloc(heap, bytes) {
            Ok(home) => homes.push(home),
            Err(Error::Full { .. }) => return homes,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn space_of_one_size_becomes_space_of_another() {
    let dir = tempfile::tempdir().expect("a directory");
    let heap = open(dir.path(), 4);
    for _ in 0..3 {
        let smaller = fill(&heap, SMALLER);
        assert_eq!(smaller.len(), 12);
        // This thread's first session is taken: the second one keeps slots that the first one needs.
        let other = heap.begin();
        free(&heap, smaller);
        drop(other);
        let larger = fill(&heap, LARGER);
        assert_eq!(larger.len(), 4);
        free(&heap, larger);
    }
}

#[test]
fn an_area_without_objects_is_spare_when_the_heap_is_opened() {
    let dir = tempfile::tempdir().expect("a directory");
    let heap = open(dir.path(), 4);
    let mut smaller = fill(&heap, SMALLER);
    let kept = smaller.pop().expect("twelve");
    free(&heap, smaller);
    drop(heap);
    let heap = open(dir.path(), 4);
    assert_eq!(heap.core().homes.areas().len(), 2);
    assert_eq!(fill(&heap, LARGER).len(), 3);
    assert_eq!(fill(&heap, SMALLER).len(), 2);
    free(&heap, [kept]);
}

/// A heap with one area, in which there is an object of the smaller size that the root names.
struct Rooted {
    heap: DurableHeap,
    object: HomeAddress,
    _dir: tempfile::TempDir,
}

impl Rooted {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let heap = open(dir.path(), 1);
        let object = heap.transaction(|tx| {
            let object = tx.alloc(SMALLER)?;
            tx.set_root(object)?;
            Ok(object)
        });
        Self { heap, object: object.expect("room"), _dir: dir }
    }

    /// Frees the object, and puts one of another size with other bytes at its place.
    fn replace(&self, bytes: u64) -> HomeAddress {
        let freed = self.heap.transaction(|tx| {
            tx.free(self.object)?;
            tx.store_u64(ROOT, 0)
        });
        freed.expect("it is allocated");
        let other = self.heap.transaction(|tx| {
            let other = tx.alloc(bytes)?;
            tx.store(other, &[7; 8192])?;
            Ok(other)
        });
        let other = other.expect("the area is spare");
        assert_eq!(other, self.object);
        other
    }

    /// Whether `old` meets the replacement in what it does with the object, whose bytes and size stay.
    fn meets(&self, bytes: u64, old: impl Fn(&mut Transaction<'_>, HomeAddress) -> Result<()>) {
        for has_read in [false, true] {
            for has_acted in [false, true] {
                let mut tx = self.heap.begin();
                if has_read {
                    assert_eq!(tx.root().expect("a root"), Some(self.object));
                }
                if has_acted {
                    old(&mut tx, self.object).expect("it is allocated");
                }
                let other = self.replace(bytes);
                let outcome = old(&mut tx, self.object).and_then(|()| tx.commit());
                assert!(matches!(outcome, Err(Error::Conflict)), "{has_read} {has_acted} {outcome:?}");
                let mut found = [0; 8192];
                let mut tx = self.heap.begin();
                tx.load(other, &mut found).expect("it is allocated");
                assert_eq!((found, tx.size(other).expect("it is one")), ([7; 8192], bytes));
                drop(tx);
                free(&self.heap, [other]);
                let root = self.heap.transaction(|tx| {
                    let object = tx.alloc(SMALLER)?;
                    tx.set_root(object)?;
                    Ok(object)
                });
                assert_eq!(root.expect("the area is spare again"), self.object);
            }
        }
    }
}

/// Sizes with slots that begin where one of the object's ends, or within it; some do not reach as far.
const OTHERS: [u64; 3] = [LARGER, 8192, 1 << 20];

#[test]
fn a_store_to_an_object_of_the_old_class_is_a_conflict() {
    let rooted = Rooted::new();
    for bytes in OTHERS {
        rooted.meets(bytes, |tx, object| tx.store(object.plus_bytes(4), &[1; 16384]));
        rooted.meets(bytes, |tx, object| tx.store_u64(object.plus_bytes(SMALLER - 8), 1));
    }
}

#[test]
fn a_free_of_an_object_of_the_old_class_is_a_conflict() {
    let rooted = Rooted::new();
    for bytes in OTHERS {
        let free = |tx: &mut Transaction<'_>, object| match tx.free(object) {
            // It has done so before.
            Err(Error::NoObject(_)) => Ok(()),
            outcome => outcome,
        };
        rooted.meets(bytes, free);
    }
}

#[test]
fn a_transaction_that_loads_what_was_of_the_old_class_meets_the_new_one() {
    let rooted = Rooted::new();
    for bytes in OTHERS {
        rooted.meets(bytes, |tx, object| tx.load(object.plus_bytes(4), &mut [0; 16384]));
        rooted.meets(bytes, |tx, object| tx.load_u64(object.plus_bytes(SMALLER - 8)).map(drop));
        rooted.meets(bytes, |tx, object| tx.size(object).map(drop));
        rooted.meets(bytes, |tx, object| {
            let home = tx.place(object, SMALLER - 8, 8)?;
            tx.load_u64(home).map(drop)
        });
        rooted.meets(bytes, |tx, _| tx.next_object(HomeAddress(0)).map(drop));
    }
}

/// What it frees is of the old class, and what it allocates would lie over that.
#[test]
fn a_transaction_allocates_nothing_over_what_it_has_of_the_old_class() {
    let dir = tempfile::tempdir().expect("a directory");
    let heap = open(dir.path(), 1);
    let smaller = fill(&heap, SMALLER);
    let mut tx = heap.begin();
    tx.free(smaller[1]).expect("it is allocated");
    free(&heap, smaller);
    free(&heap, fill(&heap, LARGER));
    heap.core().give_slots_back();
    assert!(matches!(tx.alloc(LARGER), Err(Error::Conflict)));
    drop(tx);
    assert_eq!(fill(&heap, LARGER).len(), 1);
}

#[test]
fn a_transaction_passes_over_no_object_whose_area_has_lost_its_class() {
    let rooted = Rooted::new();
    let (heap, object) = (&rooted.heap, rooted.object);
    let mut tx = heap.begin();
    assert_eq!(tx.root().expect("a root"), Some(object));
    let freed = heap.transaction(|tx| {
        tx.free(object)?;
        tx.store_u64(ROOT, 0)
    });
    freed.expect("it is allocated");
    heap.core().give_slots_back();
    assert!(heap.core().homes.vacate());
    assert!(matches!(tx.next_object(HomeAddress(0)), Err(Error::Conflict)));
    drop(tx);
    assert_eq!(heap.read(|tx| tx.next_object(HomeAddress(0))).expect("readable"), None);
}

/// The bytes of an object stand in a chunk that is read, its free in one that the checkpoint spares the reading.
#[test]
fn a_checkpoint_knows_of_areas_without_a_class() {
    let dir = tempfile::tempdir().expect("a directory");
    let open = || {
        let options = Options { checkpoint_bytes: 1 << 30, cleans_ahead: false, ..Options::default() };
        let heap = DurableHeap::open(&dir.path().join("heap"), &options).expect("a heap");
        heap.core().homes.end_with(2);
        heap
    };
    let heap = open();
    let objects = [(); 2].map(|()| {
        let object = heap.transaction(|tx| {
            let object = tx.alloc(LARGER)?;
            tx.store(object, &[1; 4096])?;
            Ok(object)
        });
        object.expect("room")
    });
    // This thread's first session is taken.
    let other = heap.begin();
    free(&heap, objects);
    let kept = alloc(&heap, SMALLER).expect("areas are spare");
    for _ in 0..20 {
        heap.transaction(|tx| tx.store(kept, &[2; 100_000])).expect("it is allocated");
    }
    drop(other);
    let without_class =
        [1, 2].map(|area| heap.core().homes.class_of(area)).iter().filter(|c| c.is_none()).count();
    assert_eq!(without_class, 1);
    drop(heap);
    let heap = open();
    let all = heap.read(|tx| {
        let first = tx.next_object(HomeAddress(0))?;
        Ok((first, tx.next_object(kept)?))
    });
    assert_eq!(all.expect("readable"), (Some(kept), None));
    assert_eq!((fill(&heap, LARGER).len(), fill(&heap, SMALLER).len()), (1, 2));
}

/// As salvage leaves it.
#[test]
fn objects_of_a_lost_class_stay() {
    let dir = tempfile::tempdir().expect("a directory");
    let open = || {
        let options = Options { checkpoint_bytes: 1 << 30, cleans_ahead: false, ..Options::default() };
        let heap = DurableHeap::open(&dir.path().join("heap"), &options).expect("a heap");
        heap.core().homes.end_with(2);
        heap
    };
    let heap = open();
    let object = heap.transaction(|tx| {
        let object = tx.alloc(8)?;
        tx.store_u64(object, 7)?;
        tx.store(class_home((object.0 / AREA_BYTES) as u32), &CLASS_LOST.to_le_bytes())?;
        Ok(object)
    });
    let object = object.expect("room");
    drop(heap);
    for number in 7..10 {
        let heap = open();
        assert_eq!(heap.read(|tx| tx.load_u64(object)).expect("it is there"), number);
        heap.transaction(|tx| tx.store_u64(object, number + 1)).expect("it is there");
        assert!(matches!(heap.transaction(|tx| tx.free(object)), Err(Error::NoObject(_))));
        assert!(matches!(heap.read(|tx| tx.load_u64(object.plus_bytes(8))), Err(Error::NotAllocated(_))));
        let others = fill(&heap, SMALLER);
        assert!(!others.is_empty() && !others.contains(&object));
        free(&heap, others);
    }
}

/// An object of each thread, and its size, as others find them.
#[derive(Clone, Copy)]
struct Shelf(HomeAddress);

impl Shelf {
    fn new(heap: &DurableHeap, threads: usize) -> Self {
        Self(heap.transaction(|tx| tx.alloc(threads as u64 * 16)).expect("room"))
    }

    fn of(self, thread: usize) -> HomeAddress {
        self.0.plus_bytes(thread as u64 * 16)
    }

    /// Allocates an object with a mark of its size at both ends, and shows it.
    fn put(self, heap: &DurableHeap, thread: usize, bytes: u64) -> Result<HomeAddress> {
        heap.transaction(|tx| {
            let object = tx.alloc(bytes)?;
            tx.store_u64(object, bytes)?;
            tx.store_u64(object.plus_bytes(bytes - 8), bytes)?;
            tx.store_u64(self.of(thread), object.0)?;
            tx.store_u64(self.of(thread).plus_bytes(8), bytes)?;
            Ok(object)
        })
    }

    /// Frees the objects of a thread.
    fn clear(self, heap: &DurableHeap, thread: usize, objects: &mut Vec<HomeAddress>) {
        let freed = heap.transaction(|tx| {
            tx.store_u64(self.of(thread), 0)?;
            objects.iter().try_for_each(|&object| tx.free(object))
        });
        freed.expect("they are allocated");
        objects.clear();
    }

    /// What a thread shows: its size, and the marks.
    fn look(self, heap: &DurableHeap, thread: usize) -> Result<Option<[u64; 3]>> {
        heap.read(|tx| {
            let object = HomeAddress(tx.load_u64(self.of(thread))?);
            if object.0 == 0 {
                return Ok(None);
            }
            let bytes = tx.load_u64(self.of(thread).plus_bytes(8))?;
            Ok(Some([bytes, tx.load_u64(object)?, tx.load_u64(object.plus_bytes(bytes - 8))?]))
        })
    }
}

/// Threads have one area for objects of two sizes, and in each phase another thread is the first. What a reference leads to has the mark
/// of its size at both ends, or the reader meets the thread that has freed it.
#[test]
fn threads_that_allocate_two_sizes_never_see_one_for_the_other() {
    const THREADS: usize = 4;
    const PHASES: u64 = 20;
    let dir = tempfile::tempdir().expect("a directory");
    let heap = &open(dir.path(), 2);
    let (shelf, barrier) = (Shelf::new(heap, THREADS), &Barrier::new(THREADS));
    let write = move |thread: usize| {
        let bytes = if thread.is_multiple_of(2) { 6000 } else { 3 << 20 };
        for phase in 0..PHASES {
            let mut objects = Vec::new();
            barrier.wait();
            // A reader may have a session with free slots.
            while phase as usize % THREADS == thread && objects.is_empty() {
                match shelf.put(heap, thread, bytes) {
                    Ok(object) => objects.push(object),
                    Err(Error::Full { .. }) => std::thread::yield_now(),
                    Err(error) => panic!("{error}"),
                }
            }
            barrier.wait();
            for _ in 0..20 {
                match shelf.put(heap, thread, bytes) {
                    Ok(object) if objects.len() < 3 => objects.push(object),
                    Ok(object) => {
                        objects.push(object);
                        shelf.clear(heap, thread, &mut objects);
                    }
                    Err(Error::Full { .. }) => shelf.clear(heap, thread, &mut objects),
                    Err(error) => panic!("{error}"),
                }
            }
            shelf.clear(heap, thread, &mut objects);
        }
    };
    let read = move || {
        for round in 0..2000 {
            let found = shelf.look(heap, round % THREADS).expect("what a reference leads to is allocated");
            assert!(found.is_none_or(|[bytes, first, last]| first == bytes && last == bytes), "{found:?}");
        }
    };
    std::thread::scope(|scope| {
        (0..THREADS).for_each(|thread| drop(scope.spawn(move || write(thread))));
        (0..2).for_each(|_| drop(scope.spawn(read)));
    });
    // Twice for each time that classes were taken away.
    assert!(heap.core().homes.era().load(Ordering::Relaxed) >= 2 * (PHASES - 1));
    free(heap, [shelf.0]);
    assert!(fill(heap, LARGER).len() == 2 && fill(heap, 1).is_empty(), "something was not freed");
}
