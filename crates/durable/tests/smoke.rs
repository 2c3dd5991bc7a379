//! The way through: allocate, write, read, free, close, open again.

use aquifer_base::HomeAddress;
use aquifer_durable::{Backing, DurableHeap, Error, Options};

fn options() -> Options {
    Options {
        capacity_bytes: 64 << 20,
        chunk_bytes: 64 << 10,
        backing: Backing::Memory,
        ..Options::default()
    }
}

#[test]
fn objects_are_there_when_the_heap_is_opened_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let mut objects = Vec::new();
    for round in 0..3u8 {
        let heap = DurableHeap::open(&path, &options()).expect("opens");
        for (n, &(home, bytes, fill)) in objects.iter().enumerate() {
            let mut out = vec![0; bytes];
            heap.transaction(|tx| tx.load(home, &mut out)).expect("allocated");
            assert!(out.iter().all(|&byte| byte == fill), "object {n} of {bytes} bytes in round {round}");
        }
        for bytes in (1..3000).step_by(37) {
            let fill = round.wrapping_add(bytes as u8);
            let home = heap.transaction(|tx| {
                let home = tx.alloc(bytes as u64)?;
                tx.store(home, &vec![fill; bytes])?;
                Ok(home)
            });
            objects.push((home.expect("room"), bytes, fill));
        }
        let mut homes: Vec<_> = objects.iter().map(|&(home, ..)| home).collect();
        homes.sort_unstable();
        homes.dedup();
        assert_eq!(homes.len(), objects.len(), "no object has the place of another one");
        // Every third one goes.
        let mut n = 0;
        objects.retain(|&(home, ..)| {
            n += 1;
            n % 3 > 0 || heap.transaction(|tx| tx.free(home)).is_err()
        });
        assert!(objects.len() < homes.len());
    }
}

/// What was written over takes neither RAM nor numbers: 4 GiB in all, 16 MiB of which count.
#[test]
fn a_transaction_writes_one_object_over_and_over() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, options) = (dir.path().join("heap"), Options { capacity_bytes: 128 << 20, ..options() });
    let heap = DurableHeap::open(&path, &options).expect("opens");
    let roots = heap.transaction(|tx| {
        let (large, small) = (tx.alloc(16 << 20)?, tx.alloc(8)?);
        tx.set_root(small)?;
        let mut bytes = vec![0; 16 << 20];
        for n in 0..=256u64 {
            bytes[..8].copy_from_slice(&n.to_ne_bytes());
            tx.store(large, &bytes)?;
        }
        tx.store_u64(small, 0xABCD)?;
        assert_eq!((tx.load_u64(large)?, tx.load_u64(small)?), (256, 0xABCD));
        Ok((large, small))
    });
    let (large, small) = roots.expect("room");
    drop(heap);
    let heap = DurableHeap::open(&path, &options).expect("opens again");
    let found = heap.transaction(|tx| Ok((tx.load_u64(large)?, tx.load_u64(small)?)));
    assert_eq!(found.expect("reads"), (256, 0xABCD));
}

#[test]
fn what_is_not_committed_has_not_happened() {
    let dir = tempfile::tempdir().expect("a directory");
    let heap = DurableHeap::open(&dir.path().join("heap"), &options()).expect("opens");
    let home = heap.transaction(|tx| tx.alloc(64)).expect("room");
    let mut tx = heap.begin();
    tx.store_u64(home, 7).expect("allocated");
    assert_eq!(tx.load_u64(home).expect("allocated"), 7, "it sees its own writes");
    let lost = tx.alloc(10).expect("room");
    drop(tx);
    assert_eq!(heap.transaction(|tx| tx.load_u64(home)).expect("allocated"), 0);
    let outcome = heap.transaction(|tx| tx.load(lost, &mut [0; 10]));
    assert!(matches!(outcome, Err(Error::NotAllocated(home)) if home == lost), "{outcome:?}");
}

/// The place of an object that two transactions free is given out again by the one that commits.
#[test]
fn what_somebody_else_has_freed_is_a_conflict() {
    let dir = tempfile::tempdir().expect("a directory");
    let heap = DurableHeap::open(&dir.path().join("heap"), &options()).expect("opens");
    // Enough objects that the other transaction cannot keep all of their slots for its session.
    let homes = heap.transaction(|tx| (0..200).map(|_| tx.alloc(200)).collect::<Result<Vec<_>, _>>());
    let homes = homes.expect("room");
    let mut late = heap.begin();
    late.free(homes[0]).expect("it is an object");
    heap.transaction(|tx| homes.iter().try_for_each(|&home| tx.free(home))).expect("they are objects");
    let outcome = (0..1000).find_map(|_| late.alloc(200).err());
    assert!(matches!(outcome, Some(Error::Conflict)), "{outcome:?}");
}

#[test]
fn mistakes_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let heap = DurableHeap::open(&dir.path().join("heap"), &options()).expect("opens");
    let home = heap.transaction(|tx| tx.alloc(100)).expect("room");
    let nowhere = HomeAddress(home.0 + (1 << 30));
    assert!(matches!(heap.transaction(|tx| tx.store(nowhere, &[1; 8])), Err(Error::NotAllocated(_))));
    let beyond = HomeAddress(u64::MAX - 3);
    assert!(matches!(heap.transaction(|tx| tx.load(beyond, &mut [0; 8])), Err(Error::NotAllocated(_))));
    assert!(matches!(heap.transaction(|tx| tx.store(beyond, &[1; 8])), Err(Error::NotAllocated(_))));
    assert!(matches!(heap.transaction(|tx| tx.free(beyond)), Err(Error::NoObject(_))));
    assert!(matches!(heap.transaction(|tx| tx.free(nowhere)), Err(Error::NoObject(_))));
    assert!(matches!(heap.transaction(|tx| tx.free(home.plus_bytes(4))), Err(Error::NoObject(_))));
    heap.transaction(|tx| tx.free(home)).expect("it is an object");
    assert!(matches!(heap.transaction(|tx| tx.free(home)), Err(Error::NoObject(_))));
    assert!(matches!(heap.transaction(|tx| tx.alloc(1 << 40)), Err(Error::TooLarge { .. })));
    let outcome = heap.transaction(|tx| {
        let home = tx.alloc(100)?;
        tx.free(home)?;
        tx.store_u64(home, 1)
    });
    assert!(matches!(outcome, Err(Error::NotAllocated(_))), "{outcome:?}");
}

#[test]
fn a_full_heap_says_so_and_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options { capacity_bytes: 2 << 20, ..options() };
    let heap = DurableHeap::open(&dir.path().join("heap"), &options).expect("opens");
    let mut homes = Vec::new();
    let error = loop {
        let outcome = heap.transaction(|tx| {
            let home = tx.alloc(1000)?;
            tx.store(home, &[homes.len() as u8; 1000])?;
            Ok(home)
        });
        match outcome {
            Ok(home) => homes.push(home),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Full { capacity_bytes: 2_097_152 }), "{error}");
    assert!(homes.len() > 1300, "{} objects", homes.len());
    for (n, &home) in homes.iter().enumerate() {
        let mut out = [0; 1000];
        heap.transaction(|tx| tx.load(home, &mut out)).expect("allocated");
        assert_eq!(out, [n as u8; 1000]);
    }
    // All can be freed, and then there is room again, as often as one likes.
    for round in 0..5u8 {
        for home in homes.drain(..) {
            heap.transaction(|tx| tx.free(home)).expect("frees need no room");
        }
        for _ in 0..1300 {
            let home = heap.transaction(|tx| {
                let home = tx.alloc(1000)?;
                tx.store(home, &[round; 1000])?;
                Ok(home)
            });
            homes.push(home.expect("there is room again"));
        }
    }
}

/// The heap is as full as it gets, and every thread needs a chunk to write down what it frees.
#[test]
fn many_threads_empty_a_full_heap() {
    const THREADS: usize = 8;
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options { capacity_bytes: 2 << 20, ..options() };
    let heap = DurableHeap::open(&dir.path().join("heap"), &options).expect("opens");
    let mut homes = Vec::new();
    while let Ok(home) = heap.transaction(|tx| {
        let home = tx.alloc(200)?;
        tx.store(home, &[1; 200])?;
        Ok(home)
    }) {
        homes.push(home);
    }
    assert!(homes.len() > 4000, "{} objects", homes.len());
    std::thread::scope(|scope| {
        for share in homes.chunks(homes.len().div_ceil(THREADS)) {
            let heap = &heap;
            scope.spawn(move || {
                for &home in share {
                    heap.transaction(|tx| tx.free(home)).expect("frees need no room");
                }
            });
        }
    });
    assert!(heap.usage().live_bytes < 64 << 10, "{:?}", heap.usage());
}

#[test]
fn another_file_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("letter");
    std::fs::write(&path, "Dear reader, ".repeat(1000)).expect("written");
    let outcome = DurableHeap::open(&path, &options());
    assert!(matches!(outcome, Err(Error::Foreign { .. })));
    assert_eq!(std::fs::read(&path).expect("there").len(), 13_000, "it is as it was");
}

#[test]
fn money_is_neither_made_nor_lost() {
    const ACCOUNTS: u64 = 64;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let heap = DurableHeap::open(&path, &options()).expect("opens");
    let accounts = heap.transaction(|tx| {
        let accounts = tx.alloc(ACCOUNTS * 512)?;
        for n in 0..ACCOUNTS {
            tx.store_u64(accounts.plus_bytes(n * 512), 1000)?;
        }
        tx.set_root(accounts)?;
        Ok(accounts)
    });
    let accounts = accounts.expect("room");
    let sum = |heap: &DurableHeap| {
        heap.transaction(|tx| {
            (0..ACCOUNTS).map(|n| tx.load_u64(accounts.plus_bytes(n * 512))).sum::<Result<u64, Error>>()
        })
    };
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let heap = &heap;
            scope.spawn(move || {
                let mut random = thread + 1;
                for _ in 0..3000 {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    let (from, to) = (random >> 33 & 63, random >> 43 & 63);
                    let moved = heap.transaction(|tx| {
                        let (from, to) = (accounts.plus_bytes(from * 512), accounts.plus_bytes(to * 512));
                        let amount = tx.load_u64(from)? / 3;
                        let left = tx.load_u64(from)? - amount;
                        tx.store_u64(from, left)?;
                        let right = tx.load_u64(to)? + amount;
                        tx.store_u64(to, right)
                    });
                    moved.expect("room");
                }
            });
        }
        for _ in 0..500 {
            assert_eq!(sum(&heap).expect("allocated"), ACCOUNTS * 1000);
        }
    });
    assert_eq!(sum(&heap).expect("allocated"), ACCOUNTS * 1000);
    drop(heap);
    let heap = DurableHeap::open(&path, &options()).expect("opens");
    assert_eq!(heap.transaction(|tx| tx.root()).expect("a heap"), Some(accounts));
    assert_eq!(sum(&heap).expect("allocated"), ACCOUNTS * 1000);
}

#[test]
fn many_read_while_nobody_changes() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    assert!(matches!(DurableHeap::open_read_only(&path), Err(Error::Io { .. })), "nothing is made");
    assert!(!path.exists());
    let home = {
        let heap = DurableHeap::open(&path, &options()).expect("opens");
        let home = heap.transaction(|tx| {
            let home = tx.alloc(100)?;
            tx.store_u64(home, 7)?;
            Ok(home)
        });
        assert!(matches!(DurableHeap::open_read_only(&path), Err(Error::Io { .. })), "it is in use");
        home.expect("room")
    };
    let before = std::fs::read(&path).expect("there");
    let readers = [0, 1].map(|_| DurableHeap::open_read_only(&path).expect("opens"));
    for reader in &readers {
        assert_eq!(reader.transaction(|tx| tx.load_u64(home)).expect("allocated"), 7);
        assert!(matches!(reader.transaction(|tx| tx.store_u64(home, 8)), Err(Error::ReadOnly)));
        assert_eq!(reader.transaction(|tx| tx.load_u64(home)).expect("allocated"), 7);
    }
    assert!(matches!(DurableHeap::open(&path, &options()), Err(Error::Io { .. })), "it is being read");
    drop(readers);
    assert_eq!(std::fs::read(&path).expect("there"), before);
    DurableHeap::open(&path, &options()).expect("opens");
}
