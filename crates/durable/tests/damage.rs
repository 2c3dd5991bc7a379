//! Files that were changed, cut or made up: an error, or what was committed; never anything else.

use std::os::unix::fs::FileExt;
use std::path::Path;

use aquifer_base::HomeAddress;
use aquifer_durable::inspect::HeapFile;
use aquifer_durable::{Backing, DurableHeap, Error, Options};

const CHUNK_BYTES: usize = 64 << 10;
const OBJECTS: usize = 120;

fn options() -> Options {
    Options {
        capacity_bytes: 4 << 20,
        chunk_bytes: CHUNK_BYTES as u32,
        backing: Backing::Memory,
        ..Options::default()
    }
}

/// A heap with objects that were each written once, in order, and its file.
fn heap_file(path: &Path) -> (Vec<HomeAddress>, Vec<u8>) {
    let heap = DurableHeap::open(path, &options()).expect("opens");
    let homes = (0..OBJECTS).map(|n| {
        let home = heap.transaction(|tx| {
            let home = tx.alloc(1000)?;
            tx.store(home, &[n as u8 + 1; 1000])?;
            Ok(home)
        });
        home.expect("room")
    });
    let homes = homes.collect();
    drop(heap);
    (homes, std::fs::read(path).expect("there"))
}

/// Counts the leading objects that load, and fails if a later one loads or an error other than
/// [`Error::NotAllocated`] occurs.
fn prefix(heap: &DurableHeap, homes: &[HomeAddress]) -> usize {
    let is_there = |n: usize| {
        let mut out = [0; 1000];
        match heap.transaction(|tx| tx.load(homes[n], &mut out)) {
            Ok(()) => {
                assert!(out == [n as u8 + 1; 1000], "object {n} is wrong");
                true
            }
            Err(Error::NotAllocated(_)) => false,
            Err(error) => panic!("object {n}: {error}"),
        }
    };
    let there: Vec<bool> = (0..OBJECTS).map(is_there).collect();
    let count = there.iter().take_while(|&&there| there).count();
    assert!(there[count..].iter().all(|&there| !there), "there is a gap behind object {count}");
    count
}

#[test]
fn flipped_bits_are_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let (homes, bytes) = heap_file(&path);
    let (mut found, mut shorter) = (0, 0);
    // Every bit of what describes something at the beginning of the file and of chunks, and a bit of every 61st byte.
    let heads = (0..64).chain((0..5).flat_map(|chunk| (0..64).map(move |n| 4096 + chunk * CHUNK_BYTES + n)));
    let bits = heads.flat_map(|byte| (0..8).map(move |bit| (byte, bit)));
    let others = (0..bytes.len()).step_by(61).map(|byte| (byte, byte % 8));
    for (byte, bit) in bits.chain(others).filter(|&(byte, _)| byte < bytes.len()) {
        let mut damaged = bytes.clone();
        damaged[byte] ^= 1 << bit;
        std::fs::write(&path, &damaged).expect("written");
        match DurableHeap::open(&path, &options()) {
            Err(Error::Damaged { .. } | Error::Foreign { .. }) => found += 1,
            Err(error) => panic!("byte {byte}: {error}"),
            Ok(heap) => {
                let count = prefix(&heap, &homes);
                // Only the last transaction of a log cannot be told from one that was being written.
                assert!(count >= OBJECTS - 1, "byte {byte}: {count} objects are left, and no error");
                shorter += usize::from(count < OBJECTS);
            }
        }
    }
    assert!(found > 1000, "{found} were found, {shorter} shortened the log");
}

#[test]
fn a_file_that_was_cut_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let (_, bytes) = heap_file(&path);
    let cuts = (1..bytes.len()).step_by(997).chain([64, 4095, 4096, 4096 + CHUNK_BYTES, bytes.len() - 1]);
    for len in cuts {
        std::fs::write(&path, &bytes[..len]).expect("written");
        let opened = DurableHeap::open(&path, &options());
        assert!(matches!(opened, Err(Error::Damaged { .. } | Error::Foreign { .. })), "{len} bytes");
        // What only looks at it says the same.
        let looked = HeapFile::open(&path).and_then(|file| file.contents());
        assert!(
            matches!(looked, Err(Error::Damaged { .. } | Error::Foreign { .. })),
            "{len} bytes: {looked:?}"
        );
        let target = dir.path().join("saved");
        match HeapFile::open(&path).and_then(|file| file.salvage(&target, |_| {})) {
            Ok(saved) => assert!(!saved.losses.is_empty(), "{len} bytes"),
            Err(error) => assert!(matches!(error, Error::Damaged { .. } | Error::Foreign { .. }), "{error}"),
        }
        let _ = std::fs::remove_file(&target);
    }
}

#[test]
fn made_up_bytes_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let mut random = 1u64;
    for len in [1, 64, 4095, 4096, 70_000, 300_000] {
        let bytes: Vec<u8> = (0..len)
            .map(|_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (random >> 56) as u8
            })
            .collect();
        std::fs::write(&path, &bytes).expect("written");
        assert!(matches!(DurableHeap::open(&path, &options()), Err(Error::Foreign { .. })), "{len} bytes");
    }
}

/// What an earlier life of a chunk left behind its blocks can say at each eighth byte that a block of any length is there. Reading all of these takes hours.
#[test]
fn what_looks_like_blocks_costs_no_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let options = Options { capacity_bytes: 200 << 20, chunk_bytes: 16 << 20, ..options() };
    let (home, bytes) = {
        let heap = DurableHeap::open(&path, &options).expect("opens");
        let home = heap.transaction(|tx| {
            let home = tx.alloc(8)?;
            tx.store_u64(home, 7)?;
            tx.set_root(home)?;
            Ok(home)
        });
        (home.expect("room"), std::fs::read(&path).expect("there"))
    };
    let mut changed = bytes.clone();
    let end = changed.len();
    let first = changed.iter().rposition(|&byte| byte != 0).expect("a block") / 8 * 8 + 64;
    // A checksum, 8 MiB; a version, entries and an index that the next ones say.
    for at in (first..end - 24).step_by(8) {
        changed[at..at + 8].copy_from_slice(&(1u64 | (8 << 20) << 32).to_le_bytes());
    }
    std::fs::write(&path, &changed).expect("written");
    let heap = DurableHeap::open(&path, &options).expect("opens again");
    assert_eq!(heap.transaction(|tx| tx.load_u64(home)).expect("reads"), 7);
}

/// Objects whose fills nobody else has.
const STAYS: usize = 150;
const GOES: usize = 151;

/// One damaged chunk costs what lies in it, not the room of all others.
#[test]
fn the_cleaner_goes_around_a_damaged_chunk() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let options = Options { cleans_ahead: false, capacity_bytes: 2 << 20, ..options() };
    let heap = DurableHeap::open(&path, &options).expect("opens");
    let homes = heap.transaction(|tx| (0..400).map(|_| tx.alloc(1000)).collect::<Result<Vec<_>, _>>());
    let homes = homes.expect("room");
    let set = |n: usize, fill: u8| heap.transaction(|tx| tx.store(homes[n], &[fill; 1000]));
    (0..400).for_each(|n| set(n, if n == STAYS || n == GOES { n as u8 } else { 1 }).expect("room"));
    // A byte of an object that stays, and of one that is written again, under the heap's feet.
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).expect("there");
    for n in [STAYS, GOES] {
        let bytes = std::fs::read(&path).expect("there");
        let at = bytes.windows(1000).position(|window| window == [n as u8; 1000]).expect("it is there") + 500;
        file.write_all_at(&[n as u8 ^ 4], at as u64).expect("there");
    }
    for round in 2..20 {
        for n in (0..400).filter(|n| n % 3 > 0) {
            set(n, round).unwrap_or_else(|error| panic!("object {n}, round {round}: {error}"));
        }
    }
    assert_eq!(heap.cleaned().damaged_chunks, 1);
    let mut out = [0; 1000];
    for n in (0..400).filter(|n| n % 3 > 0) {
        heap.transaction(|tx| tx.load(homes[n], &mut out)).expect("it is there");
        assert_eq!(out, [19; 1000], "object {n}");
    }
}

/// An object was written a hundred times: what is damaged of the fiftieth is nobody's, but where it says what it is of.
#[test]
fn damage_in_what_was_written_again_is_no_damage() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let heap = DurableHeap::open(&path, &options()).expect("opens");
    let home = heap.transaction(|tx| {
        let home = tx.alloc(1000)?;
        tx.set_root(home)?;
        Ok(home)
    });
    let home = home.expect("room");
    (0..100).for_each(|n| heap.transaction(|tx| tx.store(home, &[n; 1000])).expect("room"));
    drop(heap);
    let bytes = std::fs::read(&path).expect("there");
    let at = bytes.windows(1000).position(|window| window == [50; 1000]).expect("the fiftieth");
    let mut hits = 0;
    for hit in (at - 24..at + 1000).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[hit] ^= 1 << (hit % 8);
        std::fs::write(&path, &damaged).expect("written");
        let contents = HeapFile::open(&path).and_then(|file| file.contents());
        let opened = DurableHeap::open(&path, &options());
        if hit < at {
            // Nobody knows any more what it changed.
            assert!(matches!((&contents, &opened), (Err(Error::Damaged { .. }), Err(Error::Damaged { .. }))));
            continue;
        }
        assert_eq!(contents.expect("in order").damaged_blocks, 1, "byte {}", hit - at);
        let heap = opened.unwrap_or_else(|error| panic!("byte {}: {error}", hit - at));
        let mut out = [0; 1000];
        heap.transaction(|tx| tx.load(home, &mut out)).expect("it is there");
        assert!(out == [99; 1000]);
        // Cleaning takes it away.
        while heap.clean().expect("nothing needed is damaged") {}
        assert_eq!(heap.cleaned().damaged_chunks, 0);
        drop(heap);
        hits += 1;
    }
    assert!(hits > 100);
}

/// The last write went to another place than it was meant for: to that of the block before it, which is as long.
#[test]
fn a_block_in_the_place_of_another_does_not_count() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let (homes, bytes) = heap_file(&path);
    let place =
        |n: usize| bytes.windows(1000).position(|window| window == [n as u8; 1000]).expect("it is there");
    let (first, last) = (place(OBJECTS - 1), place(OBJECTS));
    let heading = last - first - 1000;
    let mut changed = bytes.clone();
    changed.copy_within(last - heading..last + 1000, first - heading);
    changed[last - heading..last + 1000].fill(0);
    std::fs::write(&path, &changed).expect("written");
    // The chunk was ended when the heap was closed.
    assert!(matches!(DurableHeap::open(&path, &options()), Err(Error::Damaged { .. })));
    // In one that was not, the block before the last one is torn for all that anybody knows, but it is not the last one.
    changed[last + 1000..last + 1024].fill(0);
    std::fs::write(&path, &changed).expect("written");
    let heap = DurableHeap::open(&path, &options()).expect("opens");
    assert_eq!(prefix(&heap, &homes), OBJECTS - 2);
}

/// The class of an area is in a block of a session that has no other: it cannot be told from one that was being written, but the objects can.
#[test]
fn objects_of_an_area_without_a_class_are_damage() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let (_, bytes) = heap_file(&path);
    let mut refused = 0;
    for at in 4096 + 32..4096 + 100 {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        std::fs::write(&path, &damaged).expect("written");
        let (contents, opened) =
            (HeapFile::open(&path).and_then(|file| file.contents()), DurableHeap::open(&path, &options()));
        assert_eq!(contents.is_err(), opened.is_err(), "byte {at}");
        match opened {
            Ok(heap) => assert!(heap.usage().live_bytes >= 1000 * OBJECTS as u64, "byte {at}"),
            Err(Error::Damaged { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 40, "{refused}");
}

/// What is hit is missing and listed; all else is there, and the new file is a heap like others.
#[test]
fn what_was_not_hit_is_salvaged() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, target) = (dir.path().join("heap"), dir.path().join("saved"));
    let (homes, bytes) = heap_file(&path);
    let filled = bytes.iter().rposition(|&byte| byte != 0).expect("blocks");
    let mut hit = 0;
    for at in (4096..filled).step_by(3989) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(&path, &damaged).expect("written");
        let saved = HeapFile::open(&path).expect("a heap").salvage(&target, |_| {}).expect("salvages");
        let heap = DurableHeap::open(&target, &options()).expect("opens");
        let mut out = [0; 1000];
        let is_there = |n: &usize| match heap.transaction(|tx| tx.load(homes[*n], &mut out)) {
            Ok(()) => {
                assert!(out == [*n as u8 + 1; 1000], "object {n}, byte {at}");
                true
            }
            Err(Error::NotAllocated(_)) => false,
            Err(error) => panic!("object {n}: {error}"),
        };
        let there = (0..OBJECTS).filter(is_there).count();
        let chunk = 4096 + (at - 4096) / CHUNK_BYTES * CHUNK_BYTES;
        let is_listed = |place: usize| {
            let place = place as u64;
            saved.losses.iter().any(|loss| loss.offset <= place && place < loss.offset + loss.bytes)
        };
        if there < OBJECTS && at < chunk + 32 {
            assert!(is_listed(chunk), "a header, byte {at}: {:?}", saved.losses);
        } else if there < OBJECTS {
            assert_eq!(there, OBJECTS - 1, "byte {at}: {:?}", saved.losses);
            // The last block cannot be told from one that was being written.
            let is_last = saved.losses.is_empty() && filled - at < 1100;
            assert!(is_last || is_listed(at), "byte {at}: {:?}", saved.losses);
        }
        hit += usize::from(there < OBJECTS);
        let more = heap.transaction(|tx| {
            let home = tx.alloc(1000)?;
            tx.store(home, &[7; 1000])?;
            Ok(home)
        });
        assert!(!homes.contains(&more.expect("room")) || there < OBJECTS);
        drop(heap);
        std::fs::remove_file(&target).expect("there");
    }
    assert!(hit > 20, "{hit} of the places cost an object");
}
