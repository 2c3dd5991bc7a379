//! Several threads on one structure.

use aquifer_durable::Result;
use aquifer_durable::structures::{BTree, HashMap, Queue};

use super::{mix, open};

const THREADS: u64 = 4;
const KEYS: u64 = 500;
const ROUNDS: u64 = 4000;

#[test]
fn every_addition_counts() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let heap = open(&path);
    let made = heap.transaction(|tx| Ok((HashMap::<u64, u64>::create(tx)?, BTree::<u64, u64>::create(tx)?)));
    let (map, tree) = made.expect("room");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let heap = &heap;
            scope.spawn(move || {
                for n in 0..ROUNDS {
                    let key = mix(thread * ROUNDS + n) % KEYS;
                    let added = heap.transaction(|tx| {
                        let (in_map, in_tree) = (map.get(tx, key)?, tree.get(tx, key)?);
                        assert_eq!(in_map, in_tree, "both changed, or none");
                        let next = in_map.unwrap_or(0) + 1;
                        map.insert(tx, key, next)?;
                        tree.insert(tx, key, next)
                    });
                    added.expect("room");
                }
            });
        }
    });
    let mut expected = vec![0; KEYS as usize];
    (0..THREADS * ROUNDS).for_each(|n| expected[(mix(n) % KEYS) as usize] += 1);
    drop(heap);
    let heap = open(&path);
    let found = heap.transaction(|tx| {
        let mut in_map = map.iter(tx)?.collect::<Result<Vec<_>>>()?;
        in_map.sort_unstable();
        assert_eq!(map.len(tx)?, in_map.len() as u64);
        Ok((in_map, tree.range(tx, ..)?.collect::<Result<Vec<_>>>()?))
    });
    let (in_map, in_tree) = found.expect("it can be read");
    let expected: Vec<_> = (0..).zip(expected).filter(|&(_, count)| count > 0).collect();
    assert_eq!(in_map, expected);
    assert_eq!(in_tree, expected);
}

#[test]
fn own_keys_come_and_go_beside_those_of_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let heap = open(&dir.path().join("heap"));
    let map = heap.transaction(|tx| HashMap::<u64, u64>::create(tx)).expect("room");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let heap = &heap;
            scope.spawn(move || {
                let key = |n: u64| n * THREADS + thread;
                for n in 0..ROUNDS {
                    let old = heap.transaction(|tx| map.insert(tx, key(n), n));
                    assert_eq!(old.expect("room"), None);
                    if n >= 100 {
                        let old = heap.transaction(|tx| map.remove(tx, key(n - 100)));
                        assert_eq!(old.expect("room"), Some(n - 100));
                    }
                }
            });
        }
        // Others see a whole number of them all the while.
        for _ in 0..100 {
            assert!(heap.transaction(|tx| map.len(tx)).expect("it can be read") <= THREADS * 101);
        }
    });
    let mut keys = heap
        .transaction(|tx| map.iter(tx)?.map(|entry| entry.map(|(key, _)| key)).collect::<Result<Vec<_>>>())
        .expect("it can be read");
    keys.sort_unstable();
    assert!(keys.into_iter().eq((ROUNDS - 100) * THREADS..ROUNDS * THREADS));
    assert_eq!(heap.transaction(|tx| map.len(tx)).expect("it can be read"), 100 * THREADS);
}

#[test]
fn what_is_pushed_is_popped_once_and_in_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let heap = open(&dir.path().join("heap"));
    let queue = heap.transaction(|tx| Queue::<(u64, u64)>::create(tx)).expect("room");
    let pairs = THREADS / 2;
    let popped: Vec<Vec<(u64, u64)>> = std::thread::scope(|scope| {
        for thread in 0..pairs {
            let heap = &heap;
            scope.spawn(move || {
                for n in 0..ROUNDS {
                    heap.transaction(|tx| queue.push(tx, (thread, n))).expect("room");
                }
            });
        }
        let consumers: Vec<_> = (0..pairs)
            .map(|_| {
                scope.spawn(|| {
                    let mut values = Vec::new();
                    while (values.len() as u64) < ROUNDS {
                        values.extend(heap.transaction(|tx| queue.pop(tx)).expect("it can be read"));
                    }
                    values
                })
            })
            .collect();
        consumers.into_iter().map(|consumer| consumer.join().expect("it ends")).collect()
    });
    for values in &popped {
        for thread in 0..pairs {
            let numbers: Vec<_> =
                values.iter().filter(|value| value.0 == thread).map(|value| value.1).collect();
            assert!(numbers.is_sorted(), "the order of one who pushes is kept");
        }
    }
    let mut all = popped.concat();
    all.sort_unstable();
    let expected = (0..pairs).flat_map(|thread| (0..ROUNDS).map(move |n| (thread, n)));
    assert!(all.into_iter().eq(expected));
    assert!(heap.transaction(|tx| queue.is_empty(tx)).expect("it can be read"));
}
