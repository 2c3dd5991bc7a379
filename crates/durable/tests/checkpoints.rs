//! What checkpoints promise beside crashes, which `crashes` tests: they save time and nothing else, and what they spare recovery is verified
//! before it is loaded.

use std::path::Path;

use aquifer_base::HomeAddress;
use aquifer_durable::inspect::{Found, HeapFile};
use aquifer_durable::{Backing, DurableHeap, Error, Options};

const CHUNK_BYTES: usize = 64 << 10;
const OBJECTS: usize = 300;
const OBJECT_BYTES: usize = 1000;
/// Commits at most until something has happened.
const COMMITS_MAX: usize = 1_000_000;

/// Checkpoints are written after `checkpoint_bytes`, and at close; 0 for none.
fn options(checkpoint_bytes: u64) -> Options {
    Options {
        capacity_bytes: 4 << 20,
        chunk_bytes: CHUNK_BYTES as u32,
        backing: Backing::Memory,
        cleans_ahead: false,
        checkpoint_bytes,
        ..Options::default()
    }
}

fn open(path: &Path, checkpoint_bytes: u64) -> DurableHeap {
    DurableHeap::open(path, &options(checkpoint_bytes)).expect("opens")
}

fn content(object: usize) -> [u8; OBJECT_BYTES] {
    [object as u8 | 1; OBJECT_BYTES]
}

/// A heap with objects that was closed, and had a checkpoint then.
fn closed(path: &Path) -> Vec<HomeAddress> {
    let heap = open(path, u64::MAX);
    let homes = (0..OBJECTS).map(|n| {
        let home = heap.transaction(|tx| {
            let home = tx.alloc(OBJECT_BYTES as u64)?;
            tx.store(home, &content(n))?;
            Ok(home)
        });
        home.expect("room")
    });
    homes.collect()
}

/// Loads all objects; returns how many of them are said to be damaged. None may be wrong.
fn damaged(heap: &DurableHeap, homes: &[HomeAddress]) -> usize {
    let is_damaged = |(n, &home): (usize, &HomeAddress)| {
        let mut out = [0; OBJECT_BYTES];
        match heap.transaction(|tx| tx.load(home, &mut out)) {
            Ok(()) => {
                assert!(out == content(n), "object {n} is wrong");
                false
            }
            Err(Error::Damaged { .. }) => true,
            Err(error) => panic!("object {n}: {error}"),
        }
    };
    homes.iter().enumerate().filter(|&object| is_damaged(object)).count()
}

/// Chunks that have a part of a checkpoint.
fn parts(path: &Path) -> Vec<u32> {
    let file = HeapFile::open(path).expect("a heap");
    (0..file.chunks()).filter(|&number| file.chunk(number).expect("read").part().is_some()).collect()
}

/// The file with a flipped bit in every so manyth byte of a chunk, one after the other.
fn flips(file: &[u8], chunk: u32, step: usize) -> impl Iterator<Item = Vec<u8>> {
    let start = 4096 + chunk as usize * CHUNK_BYTES;
    (start..start + CHUNK_BYTES).step_by(step).map(|byte| {
        let mut flipped = file.to_vec();
        flipped[byte] ^= 1 << (byte % 8);
        flipped
    })
}

#[test]
fn what_was_not_read_is_verified_when_it_is_loaded() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let homes = closed(&path);
    let file = std::fs::read(&path).expect("there");
    let (mut found, mut unread) = (0, 0);
    for flipped in flips(&file, 1, 97).chain(flips(&file, 2, 97)) {
        std::fs::write(&path, flipped).expect("written");
        match DurableHeap::open(&path, &options(u64::MAX)) {
            Err(Error::Damaged { .. }) => found += 1,
            Err(error) => panic!("{error}"),
            Ok(heap) => unread += usize::from(damaged(&heap, &homes) > 0),
        }
    }
    assert!(unread > 1000, "{unread} were found when something was loaded, {found} when it was opened");
}

#[test]
fn a_check_finds_what_opening_does_not_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    closed(&path);
    assert!(HeapFile::open(&path).and_then(|file| file.contents()).is_ok());
    let file = std::fs::read(&path).expect("there");
    // Before the last block of a chunk, so that none of these bytes is one that nobody wrote.
    for flipped in flips(&file, 1, 97).take(CHUNK_BYTES / 97 - 30) {
        std::fs::write(&path, flipped).expect("written");
        let contents = HeapFile::open(&path).and_then(|file| file.contents());
        assert!(matches!(contents, Err(Error::Damaged { .. })), "{contents:?}");
    }
}

#[test]
fn a_damaged_checkpoint_costs_nothing_but_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let homes = closed(&path);
    let file = std::fs::read(&path).expect("there");
    let parts = parts(&path);
    assert!(!parts.is_empty());
    // By its first four bytes it is told from other chunks. Beyond the end of a part nothing counts.
    for flipped in parts.iter().flat_map(|&part| flips(&file, part, 53).skip(1).take(40)) {
        std::fs::write(&path, flipped).expect("written");
        assert_eq!(damaged(&open(&path, u64::MAX), &homes), 0);
    }
}

#[test]
fn heaps_are_opened_for_reading_with_a_checkpoint() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let homes = closed(&path);
    let file = std::fs::read(&path).expect("there");
    assert_eq!(damaged(&DurableHeap::open_read_only(&path).expect("opens"), &homes), 0);
    assert!(std::fs::read(&path).expect("there") == file);
}

#[test]
fn a_checkpoint_that_nobody_wants_is_given_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let homes = closed(&path);
    assert!(!parts(&path).is_empty());
    let heap = open(&path, 0);
    for _ in 0..COMMITS_MAX {
        if parts(&path).is_empty() {
            break;
        }
        heap.transaction(|tx| tx.store(homes[7], &content(7))).expect("room");
        heap.clean().expect("nothing is damaged");
    }
    assert!(parts(&path).is_empty(), "it is still there");
    drop(heap);
    assert!(parts(&path).is_empty(), "there is another one");
    assert_eq!(damaged(&open(&path, 0), &homes), 0);
}

/// The last block of a chunk is lost, with what ends the chunk, and a checkpoint alone says that it was there: it must stay.
#[test]
fn a_checkpoint_that_nobody_wants_stays_if_it_alone_knows_of_a_block() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let heap = open(&path, u64::MAX);
    let home = heap.transaction(|tx| tx.alloc(OBJECT_BYTES as u64)).expect("room");
    // Its class is another one's, and no later block is in the chunk. Nobody loads bytes of it: it has none.
    let zeros = heap.transaction(|tx| tx.alloc(8)).expect("room");
    drop(heap);
    let file = HeapFile::open(&path).expect("a heap");
    let mut bytes = std::fs::read(&path).expect("there");
    let mut hits = 0;
    for chunk in (0..file.chunks()).map(|number| file.chunk(number).expect("read")) {
        let mut is_behind = false;
        for (at, found) in chunk.blocks() {
            let Found::Block(block) = found else { panic!("nothing is damaged") };
            is_behind |= block.entries().any(|entry| entry.home == zeros);
            if is_behind {
                let start = chunk.offset() as usize + at;
                bytes[start..start + block.len_bytes()].fill(0);
                hits += 1;
            }
        }
    }
    assert_eq!(hits, 2, "it, and what ends the chunk");
    std::fs::write(&path, &bytes).expect("written");
    for round in 0..8 {
        let heap = open(&path, 0);
        heap.transaction(|tx| tx.load(zeros, &mut [0; 8])).unwrap_or_else(|error| panic!("{round}: {error}"));
        for _ in 0..OBJECTS {
            heap.transaction(|tx| tx.store(home, &content(round))).expect("room");
        }
        while heap.clean().expect("the memory is sound") {}
    }
    assert!(!parts(&path).is_empty());
}

#[test]
fn a_thread_writes_one_when_enough_was_appended() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let heap = open(&path, 4 * CHUNK_BYTES as u64);
    let home = heap.transaction(|tx| tx.alloc(OBJECT_BYTES as u64)).expect("room");
    let mut before = Vec::new();
    // Each is in other chunks than the one before.
    for _ in 0..3 {
        let mut commits = 0;
        while parts(&path).is_empty() || parts(&path) == before {
            heap.transaction(|tx| tx.store(home, &content(1))).expect("room");
            commits += 1;
            assert!(commits < COMMITS_MAX, "there is none, or no other one");
        }
        before = parts(&path);
    }
}
