//! Many entries come and go, each in a transaction of its own: nothing stays behind.

use aquifer_durable::structures::{BTree, HashMap, Queue};
use aquifer_durable::{DurableHeap, Result, Transaction};

use super::{mix, open};

const ENTRIES: u64 = 20_000;
/// What an empty structure may keep: for a hash map that is the first chunk of buckets, and what is counted.
const EMPTY_BYTES_MAX: u64 = 17 << 10;
/// What a heap without the structure may have: two bytes of the table for each size of object that it met.
const LEFT_BYTES_MAX: u64 = 64;

/// Runs `put` and then `take` for every number; looks at what is live when the structure is empty, and when it is destroyed.
fn come_and_go<H: Copy>(
    create: impl Fn(&mut Transaction<'_>) -> Result<H>,
    put: impl Fn(H, &mut Transaction<'_>, u64) -> Result<()>,
    take: impl Fn(H, &mut Transaction<'_>, u64) -> Result<()>,
    destroy: impl Fn(H, &mut Transaction<'_>) -> Result<()>,
) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let heap = open(&path);
    let start = heap.usage().live_bytes;
    let handle = heap.transaction(create).expect("room");
    let more = |heap: &DurableHeap| heap.usage().live_bytes - start;
    for _ in 0..2 {
        for n in 0..ENTRIES {
            heap.transaction(|tx| put(handle, tx, n)).expect("room");
        }
        assert!(more(&heap) >= ENTRIES * 16, "{} bytes are live", more(&heap));
        for n in 0..ENTRIES {
            heap.transaction(|tx| take(handle, tx, n)).expect("room");
        }
        assert!(more(&heap) <= EMPTY_BYTES_MAX, "{} bytes of an empty structure are live", more(&heap));
    }
    heap.transaction(|tx| destroy(handle, tx)).expect("room");
    assert!(more(&heap) <= LEFT_BYTES_MAX, "{} bytes are left", more(&heap));
    drop(heap);
    assert!(more(&open(&path)) <= LEFT_BYTES_MAX, "so it is when the heap is opened again");
}

#[test]
fn of_a_hash_map() {
    come_and_go(
        |tx| HashMap::<u64, u64>::create(tx),
        |map, tx, n| map.insert(tx, n, mix(n)).map(|old| assert_eq!(old, None)),
        // In another order.
        |map, tx, n| {
            let key = n * 7 % ENTRIES;
            map.remove(tx, key).map(|old| assert_eq!(old, Some(mix(key))))
        },
        |map, tx| map.destroy(tx),
    );
}

#[test]
fn of_a_tree() {
    come_and_go(
        |tx| BTree::<u64, u64>::create(tx),
        |tree, tx, n| tree.insert(tx, mix(n), n).map(|old| assert_eq!(old, None)),
        |tree, tx, n| tree.remove(tx, mix(n)).map(|old| assert_eq!(old, Some(n))),
        |tree, tx| tree.destroy(tx),
    );
}

#[test]
fn of_a_tree_in_order() {
    come_and_go(
        |tx| BTree::<u64, u64>::create(tx),
        |tree, tx, n| tree.insert(tx, n, mix(n)).map(|old| assert_eq!(old, None)),
        |tree, tx, n| tree.remove(tx, n).map(|old| assert_eq!(old, Some(mix(n)))),
        |tree, tx| tree.destroy(tx),
    );
}

#[test]
fn of_a_queue() {
    come_and_go(
        |tx| Queue::<(u64, u64)>::create(tx),
        |queue, tx, n| queue.push(tx, (n, mix(n))),
        |queue, tx, n| queue.pop(tx).map(|value| assert_eq!(value, Some((n, mix(n))))),
        |queue, tx| queue.destroy(tx),
    );
}
