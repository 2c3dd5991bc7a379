//! A file looked at from outside: objects are counted, and whatever bytes are in it do no harm.

use std::fs;
use std::path::Path;

use aquifer_durable::inspect::{Found, HeapFile};
use aquifer_durable::{Backing, DurableHeap, Error, Options};
use proptest::prelude::*;

fn options() -> Options {
    Options { chunk_bytes: 64 << 10, backing: Backing::Memory, ..Options::default() }
}

#[test]
fn objects_of_all_sizes_are_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let heap = DurableHeap::open(&path, &options()).expect("opens");
    let sizes =
        [1, 4, 5, 8, 24, 100, 1000, 1366, 2048, 2049, 4095, 4096, 4097, 9000, 20_000, 70_000, 16 << 20];
    let mut homes = Vec::new();
    // Many of the small ones: several partitions, with slots that are free in each.
    for n in 0..3000 {
        let bytes = if n < 2900 { sizes[n % 9] } else { sizes[n % sizes.len()] };
        homes.push(heap.transaction(|tx| tx.alloc(bytes)).expect("room"));
    }
    let mut n = 0;
    homes.retain(|&home| {
        n += 1;
        n % 7 < 3 || heap.transaction(|tx| tx.free(home)).is_err()
    });
    let newest = heap.usage();
    drop(heap);
    let contents = HeapFile::open(&path).expect("a heap").contents().expect("in order");
    assert_eq!(contents.objects, homes.len() as u64);
    assert_eq!(contents.usage.live_bytes, newest.live_bytes);
    // One transaction made the heap, one each area, and the loops above made the others.
    assert!(contents.newest_version >= 1 + 3000 + 3000 - homes.len() as u64);
}

/// What the last blocks of the two sessions have at most, which may have been torn.
const LAST_BYTES_MAX: usize = 3100 + 100;

fn example(path: &Path) {
    let heap = DurableHeap::open(path, &options()).expect("opens");
    for n in 0..30u64 {
        let made = heap.transaction(|tx| {
            let home = tx.alloc(3000)?;
            tx.store(home, &[n as u8; 3000])?;
            tx.set_root(home)?;
            Ok(home)
        });
        let home = made.expect("room");
        if n % 3 == 0 {
            heap.transaction(|tx| tx.free(home)).expect("an object");
        }
    }
}

/// Bytes of all blocks and of what is damaged between them.
fn walk(file: &HeapFile) -> (usize, usize) {
    let (mut verified, mut damaged) = (0, 0);
    for number in 0..file.chunks() {
        let chunk = file.chunk(number).expect("readable");
        for (_, found) in chunk.blocks() {
            match found {
                Found::Block(block) if block.is_intact() => verified += block.len_bytes(),
                Found::Block(block) => damaged += block.len_bytes(),
                Found::Damage(bytes) => damaged += bytes,
            }
        }
    }
    (verified, damaged)
}

#[test]
fn blocks_behind_damage_are_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    example(&path);
    let before = walk(&HeapFile::open(&path).expect("a heap"));
    assert!(before.0 > 30 * 3000 && before.1 == 0, "{before:?}");
    let mut bytes = fs::read(&path).expect("there");
    bytes[4096 + 32 + 10] ^= 1;
    fs::write(&path, &bytes).expect("written");
    let file = HeapFile::open(&path).expect("a heap");
    let after = walk(&file);
    assert_eq!(after.0 + after.1, before.0, "nothing else is missing");
    assert!((24..100).contains(&after.1), "{after:?}");
    assert!(matches!(file.contents(), Err(Error::Damaged { offset: 4128, .. })));
}

/// A block whose payloads are damaged is a block still.
#[test]
fn damaged_payloads_are_told_from_damaged_blocks() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    example(&path);
    let before = walk(&HeapFile::open(&path).expect("a heap"));
    let mut bytes = fs::read(&path).expect("there");
    let at = bytes.windows(3000).position(|window| window == [5; 3000]).expect("the object is there");
    bytes[at + 77] ^= 1;
    fs::write(&path, &bytes).expect("written");
    let file = HeapFile::open(&path).expect("a heap");
    let after = walk(&file);
    assert_eq!(after.0 + after.1, before.0, "nothing else is missing");
    assert!((3000..3100).contains(&after.1), "{after:?}");
    let Err(Error::Damaged { offset, .. }) = file.contents() else { panic!("an object is damaged") };
    assert!((offset..offset + 100).contains(&(at as u64)), "{offset}, {at}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Wherever bytes are changed or missing: an answer or an error, and the file stays as it is.
    #[test]
    fn any_damage_is_looked_at_safely(
        changes in prop::collection::vec((0usize..200_000, any::<u8>()), 1..20),
        len in 0usize..400_000,
    ) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("heap");
        example(&path);
        let mut bytes = fs::read(&path).expect("there");
        bytes.truncate(len.max(100));
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        fs::write(&path, &bytes).expect("written");
        match HeapFile::open(&path) {
            Ok(file) => {
                let (verified, damaged) = walk(&file);
                prop_assert!(verified + damaged <= bytes.len());
                // What is damaged in the middle of a chunk is never taken for a heap in order, unless nothing of it is needed.
                let is_known = file.contents().map_or(true, |contents| contents.damaged_blocks > 0);
                prop_assert!(is_known || damaged <= LAST_BYTES_MAX);
            }
            Err(error) => prop_assert!(matches!(error, Error::Foreign { .. } | Error::Damaged { offset: 0, .. }), "{error}"),
        }
        prop_assert!(fs::read(&path).expect("there") == bytes);
    }
}
