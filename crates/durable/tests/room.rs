//! Room: few chunks for many threads, and heaps that were full.

use std::sync::Barrier;

use aquifer_base::HomeAddress;
use aquifer_durable::structures::Queue;
use aquifer_durable::{Backing, DurableHeap, Error, Options};

const CHUNK_BYTES: u64 = 64 << 10;

fn options(chunks: u64) -> Options {
    Options {
        capacity_bytes: 4096 + chunks * CHUNK_BYTES,
        chunk_bytes: CHUNK_BYTES as u32,
        backing: Backing::Memory,
        ..Options::default()
    }
}

/// What a thread went on with stays open while it does something else.
#[test]
fn many_threads_find_room_in_the_fewest_chunks() {
    const THREADS: u64 = 16;
    for cleans_ahead in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options { cleans_ahead, ..options(12) };
        let heap = DurableHeap::open(&dir.path().join("heap"), &options).expect("opens");
        let home = heap.transaction(|tx| tx.alloc(THREADS * 4096)).expect("room");
        let all_are_here = Barrier::new(THREADS as usize);
        // All go on after an error, or the others would wait for ever.
        let fill = |thread: u64| {
            let own = home.plus_bytes(thread * 4096);
            let round = |n| {
                all_are_here.wait();
                heap.transaction(|tx| tx.store(own, &[n; 512]))
            };
            (0..50).filter_map(|n| round(n).err()).collect::<Vec<_>>()
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    scope.spawn({
                        let fill = &fill;
                        move || fill(thread)
                    })
                })
                .collect();
            for thread in threads {
                let errors = thread.join().expect("no panic");
                assert!(errors.is_empty(), "{} of 50: {:?}", errors.len(), errors.first());
            }
        });
    }
}

#[test]
fn a_full_heap_is_emptied_through_its_queue() {
    let dir = tempfile::tempdir().expect("a directory");
    let heap = DurableHeap::open(&dir.path().join("heap"), &options(16)).expect("opens");
    let queue: Queue<[u64; 60]> = heap.transaction(|tx| Queue::create(tx)).expect("room");
    let pushed = (0..).find(|&n| match heap.transaction(|tx| queue.push(tx, [n; 60])) {
        Ok(()) => false,
        Err(Error::Full { .. }) => true,
        Err(error) => panic!("{error}"),
    });
    let pushed = pushed.expect("it is finite");
    assert!(pushed > 100, "{pushed} values");
    for n in 0..pushed {
        let popped = heap.transaction(|tx| queue.pop(tx));
        assert_eq!(popped.unwrap_or_else(|error| panic!("{n} of {pushed}: {error}")), Some([n; 60]));
    }
    (0..pushed / 2).for_each(|n| heap.transaction(|tx| queue.push(tx, [n; 60])).expect("room again"));
}

#[test]
fn allocations_that_fail_cost_no_addresses() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let heap = DurableHeap::open(&path, &options(16)).expect("opens");
    let mut homes: Vec<HomeAddress> = Vec::new();
    let allocate = |heap: &DurableHeap, bytes: u64| {
        heap.transaction(|tx| {
            let home = tx.alloc(bytes)?;
            tx.store(home, &vec![7; bytes as usize])?;
            Ok(home)
        })
    };
    while let Ok(home) = allocate(&heap, 1000) {
        homes.push(home);
    }
    // Then nobody has a chunk that is not full.
    drop(heap);
    let heap = DurableHeap::open(&path, &options(16)).expect("opens again");
    // An area of home space each, if they keep it.
    for _ in 0..20_000 {
        assert!(matches!(allocate(&heap, 5000), Err(Error::Full { .. })));
    }
    homes.into_iter().try_for_each(|home| heap.transaction(|tx| tx.free(home))).expect("they are objects");
    allocate(&heap, 5000).expect("room again");
}
