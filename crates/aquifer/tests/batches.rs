//! Many objects at once: copied to memory of a program or a heap, and from there.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};

use aquifer::{Array, Heap, Item, Options, Transfer};
use common::{Rng, Watchdog};

fn heap() -> Heap {
    Heap::open(Options::new().ram_bytes(8 << 20).flash_bytes(128 << 20)).unwrap()
}

fn word_at(pointer: *mut u8, number: usize) -> &'static AtomicU64 {
    // SAFETY: callers stay within an object that is in use or at its address; everybody uses the words as atomics.
    unsafe { AtomicU64::from_ptr(pointer.cast::<u64>().add(number)) }
}

#[test]
fn batches_copy_what_is_there() {
    let heap = heap();
    let array = heap.array(100_000, 128).unwrap();
    let mut rng = Rng::new(3);
    let mut model: Vec<[u64; 16]> = vec![[0; 16]; array.len()];
    for _ in 0..40 {
        let picks: Vec<usize> = (0..1500).map(|_| rng.below(array.len())).collect();
        let how = [Transfer::Read, Transfer::ReadOnce, Transfer::Write, Transfer::Write][rng.below(4)];
        let mut memory: Vec<[u64; 16]> = picks.iter().map(|_| std::array::from_fn(|_| rng.word())).collect();
        let mut items = picks.iter().zip(&mut memory).map(|(&n, memory)| Item {
            address: array.element(n) as usize,
            memory: memory.as_mut_ptr().cast(),
            bytes: 128,
        });
        // SAFETY: each item has 128 bytes of its own.
        unsafe { heap.transfer(&mut items, how).unwrap() };
        if how == Transfer::Write {
            // Of one object that is written twice, the later item stays.
            picks.iter().zip(&memory).for_each(|(&n, memory)| model[n] = *memory);
        } else {
            picks.iter().zip(&memory).for_each(|(&n, memory)| assert_eq!(*memory, model[n], "object {n}"));
        }
    }
    for (n, expected) in model.iter().enumerate() {
        assert_eq!(word_at(array.element(n), 15).load(Ordering::Relaxed), expected[15]);
    }
    let mut memory = [0u8; 200];
    let mut fails = |address, bytes| {
        let mut items = [Item { address, memory: memory.as_mut_ptr(), bytes }].into_iter();
        // SAFETY: the memory has 200 bytes.
        unsafe { heap.transfer(&mut items, Transfer::Read) }.is_err()
    };
    assert!(fails(array.element(0) as usize, 200) && fails(8, 8));
    assert!(!fails(array.element(0) as usize, 128));
    heap.check().unwrap();
}

/// Objects are moved to neighbours of theirs: the memory of a batch lies in the heap, and in objects that it names.
#[test]
fn batches_copy_within_a_heap() {
    let _watchdog = Watchdog::new("a batch waits for what it uses itself");
    let heap = heap();
    let array = heap.array(50_000, 128).unwrap();
    for n in 0..array.len() {
        word_at(array.element(n), 3).store(n as u64, Ordering::Relaxed);
    }
    for how in [Transfer::Read, Transfer::Write] {
        let write = how == Transfer::Write;
        let item = |n: usize| Item {
            address: array.element(n + usize::from(write)) as usize,
            memory: array.element(n + usize::from(!write)),
            bytes: 128,
        };
        // SAFETY: objects have 128 bytes.
        unsafe { heap.transfer(&mut (0..2000).map(item), how) }.unwrap();
    }
    // Read to the next: all at once. Written to the next of these: the same.
    for n in 0..2000u64 {
        let moved = word_at(array.element(n as usize), 3).load(Ordering::Relaxed);
        assert_eq!(moved, n.saturating_sub(2), "object {n}");
    }
    heap.check().unwrap();
}

#[test]
fn neighbours_in_the_log_are_read_together() {
    let heap = heap();
    for (bytes, count) in [(200, 60_000), (4096, 4_000)] {
        let array = heap.array(count, bytes).unwrap();
        for n in 0..count {
            word_at(array.element(n), 1).store(n as u64, Ordering::Relaxed);
        }
        let before = heap.stats();
        let mut out = vec![0u64; 2 * count];
        let item = |n: usize| Item {
            address: array.element(n) as usize,
            memory: (&raw mut out[2 * n]).cast(),
            bytes: 16,
        };
        let items: Vec<_> = (0..count).map(item).collect();
        // SAFETY: the items are parts of `out`.
        unsafe { heap.transfer(&mut items.into_iter(), Transfer::Read) }.unwrap();
        assert!((0..count).all(|n| out[2 * n + 1] == n as u64));
        let after = heap.stats();
        let (reads, missed) = (after.device_reads - before.device_reads, after.misses - before.misses);
        // One each before they were joined. Beside other programs some objects are missed singly.
        assert!(reads < count as u64 / 2, "{count} objects of {bytes} bytes: {reads} reads, {missed} misses");
        heap.free(array.base()).unwrap();
    }
}

/// A pass over everything reads each object from flash and leaves RAM to what is in use.
#[test]
fn what_is_read_once_is_not_kept() {
    let heap = heap();
    for (bytes, count) in [(200, 100_000), (4096, 8_000)] {
        let array = heap.array(count, bytes).unwrap();
        for n in 0..count {
            word_at(array.element(n), 1).store(n as u64, Ordering::Relaxed);
        }
        let hot = count / 50;
        let mut out = vec![0u64; 2 * count];
        let mut pass = |range: std::ops::Range<usize>, how| {
            let item = |n: usize| Item {
                address: array.element(n) as usize,
                memory: (&raw mut out[2 * n]).cast(),
                bytes: 16,
            };
            let items: Vec<_> = range.clone().map(item).collect();
            // SAFETY: the items are parts of `out`.
            unsafe { heap.transfer(&mut items.into_iter(), how) }.unwrap();
            assert!(range.into_iter().all(|n| out[2 * n + 1] == n as u64));
        };
        pass(0..hot, Transfer::Read);
        let before = heap.stats();
        pass(0..count, Transfer::ReadOnce);
        let after = heap.stats();
        let left = after.evicted_objects - before.evicted_objects;
        assert!(left < count as u64 / 10, "{left} objects of {bytes} bytes left for what was read once");
        let reads = heap.stats().device_reads;
        pass(0..hot, Transfer::Read);
        assert!(heap.stats().device_reads - reads < hot as u64 / 4, "what was in use is not there any more");
        heap.free(array.base()).unwrap();
        heap.check().unwrap();
    }
}

/// Two threads move halves of pages from one heap to the other, each page both ways.
#[test]
fn batches_between_heaps_do_not_wait_for_each_other() {
    let watchdog = Watchdog::new("a batch of each heap waits for the other heap's");
    let (one, two) = (heap(), heap());
    let arrays = [one.array(4000, 4096).unwrap(), two.array(4000, 4096).unwrap()];
    for (array, seed) in arrays.iter().zip([0u64, 1 << 32]) {
        (0..4000).for_each(|n| word_at(array.element(n), 5).store(seed + n as u64, Ordering::Relaxed));
        (0..4000).for_each(|n| word_at(array.element(n), 261).store(seed + n as u64, Ordering::Relaxed));
    }
    let moves = |heap: &Heap, from: &Array, to: &Array, at: usize| {
        for how in [Transfer::ReadOnce, Transfer::Read, Transfer::ReadOnce] {
            let item = |n: usize| Item {
                address: from.element(n) as usize + at,
                memory: to.element(n).wrapping_add(at),
                bytes: 2048,
            };
            // SAFETY: pages have 4096 bytes, and each half of them is moved by one thread.
            unsafe { heap.transfer(&mut (0..4000).map(item), how) }.unwrap();
            watchdog.step();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| moves(&one, &arrays[0], &arrays[1], 0));
        scope.spawn(|| moves(&two, &arrays[1], &arrays[0], 2048));
    });
    for n in 0..4000 {
        assert_eq!(word_at(arrays[1].element(n), 5).load(Ordering::Relaxed), n as u64);
        assert_eq!(word_at(arrays[0].element(n), 261).load(Ordering::Relaxed), (1 << 32) + n as u64);
    }
}
