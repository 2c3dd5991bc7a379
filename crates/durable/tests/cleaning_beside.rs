//! Chunks are cleaned while others commit to the partitions that have something in them: nothing is missed.

use aquifer_base::HomeAddress;
use aquifer_durable::{Backing, DurableHeap, Options};

const WORDS: u64 = 1 << 16;
const ROUNDS: u64 = 150_000;
const THREADS: u64 = 2;

/// Words apart, so that every one is a run of its own.
fn home(array: HomeAddress, number: u64) -> HomeAddress {
    let mixed = (number ^ number >> 31).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    array.plus_bytes((mixed ^ mixed >> 29) % WORDS * 16)
}

fn options() -> Options {
    Options {
        capacity_bytes: 64 << 20,
        chunk_bytes: 64 << 10,
        backing: Backing::Memory,
        ..Options::default()
    }
}

#[test]
fn small_runs_survive_cleaning_beside_commits() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let heap = DurableHeap::open(&path, &options()).expect("opens");
    let array = heap.transaction(|tx| tx.alloc(WORDS * 16)).expect("room");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let heap = &heap;
            scope.spawn(move || {
                for n in 0..ROUNDS {
                    let home = home(array, n * THREADS + thread);
                    heap.transaction(|tx| tx.store_u64(home, home.0)).expect("nothing is damaged");
                }
            });
        }
    });
    assert!(heap.cleaned().chunks > 20, "{:?}", heap.cleaned());
    drop(heap);
    let heap = DurableHeap::open(&path, &options()).expect("opens");
    for n in 0..ROUNDS * THREADS {
        let home = home(array, n);
        assert_eq!(heap.transaction(|tx| tx.load_u64(home)).expect("allocated"), home.0);
    }
}

/// Nobody else commits, so that the bytes of objects stay as many and no transaction is in another one's way.
#[test]
fn what_is_moved_counts_once_and_is_no_conflict() {
    let dir = tempfile::tempdir().expect("a directory");
    let heap = DurableHeap::open(&dir.path().join("heap"), &options()).expect("opens");
    let array = heap.transaction(|tx| tx.alloc(WORDS * 16)).expect("room");
    heap.transaction(|tx| tx.store(array, &[1; WORDS as usize * 16])).expect("room");
    let live_bytes = heap.usage().live_bytes;
    for n in 0..ROUNDS {
        let mut tx = heap.begin();
        let before = tx.load_u64(home(array, n + 1)).expect("allocated");
        tx.store_u64(home(array, n), before + 1).expect("allocated");
        tx.commit().expect("there is nobody to meet");
        if n % 16 == 0 {
            assert_eq!(heap.usage().live_bytes, live_bytes);
        }
    }
    assert!(heap.cleaned().chunks > 20, "{:?}", heap.cleaned());
}
