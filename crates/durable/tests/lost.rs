//! Writes that were acknowledged and have not happened, or have happened elsewhere: an error, or what was committed.

use std::path::Path;

use aquifer_base::HomeAddress;
use aquifer_durable::inspect::{Found, HeapFile};
use aquifer_durable::{Backing, Durability, DurableHeap, Error, Options};

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
    [(n as u8).wrapping_add(1); OBJECT_BYTES]
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

/// Zeros where a chunk begins: a bad block, or a write that was meant for the end of a chunk.
#[test]
fn zeros_over_the_header_of_a_chunk() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    for options in [options(), Options { checkpoint_bytes: 1 << 30, ..options() }] {
        let _ = std::fs::remove_file(&path);
        let (homes, bytes) = heap_file(&path, &options);
        let mut chunks = 0;
        for start in starts(&bytes).filter(|&start| bytes[start..].starts_with(b"CHNK")) {
            chunks += 1;
            for len in [8, 16, 32, 512, 4096, CHUNK_BYTES] {
                let mut damaged = bytes.clone();
                damaged[start..start + len].fill(0);
                let what = format!("{len} zeros from {start} on");
                assert!(is_refused(&path, &damaged, &homes, &what), "{what}");
            }
        }
        assert!(chunks > 1, "{chunks}");
    }
}

/// A file of a heap in which chunks are cleaned, after each of several rounds.
fn cleaned(path: &Path) -> (Vec<HomeAddress>, Vec<Vec<u8>>) {
    let heap = DurableHeap::open(path, &options()).expect("opens");
    let homes = add(&heap, 0..OBJECTS);
    let mut files = Vec::new();
    for round in 0..20 {
        for n in (0..OBJECTS).filter(|n| n % 3 > 0 || round % 5 == 0) {
            heap.transaction(|tx| tx.store(homes[n], &object(n))).expect("room");
        }
        files.push(std::fs::read(path).expect("there"));
        while heap.clean().expect("nothing is damaged") {}
        files.push(std::fs::read(path).expect("there"));
    }
    (homes, files)
}

/// One of the two writes of a header has not happened: before it the chunk was free, for the first time or not.
#[test]
fn a_header_that_was_not_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let (homes, files) = cleaned(&path);
    let [mut tried, mut refused] = [[0; 2]; 2];
    for pair in files.windows(2) {
        let [before, after] = [&pair[0], &pair[1]];
        for start in starts(before).filter(|&start| after[start..].starts_with(b"CHNK")) {
            if before[start..].starts_with(b"CHNK") {
                continue;
            }
            for (n, bytes) in [start..start + 8, start + 8..start + 32].into_iter().enumerate() {
                let mut damaged = after.clone();
                damaged[bytes.clone()].copy_from_slice(&before[bytes.clone()]);
                tried[n] += 1;
                let what = format!("bytes {bytes:?}, of a header");
                refused[n] += usize::from(is_refused(&path, &damaged, &homes, &what));
            }
        }
    }
    assert!(tried[0] > 10 && refused == tried, "{refused:?} of {tried:?} were refused");
}

/// What a free chunk begins with went to one that is in use.
#[test]
fn a_chunk_is_not_freed_by_the_mark_of_another() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let (homes, files) = cleaned(&path);
    let bytes = files.last().expect("files");
    let marks = starts(bytes).filter(|&start| !bytes[start..].starts_with(b"CHNK"));
    let mut tried = 0;
    for mark in marks.collect::<Vec<_>>() {
        for start in starts(bytes).filter(|&start| bytes[start..].starts_with(b"CHNK")) {
            let mut damaged = bytes.clone();
            damaged.copy_within(mark..mark + 8, start);
            tried += 1;
            let what = format!("the mark at {mark} over the header at {start}");
            assert!(is_refused(&path, &damaged, &homes, &what), "{what}");
        }
    }
    assert!(tried > 10, "{tried}");
}

/// A chunk is free, and its mark does not verify: it may have been in use.
#[test]
fn a_mark_that_does_not_verify() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let (homes, files) = cleaned(&path);
    let bytes = files.last().expect("files");
    let mark = starts(bytes).find(|&start| !bytes[start..].starts_with(b"CHNK")).expect("one is free");
    for bit in 0..12 * 8 {
        let mut damaged = bytes.clone();
        damaged[mark + bit / 8] ^= 1 << (bit % 8);
        assert!(is_refused(&path, &damaged, &homes, "the mark"), "bit {bit}");
    }
}

/// A file of a heap with records: what was committed is all there, whichever place of a record is damaged, or has what `before` had.
fn expect_records(path: &Path, (before, after): (&[u8], &[u8]), homes: &[HomeAddress], places: [usize; 2]) {
    for place in places {
        let mut files = [after.to_vec(), after.to_vec(), after.to_vec()];
        files[0][place + 8] ^= 1;
        files[1][place / 512 * 512..][..512].fill(0);
        files[2][place..place + 24].copy_from_slice(&before[place..place + 24]);
        for (n, damaged) in files.iter().enumerate() {
            let what = format!("damage {n} of the place at {place}");
            assert!(!is_refused(path, damaged, homes, &what), "{what}");
            // Opened to write, it has both places again.
            let mut other = std::fs::read(path).expect("there");
            other[places[usize::from(place == places[0])] + 8] ^= 1;
            assert!(!is_refused(path, &other, homes, &format!("{what}, then of the other")));
        }
    }
}

/// What a sync has acknowledged is not discarded because the newest floor is damaged or was not written.
#[test]
fn a_floor_that_is_damaged_or_lost() {
    const FLOORS: [usize; 2] = [1024, 2048];
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let relaxed = Options { durability: Durability::Relaxed, ..options() };
    let file = || std::fs::read(&path).expect("there");
    let heap = DurableHeap::open(&path, &relaxed).expect("opens");
    let mut homes = Vec::new();
    for n in 0..6 {
        let before = file();
        homes.extend(add(&heap, n..n + 1));
        heap.sync().expect("a memory");
        let (after, copy) = (file(), dir.path().join("copy"));
        expect_records(&copy, (&before, &after), &homes, FLOORS);
    }
    drop(heap);
    // A heap whose commits wait has none.
    let before = file();
    let heap = DurableHeap::open(&path, &options()).expect("opens");
    homes.extend(add(&heap, 6..7));
    drop(heap);
    expect_records(&dir.path().join("copy"), (&before, &file()), &homes, FLOORS);
}

/// A file that was cut is told from one that was never longer, whichever place of the number of its chunks is damaged.
#[test]
fn a_number_of_chunks_that_is_damaged() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let (homes, bytes) = heap_file(&path, &options());
    for place in [1536, 2560] {
        let mut damaged = bytes.clone();
        damaged[place + 8] ^= 1;
        assert!(!is_refused(&path, &damaged, &homes, "one place"));
        damaged.truncate(bytes.len() - CHUNK_BYTES);
        assert!(is_refused(&path, &damaged, &homes, "the file was cut"), "{place}");
    }
}

/// A chunk that was given back is there again: what it had was freed since, and the frees were forgotten.
#[test]
fn a_chunk_that_comes_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let (homes, before) = heap_file(&path, &options());
    let heap = DurableHeap::open(&path, &options()).expect("opens");
    let (kept, freed) = homes.split_first().expect("objects");
    freed.iter().for_each(|&home| heap.transaction(|tx| tx.free(home)).expect("an object"));
    let mut files = Vec::new();
    for round in 0..15 {
        for n in 0..40 {
            heap.transaction(|tx| tx.store(*kept, &object(round * 40 + n))).expect("room");
        }
        while heap.clean().expect("nothing is damaged") {}
        files.push(std::fs::read(&path).expect("there"));
    }
    drop(heap);
    let mut tried = 0;
    for (round, after) in files.iter().enumerate() {
        let has_gone =
            |&start: &usize| before[start..].starts_with(b"CHNK") && after[start..].starts_with(b"FREE");
        for start in starts(&before).filter(has_gone) {
            // In another life since.
            if after[start + 8..start + 32] != before[start + 8..start + 32] {
                continue;
            }
            tried += 1;
            let mut damaged = after.clone();
            damaged[start..start + 8].copy_from_slice(&before[start..start + 8]);
            // The memory of a chunk that was given back may not have been taken away either.
            damaged[start + 4096..start + CHUNK_BYTES]
                .copy_from_slice(&before[start + 4096..start + CHUNK_BYTES]);
            std::fs::write(&path, &damaged).expect("written");
            for _ in 0..2 {
                let heap = match DurableHeap::open(&path, &options()) {
                    Err(Error::Damaged { .. }) => break,
                    opened => opened.expect("the memory is sound"),
                };
                let is_there = |home: &HomeAddress| heap.transaction(|tx| tx.load(*home, &mut [0])).is_ok();
                let back = freed.iter().filter(|home| is_there(home)).count();
                assert_eq!(back, 0, "round {round}, chunk at {start}: freed objects are there again");
                let mut out = [0; OBJECT_BYTES];
                heap.transaction(|tx| tx.load(*kept, &mut out)).expect("it is there");
                assert!(out == object(round * 40 + 39));
                while heap.clean().expect("nothing is damaged") {}
            }
        }
    }
    assert!(tried > 10, "{tried}");
}

/// The last block of an earlier life of the heap is told from one that was being written as soon as a session has gone on.
#[test]
fn the_end_of_an_earlier_life() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    for options in [options(), Options { durability: Durability::Relaxed, ..options() }] {
        let _ = std::fs::remove_file(&path);
        let (mut homes, bytes) = heap_file(&path, &options);
        let last = bytes.windows(OBJECT_BYTES).position(|window| window == object(OBJECTS - 1));
        let last = last.expect("it is there");
        let heap = DurableHeap::open(&path, &options).expect("opens");
        homes.extend(add(&heap, OBJECTS..OBJECTS + 1));
        drop(heap);
        let bytes = std::fs::read(&path).expect("there");
        let mut damages: Vec<Vec<u8>> = (1..30).map(|n| flipped(&bytes, last - n)).collect();
        damages.push(flipped(&bytes, last + 500));
        let (mut gone, mut zeros) = (bytes.clone(), bytes.clone());
        gone[last - 24..last + OBJECT_BYTES].fill(0);
        zeros[last / 512 * 512..][..512].fill(0);
        damages.extend([gone, zeros]);
        for (n, damaged) in damages.iter().enumerate() {
            is_refused(&path, damaged, &homes, &format!("damage {n} of the last block"));
        }
        assert!(is_refused(&path, damages.last().expect("some"), &homes, "a sector of zeros"));
    }
}

/// Nothing that counts is behind it in its chunk; the floor says that it was durable.
#[test]
fn a_part_of_a_transaction_that_was_synced() {
    const BYTES: usize = 100_000;
    let folder = tempfile::tempdir().expect("a folder");
    let (path, copy) = (folder.path().join("heap"), folder.path().join("copy"));
    let options = Options { durability: Durability::Relaxed, ..options() };
    let heap = DurableHeap::open(&path, &options).expect("opens");
    let stored = heap.transaction(|tx| {
        let home = tx.alloc(BYTES as u64)?;
        tx.store(home, &[7; BYTES])
    });
    stored.and_then(|()| heap.sync()).expect("room");
    let bytes = std::fs::read(&path).expect("there");
    let is_it = |at: &usize| bytes[*at..*at + 64] == [7; 64];
    let places: Vec<_> = (SUPERBLOCK_BYTES..bytes.len() - 64).filter(is_it).collect();
    let (first, last) = (places[0], places[places.len() - 1]);
    assert!(last - first > BYTES - 64, "it is in two chunks");
    for at in [first, last] {
        std::fs::write(&copy, flipped(&bytes, at)).expect("room");
        let outcome = DurableHeap::open(&copy, &options);
        assert!(matches!(outcome, Err(Error::Damaged { .. })), "{at}: {:?}", outcome.err());
    }
}

fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 1;
    bytes
}

/// A bad block over both places of a record, and what is between them.
#[test]
fn zeros_over_the_records() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    for durability in [Durability::Sync, Durability::Relaxed] {
        let _ = std::fs::remove_file(&path);
        let (homes, bytes) = heap_file(&path, &Options { durability, ..options() });
        for range in [1024..2560, 1536..3072, 3072..4096, 512..4096] {
            let mut damaged = bytes.clone();
            damaged[range.clone()].fill(0);
            assert!(is_refused(&path, &damaged, &homes, "zeros"), "zeros in {range:?}");
        }
    }
}

/// A checkpoint has an object where others are now, because the object was written again. If the block with its newer bytes is lost, which nobody
/// can tell from one that was being written, the object is not what the others are.
#[test]
fn a_checkpoint_does_not_show_what_is_there_now() {
    const ROUNDS: usize = 30;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let options = || Options { checkpoint_bytes: u64::MAX, ..options() };
    let heap = DurableHeap::open(&path, &options()).expect("opens");
    let homes = add(&heap, 0..OBJECTS);
    assert!(heap.checkpoint().expect("writes"));
    let write_others = || {
        for n in (0..ROUNDS).flat_map(|_| 1..OBJECTS) {
            heap.transaction(|tx| tx.store(homes[n], &object(n))).expect("room");
        }
    };
    write_others();
    // In a session that has nothing else, and no end.
    let other = heap.begin();
    heap.transaction(|tx| tx.store(homes[0], &[200; OBJECT_BYTES])).expect("room");
    drop(other);
    write_others();
    let bytes = std::fs::read(&path).expect("there");
    drop(heap);
    let at =
        bytes.windows(OBJECT_BYTES).position(|window| window == [200; OBJECT_BYTES]).expect("it is there");
    std::fs::write(&path, &bytes).expect("written");
    let heap = DurableHeap::open(&path, &options()).expect("nothing is damaged");
    let mut out = [0; OBJECT_BYTES];
    heap.transaction(|tx| tx.load(homes[0], &mut out)).expect("it is there");
    assert!(out == [200; OBJECT_BYTES]);
    drop(heap);
    std::fs::write(&path, flipped(&bytes, at + 70)).expect("written");
    let outcome = DurableHeap::open(&path, &options())
        .and_then(|heap| heap.transaction(|tx| tx.load(homes[0], &mut out)).map(|()| out[0]));
    assert!(matches!(outcome, Err(Error::Damaged { .. })), "{outcome:?}");
}

/// The last block of a chunk is in a checkpoint, and the chunk is not among those that the checkpoint spares recovery.
#[test]
fn a_checkpoint_does_not_show_what_is_lost() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let options = || Options { checkpoint_bytes: u64::MAX, ..options() };
    let heap = DurableHeap::open(&path, &options()).expect("opens");
    let homes = add(&heap, 0..OBJECTS);
    assert!(heap.checkpoint().expect("writes"));
    let bytes = std::fs::read(&path).expect("there");
    drop(heap);
    let last = object(OBJECTS - 1);
    let at = bytes.windows(OBJECT_BYTES).position(|window| window == last).expect("it is there");
    let mut damaged = bytes.clone();
    damaged[at - 24..at + OBJECT_BYTES].fill(7);
    std::fs::write(&path, &damaged).expect("written");
    let mut out = [0; OBJECT_BYTES];
    let outcome = DurableHeap::open(&path, &options())
        .and_then(|heap| heap.transaction(|tx| tx.load(homes[OBJECTS - 1], &mut out)).map(|()| out[0]));
    assert!(matches!(outcome, Err(Error::Damaged { .. })), "{outcome:?}");
}

/// Where the blocks of a chunk begin in the file, each with its version.
fn blocks(path: &Path, number: u32) -> Vec<(usize, u64)> {
    let chunk = HeapFile::open(path).and_then(|file| file.chunk(number)).expect("a heap");
    let blocks = chunk.blocks().map(|(at, found)| match found {
        Found::Block(block) => (chunk.offset() as usize + at, block.version()),
        Found::Damage(_) => panic!("nothing is damaged"),
    });
    blocks.collect()
}

/// All blocks of a chunk that a sync has acknowledged are lost, and later ones are there, which do not count.
#[test]
fn the_beginning_of_a_chunk_that_ends_behind_the_floor() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let relaxed = Options { durability: Durability::Relaxed, ..options() };
    let heap = DurableHeap::open(&path, &relaxed).expect("opens");
    let chunks = || {
        let bytes = std::fs::read(&path).expect("there");
        starts(&bytes).filter(|&start| bytes[start..].starts_with(b"CHNK")).count()
    };
    // A chunk begins, of which something is synced.
    let (mut homes, first) = (Vec::new(), chunks());
    while chunks() == first {
        homes.extend(add(&heap, homes.len()..homes.len() + 1));
    }
    homes.extend(add(&heap, homes.len()..homes.len() + 3));
    heap.sync().expect("a memory");
    let (synced, second) = (homes.len(), chunks());
    // It ends, and another one says that it was durable.
    while chunks() == second {
        add(&heap, homes.len()..homes.len() + 1);
    }
    let bytes = std::fs::read(&path).expect("there");
    drop(heap);
    let copy = dir.path().join("copy");
    assert!(!is_refused(&copy, &bytes, &homes, "nothing is lost"));
    std::fs::write(&copy, &bytes).expect("written");
    let newest_first = starts(&bytes).enumerate().map(|(number, _)| blocks(&copy, number as u32));
    let hit = newest_first.filter(|blocks| !blocks.is_empty()).collect::<Vec<_>>();
    let hit = hit.iter().rev().nth(1).expect("two chunks at least");
    let acknowledged = u64::from_le_bytes(bytes[1024 + 8..][..8].try_into().expect("eight bytes"));
    let behind = hit.iter().find(|&&(_, version)| version > acknowledged).expect("some do not count").0;
    assert!(hit[0].1 <= acknowledged, "some count");
    let mut damaged = bytes.clone();
    damaged[hit[0].0..behind].fill(0);
    assert!(is_refused(&copy, &damaged, &homes[..synced], "zeros"));
}
