//! Writes that were acknowledged and have not happened, or have happened elsewhere: an error, or what was committed.

use std::path::Path;

use aquifer_base::HomeAddress;
use aquifer_durable::{Backing, DurableHeap, Error, Options};

const SUPERBLOCK_BYTES: usize = 4096;
const CHUNK_BYTES: usize = 64 << 10;
const OBJECT_BYTES: usize = 1000;
const OBJECTS: usize = 120;

fn options() -> Options {
    Options {
        capacity_bytes: 4 << 20,
        chunk_bytes: CHUNK_BYTES as u32,
        backing: Backing::Memory,
        cleans_ahead: false,
        ..Options::default()
    }
}

fn object(n: usize) -> [u8; OBJECT_BYTES] {
    [n as u8 + 1; OBJECT_BYTES]
}

/// Adds objects that are each written once, in order.
fn add(heap: &DurableHeap, numbers: std::ops::Range<usize>) -> Vec<HomeAddress> {
    let add = |n| {
        let home = heap.transaction(|tx| {
            let home = tx.alloc(OBJECT_BYTES as u64)?;
            tx.store(home, &object(n))?;
            Ok(home)
        });
        home.expect("room")
    };
    numbers.map(add).collect()
}

/// A heap with objects, and its file.
fn heap_file(path: &Path, options: &Options) -> (Vec<HomeAddress>, Vec<u8>) {
    let heap = DurableHeap::open(path, options).expect("opens");
    let homes = add(&heap, 0..OBJECTS);
    drop(heap);
    (homes, std::fs::read(path).expect("there"))
}

/// Where chunks begin in a file.
fn starts(bytes: &[u8]) -> impl Iterator<Item = usize> {
    (SUPERBLOCK_BYTES..bytes.len()).step_by(CHUNK_BYTES)
}

/// Whether a damaged file is refused. If it is not, all objects are there.
///
/// # Panics
/// An object is not as it was, and no error.
fn is_refused(path: &Path, bytes: &[u8], homes: &[HomeAddress], what: &str) -> bool {
    std::fs::write(path, bytes).expect("written");
    let heap = match DurableHeap::open(path, &options()) {
        Err(Error::Damaged { .. }) => return true,
        Err(error) => panic!("{what}: {error}"),
        Ok(heap) => heap,
    };
    for (n, &home) in homes.iter().enumerate() {
        let mut out = [0; OBJECT_BYTES];
        let outcome = heap.transaction(|tx| tx.load(home, &mut out));
        assert!(outcome.is_ok() && out == object(n), "{what}: object {n}: {outcome:?}, {:?}", &out[..4]);
    }
    false
}

/// The write of a part of a checkpoint went to a chunk of blocks.
#[test]
fn a_part_of_a_checkpoint_over_a_chunk_of_blocks() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let (homes, bytes) = heap_file(&path, &Options { checkpoint_bytes: 1 << 30, ..options() });
    let part = starts(&bytes).find(|&start| bytes[start..].starts_with(b"CKPT")).expect("a checkpoint");
    let chunks: Vec<_> = starts(&bytes).filter(|&start| bytes[start..].starts_with(b"CHNK")).collect();
    assert!(chunks.len() > 1);
    for start in chunks {
        for len in [8, 40, 512, 4096] {
            let mut damaged = bytes.clone();
            damaged.copy_within(part..part + len, start);
            let what = format!("{len} bytes of a part over the chunk at {start}");
            assert!(is_refused(&path, &damaged, &homes, &what), "{what}");
        }
    }
}

/// Damage to what a part says costs the checkpoint, damage to what it says of itself is an error: it may have been a chunk of blocks.
#[test]
fn a_damaged_part_of_a_checkpoint() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let (homes, bytes) = heap_file(&path, &Options { checkpoint_bytes: 1 << 30, ..options() });
    let part = starts(&bytes).find(|&start| bytes[start..].starts_with(b"CKPT")).expect("a checkpoint");
    for byte in 0..80 {
        let mut damaged = bytes.clone();
        damaged[part + byte] ^= 4;
        let what = format!("byte {byte}");
        assert_eq!(is_refused(&path, &damaged, &homes, &what), byte < 40, "{what}");
    }
}
