//! Frees of objects whose places are not used again: they last as long as what they hide, and take little of the log.

use std::ops::RangeInclusive;
use std::path::Path;

use aquifer_base::HomeAddress;
use aquifer_base::limits::PARTITION_BYTES;
use aquifer_durable::block::{Entry, Kind};
use aquifer_durable::inspect::{Found, HeapFile};
use aquifer_durable::{Backing, DurableHeap, Options};

const SMALL: usize = 60_000;
const SMALL_BYTES: u64 = 100;
const LARGE_BYTES: u64 = 1000;
/// Objects that are made or freed in one transaction.
const BATCH: usize = 16;

fn open(path: &Path) -> DurableHeap {
    open_with(path, false)
}

fn open_with(path: &Path, cleans_ahead: bool) -> DurableHeap {
    let options = Options {
        capacity_bytes: 64 << 20,
        chunk_bytes: 64 << 10,
        backing: Backing::Memory,
        cleans_ahead,
        ..Options::default()
    };
    DurableHeap::open(path, &options).expect("opens")
}

fn make(heap: &DurableHeap, count: usize, bytes: u64) -> Vec<HomeAddress> {
    let fill = vec![bytes as u8; bytes as usize];
    let made = heap.transaction(|tx| {
        let one = |_| {
            let home = tx.alloc(bytes)?;
            tx.store(home, &fill)?;
            Ok(home)
        };
        (0..count).map(one).collect()
    });
    made.expect("room")
}

fn free(heap: &DurableHeap, homes: &[HomeAddress]) {
    heap.transaction(|tx| homes.iter().try_for_each(|&home| tx.free(home))).expect("objects");
}

/// Puts homes in an order that has nothing to do with where they are.
fn shuffle(homes: &mut [HomeAddress]) {
    homes.sort_by_key(|home| (home.0 / 4).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 20);
}

/// Makes and frees other objects until the log was written several times.
fn churn(heap: &DurableHeap) -> Vec<HomeAddress> {
    let mut others = Vec::new();
    for _ in 0..2500 {
        others.extend(make(heap, BATCH, LARGE_BYTES));
        if others.len() > 5000 {
            shuffle(&mut others);
            let half = others.split_off(2500);
            half.chunks(BATCH).for_each(|batch| free(heap, batch));
        }
    }
    others
}

/// Entries in all blocks for what was freed of these homes.
fn holes(file: &HeapFile, homes: RangeInclusive<HomeAddress>) -> usize {
    let is_hole = |entry: &Entry| entry.kind == Kind::Hole && homes.contains(&entry.home);
    let chunks = (0..file.chunks()).map(|number| file.chunk(number).expect("readable"));
    let in_chunk = |chunk: aquifer_durable::inspect::Chunk| {
        let blocks = chunk.blocks().map(|(_, found)| match found {
            Found::Block(block) => block.entries().filter(is_hole).count(),
            Found::Damage(bytes) => panic!("{bytes} bytes of chunk {} are damaged", chunk.number()),
        });
        blocks.sum::<usize>()
    };
    chunks.map(in_chunk).sum()
}

#[test]
fn many_small_frees_are_kept_together() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let heap = open(&path);
    let mut small: Vec<_> = (0..SMALL / BATCH).flat_map(|_| make(&heap, BATCH, SMALL_BYTES)).collect();
    let (first, last) = (small[0], small[SMALL - 1]);
    shuffle(&mut small);
    let freed = small.split_off(SMALL / 10);
    freed.chunks(BATCH).for_each(|batch| free(&heap, batch));
    let objects = small.len() + churn(&heap).len();
    assert!(heap.cleaned().chunks > 500, "{:?}", heap.cleaned());
    drop(heap);
    let file = HeapFile::open(&path).expect("a heap");
    assert_eq!(file.contents().expect("in order").objects, objects as u64);
    let holes = holes(&file, first..=last);
    let partitions = (last.0 - first.0) as usize / PARTITION_BYTES;
    assert!(holes < 2 * partitions, "{holes} entries for {} frees in {partitions} partitions", freed.len());
}

#[test]
fn a_large_free_stays_a_small_entry() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let heap = open(&path);
    let large = make(&heap, 1, 16 << 20);
    let before = churn(&heap).len();
    free(&heap, &large);
    let objects = before + churn(&heap).len();
    drop(heap);
    let file = HeapFile::open(&path).expect("a heap");
    assert_eq!(file.contents().expect("in order").objects, objects as u64);
    let holes = holes(&file, large[0]..=large[0].plus_bytes((16 << 20) - 1));
    let partitions = (16 << 20) / PARTITION_BYTES;
    assert!(holes <= partitions / 128, "{holes} entries for {partitions} partitions in a row");
}

/// Makes objects and frees random ones in turn, in the same partitions over and over; returns those that are left.
fn make_and_free(heap: &DurableHeap, mut homes: Vec<HomeAddress>) -> Vec<HomeAddress> {
    for n in 0..1500 {
        if n % 300 < 160 {
            homes.extend(make(heap, BATCH, SMALL_BYTES));
        } else {
            let at = n * 7919 % (homes.len() - BATCH);
            let batch: Vec<_> = homes.drain(at..at + BATCH).collect();
            free(heap, &batch);
        }
    }
    homes
}

/// Threads whose objects share partitions, while the heap's own thread cleans.
#[test]
fn frees_beside_cleaning_are_all_there_and_no_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let mut homes: [Vec<HomeAddress>; 2] = Default::default();
    for _ in 0..20 {
        let heap = open_with(&path, true);
        homes = std::thread::scope(|scope| {
            let threads = homes.map(|homes| scope.spawn(|| make_and_free(&heap, homes)));
            threads.map(|thread| thread.join().expect("join"))
        });
        assert!(heap.cleaned().chunks > 10, "{:?}", heap.cleaned());
        drop(heap);
        let objects = HeapFile::open(&path).expect("a heap").contents().expect("in order").objects;
        assert_eq!(objects, homes.iter().map(Vec::len).sum::<usize>() as u64);
    }
}
