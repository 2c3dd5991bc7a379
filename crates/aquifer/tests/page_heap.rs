//! Memory that is ordinary until it exceeds its budget: no byte is lost when a heap takes over.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use aquifer::device::{FaultKind, FaultPlan, Faulty, MemoryDevice, Operation};
use aquifer::{Error, Flash, Options, PageHeap, Program};
use common::long_or;

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;

fn heap(ram_mib: usize, flash_mib: usize) -> PageHeap {
    PageHeap::new(Options::new().ram_bytes((ram_mib * MIB) as u64).flash_bytes((flash_mib * MIB) as u64))
        .unwrap()
}

fn words(block: *mut u8, bytes: usize) -> &'static [AtomicU64] {
    // SAFETY: the block has that many bytes, is aligned to pages, and is used as these atomics only.
    unsafe { std::slice::from_raw_parts(block.cast(), bytes / 8) }
}

fn fill(block: *mut u8, bytes: usize, seed: u64) {
    for (n, word) in words(block, bytes).iter().enumerate() {
        word.store(seed ^ n as u64, Ordering::Relaxed);
    }
}

fn check(block: *mut u8, bytes: usize, seed: u64) {
    for (n, word) in words(block, bytes).iter().enumerate() {
        assert_eq!(word.load(Ordering::Relaxed), seed ^ n as u64, "word {n} of block {seed:#x}");
    }
}

#[test]
fn memory_within_the_budget_stays_ordinary() {
    let heap = heap(32, 256);
    for round in 0..10 {
        let block = heap.allocate_fresh(20 * MIB, 16).unwrap();
        assert!(words(block, 20 * MIB).iter().all(|word| word.load(Ordering::Relaxed) == 0));
        fill(block, 20 * MIB, round);
        check(block, 20 * MIB, round);
        heap.free(block as usize).unwrap();
    }
    assert!(!heap.is_managed() && heap.stats().is_none() && heap.block_bytes() == 0);
}

#[test]
fn no_byte_is_lost_when_memory_exceeds_the_budget() {
    let heap = heap(16, 256);
    let blocks: Vec<_> = (0..64).map(|n| (heap.allocate(2 * MIB, 16).unwrap(), n << 32 | 7)).collect();
    for &(block, seed) in &blocks {
        fill(block, 2 * MIB, seed);
    }
    assert!(heap.is_managed());
    for &(block, seed) in &blocks {
        check(block, 2 * MIB, seed);
    }
    heap.check().unwrap();
    let stats = heap.stats().unwrap();
    // By faults or ahead of them.
    assert!(stats.device_reads > 1000 && stats.ram_used_bytes <= 16 * MIB as u64, "{stats:?}");
    for &(block, _) in blocks.iter().step_by(2) {
        heap.free(block as usize).unwrap();
    }
    for &(block, seed) in blocks.iter().skip(1).step_by(2) {
        check(block, 2 * MIB, seed);
    }
    let fresh = heap.allocate_fresh(30 * MIB, 16).unwrap();
    assert!(words(fresh, 30 * MIB).iter().all(|word| word.load(Ordering::Relaxed) == 0));
    heap.check().unwrap();
}

#[test]
fn threads_go_on_writing_while_a_heap_takes_over() {
    for _ in 0..long_or(5, 2) {
        let heap = heap(16, 256);
        let early: Vec<_> = (0..4).map(|_| heap.allocate(3 * MIB, 16).unwrap() as usize).collect();
        assert!(!heap.is_managed());
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers: Vec<_> = early
                .iter()
                .map(|&block| {
                    let over = &over;
                    scope.spawn(move || {
                        let words = words(block as *mut u8, 3 * MIB);
                        let mut rounds = 0u64;
                        while !over.load(Ordering::Relaxed) {
                            rounds += 1;
                            for word in words {
                                assert_eq!(word.fetch_add(1, Ordering::Relaxed), rounds - 1);
                            }
                        }
                        rounds
                    })
                })
                .collect();
            let late: Vec<_> = (0..20u64).map(|n| (heap.allocate(3 * MIB, 16).unwrap(), n)).collect();
            late.iter().for_each(|&(block, seed)| fill(block, 3 * MIB, seed));
            late.iter().for_each(|&(block, seed)| check(block, 3 * MIB, seed));
            over.store(true, Ordering::Relaxed);
            for (writer, &block) in writers.into_iter().zip(&early) {
                let rounds = writer.join().unwrap();
                assert!(words(block as *mut u8, 3 * MIB).iter().all(|w| w.load(Ordering::Relaxed) == rounds));
            }
        });
        assert!(heap.is_managed());
        heap.check().unwrap();
    }
}

#[test]
fn blocks_grow_shrink_and_are_cut() {
    let heap = heap(16, 256);
    let block = heap.allocate(MIB, 16).unwrap();
    fill(block, MIB, 5);
    assert!(heap.resize(block as usize, 40 * MIB).unwrap());
    assert!(heap.is_managed());
    fill(block, 40 * MIB, 6);
    check(block, 40 * MIB, 6);
    assert!(heap.resize(block as usize, MIB).unwrap());
    check(block, MIB, 6);
    heap.unmap(block as usize + 100 * PAGE, 50 * PAGE).unwrap();
    assert_eq!(heap.usable_bytes(block as usize).unwrap(), 100 * PAGE);
    assert_eq!(heap.usable_bytes(block as usize + 150 * PAGE).unwrap(), 106 * PAGE);
    heap.discard(block as usize, 10 * PAGE).unwrap();
    assert!(words(block, 10 * PAGE).iter().all(|word| word.load(Ordering::Relaxed) == 0));
    assert!(heap.free(block as usize + PAGE).is_err());
    heap.free(block as usize).unwrap();
    heap.free(block as usize + 150 * PAGE).unwrap();
    assert_eq!(heap.block_bytes(), 0);
    heap.check().unwrap();
}

#[test]
fn what_does_not_fit_on_flash_is_refused() {
    let heap = heap(16, 64);
    let block = heap.allocate(50 * MIB, 16).unwrap();
    fill(block, 50 * MIB, 1);
    let error = heap.allocate_fresh(20 * MIB, 16).unwrap_err();
    assert!(error.to_string().contains("flash"), "{error}");
    check(block, 50 * MIB, 1);
}

#[test]
fn without_flash_memory_stays_ordinary_and_bounded() {
    let options = Options::new().ram_bytes(16 << 20).flash_bytes(64 << 20).flash_path("/nonexistent/flash");
    let heap = PageHeap::new(options).unwrap();
    let block = heap.allocate(10 * MIB, 16).unwrap();
    fill(block, 10 * MIB, 3);
    let error = heap.allocate(10 * MIB, 16).unwrap_err();
    assert!(error.to_string().contains("/nonexistent"), "{error}");
    assert!(matches!(heap.allocate(10 * MIB, 16), Err(Error::Heap(_))));
    check(block, 10 * MIB, 3);
    heap.free(block as usize).unwrap();
    heap.allocate(10 * MIB, 16).unwrap();
}

/// A program that takes 16 MiB for itself when blocks have 20.
struct Growing;

impl Program for Growing {
    fn outside_bytes(&self, block_bytes: u64) -> u64 {
        if block_bytes < 20 * MIB as u64 { 0 } else { 16 * MIB as u64 }
    }
}

/// Flash that dies while the memory is being taken over, at whatever write: what the heap has not made its own stays where it is, can
/// be freed, and comes back empty.
#[test]
fn an_error_while_taking_over_loses_nothing() {
    // What is there when it takes over does not fit: a half of the RAM is gone at once.
    let heap_on = |plan: FaultPlan| {
        let device = Arc::new(Faulty::new(MemoryDevice::new(1024 * MIB as u64, 4096), plan));
        let options = Options::new().ram_bytes(32 * MIB as u64).flash(Flash::Device(device.clone()));
        let mut heap = PageHeap::new(options).unwrap();
        heap.serve(Arc::new(Growing));
        (heap, device)
    };
    let (whole, device) = heap_on(FaultPlan::new(0));
    loop {
        let block = whole.allocate(MIB, 16).unwrap();
        if whole.is_managed() {
            break;
        }
        fill(block, MIB, 0);
    }
    // The writer went on after that.
    let writes = device.calls(Operation::Write) / 2;
    assert!(writes >= 4, "{writes} writes");
    drop(whole);
    for nth in [1, 2, writes / 2, writes] {
        let (heap, _) = heap_on(FaultPlan::new(0).from_nth(Operation::Write, nth, FaultKind::Eio));
        let mut blocks = Vec::new();
        let refused = loop {
            match heap.allocate(MIB, 16) {
                Ok(block) => {
                    fill(block, MIB, (blocks.len() as u64) << 32);
                    blocks.push((block, (blocks.len() as u64) << 32));
                }
                Err(error) => break error,
            }
            assert!(blocks.len() < 200, "flash that cannot be written takes {} MiB", blocks.len());
        };
        assert!(heap.is_managed() && matches!(refused, Error::Heap(_)), "{refused}");
        let (last, pages) = (blocks[blocks.len() - 1].0 as usize, heap.block_bytes());
        assert!(
            !matches!(heap.resize(last, 20 * MIB), Ok(true)),
            "a block grows where it can only end in SIGBUS"
        );
        assert_eq!((heap.usable_bytes(last).unwrap(), heap.block_bytes()), (MIB, pages));
        for &(block, seed) in blocks.iter().rev() {
            check(block, MIB, seed);
        }
        heap.check().unwrap();
        for &(block, seed) in &blocks {
            check(block, MIB, seed);
            heap.free(block as usize).unwrap();
        }
        heap.check().unwrap();
        let block = heap.allocate_fresh(4 * MIB, 16).unwrap();
        assert!(words(block, 4 * MIB).iter().all(|word| word.load(Ordering::Relaxed) == 0));
    }
}

/// A call that waits in the kernel when its buffer becomes a heap's has it where it was.
#[test]
fn buffers_of_calls_stay_in_place_when_a_heap_takes_over() {
    let heap = heap(16, 256);
    let block = heap.allocate(MIB, 16).unwrap();
    let (buffer, bytes) = (block as usize + 100 * PAGE, 3 * PAGE);
    // Of the second and third page nothing is there yet.
    fill(buffer as *mut u8, PAGE, 5);
    let call = heap.begin_call(buffer + 8, bytes - 8).unwrap();
    let filled: Vec<_> = (0..40).map(|n| (heap.allocate(MIB, 16).unwrap(), n << 32 | 3)).collect();
    filled.iter().for_each(|&(block, seed)| fill(block, MIB, seed));
    assert!(heap.is_managed());
    filled.iter().for_each(|&(block, seed)| check(block, MIB, seed));
    let mut present = [0u8; 3];
    let mut are_present = || {
        // SAFETY: the kernel writes one byte for each page.
        assert_eq!(unsafe { libc::mincore(buffer as *mut _, bytes, present.as_mut_ptr()) }, 0);
        present.iter().all(|byte| byte & 1 == 1)
    };
    assert!(are_present(), "the kernel cannot use the buffer");
    heap.end_call(call).unwrap();
    filled.iter().for_each(|&(block, seed)| check(block, MIB, seed));
    assert!(!are_present(), "the call is over, and its buffer stays");
    heap.check().unwrap();
    check(buffer as *mut u8, PAGE, 5);
}

/// Calls that return while a heap takes over leave no pin behind.
#[test]
fn buffers_of_calls_that_return_meanwhile_can_leave() {
    for _ in 0..long_or(20, 5) {
        let heap = heap(16, 256);
        let buffers = heap.allocate(4 * 64 * PAGE, 16).unwrap() as usize;
        fill(buffers as *mut u8, 4 * 64 * PAGE, 9);
        std::thread::scope(|scope| {
            for n in 0..4 {
                let (heap, first) = (&heap, buffers + n * 64 * PAGE);
                scope.spawn(move || {
                    for turn in 0.. {
                        let call = heap.begin_call(first + turn % 64 * PAGE, 100).unwrap();
                        // Some return in the middle of it.
                        std::thread::sleep(Duration::from_micros(turn as u64 * 1700 % 9000));
                        heap.end_call(call).unwrap();
                        if heap.is_managed() {
                            break;
                        }
                    }
                });
            }
            let filled: Vec<_> = (0..40).map(|n| (heap.allocate(MIB, 16).unwrap(), n << 32 | 3)).collect();
            filled.iter().for_each(|&(block, seed)| fill(block, MIB, seed));
            filled.iter().for_each(|&(block, seed)| check(block, MIB, seed));
        });
        let filled = heap.allocate(30 * MIB, 16).unwrap();
        fill(filled, 30 * MIB, 1);
        check(filled, 30 * MIB, 1);
        let mut present = [0u8; 4 * 64];
        // SAFETY: the kernel writes one byte for each page.
        assert_eq!(unsafe { libc::mincore(buffers as *mut _, 4 * 64 * PAGE, present.as_mut_ptr()) }, 0);
        assert_eq!(
            present.iter().filter(|&byte| byte & 1 == 1).count(),
            0,
            "pages stay though no call uses them"
        );
        check(buffers as *mut u8, 4 * 64 * PAGE, 9);
        heap.check().unwrap();
    }
}

/// A range that cannot be hidden, because a call has its buffer there, is as before: what was reserved in it stays so.
#[test]
fn what_was_reserved_stays_so_if_all_cannot_be_hidden() {
    let heap = heap(16, 256);
    let (reserve, bytes) = (heap.reserve(16 * PAGE, PAGE).unwrap() as usize, 16 * PAGE);
    heap.commit(reserve + 4 * PAGE, 4 * PAGE).unwrap();
    fill((reserve + 4 * PAGE) as *mut u8, 4 * PAGE, 7);
    fill(heap.allocate(30 * MIB, 16).unwrap(), 30 * MIB, 1);
    assert!(heap.is_managed());
    let open = [(reserve + 4 * PAGE, reserve + 8 * PAGE)];
    let call = heap.begin_call(reserve + 5 * PAGE, 100).unwrap();
    assert!(!heap.hide(reserve, bytes));
    assert_eq!(heap.open_runs(reserve, bytes), open);
    heap.end_call(call).unwrap();
    check((reserve + 4 * PAGE) as *mut u8, 4 * PAGE, 7);
    assert!(heap.hide(reserve, bytes));
    assert_eq!(heap.open_runs(reserve, bytes), []);
    heap.check().unwrap();
}

/// What a heap that shares its RAM looks at often is open; a forked child has it, too, and it tells of the parent.
#[test]
fn a_forked_child_is_told_its_own_ram() {
    let mut heap = heap(16, 256);
    heap.serve(Arc::new(Growing));
    fill(heap.allocate(30 * MIB, 16).unwrap(), 30 * MIB, 1);
    assert!(heap.is_managed());
    let before = heap.stats().unwrap().process_ram_bytes;
    // SAFETY: the child uses the heap's numbers and memory of its own, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let own = vec![1u8; 64 * MIB];
        let told = heap.stats().map_or(0, |stats| stats.process_ram_bytes);
        let is_own = told >= before + 32 * MIB as u64 && std::hint::black_box(&own)[5 * MIB] == 1;
        // SAFETY: nothing of the parent's is undone.
        unsafe { libc::_exit(i32::from(!is_own)) };
    }
    let mut status = -1;
    // SAFETY: the test's own child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "{before} bytes before");
}

/// A walk is in the middle of a block when it is freed, so pages of it are being read ahead.
#[test]
fn what_was_read_ahead_of_a_free_is_gone() {
    let heap = heap(16, 256);
    let _ballast: Vec<_> = (0..16).map(|n| fill(heap.allocate(2 * MIB, 16).unwrap(), 2 * MIB, n)).collect();
    assert!(heap.is_managed());
    for round in 1..60 {
        let block = heap.allocate_fresh(4 * MIB, 16).unwrap();
        assert!(words(block, 4 * MIB).iter().all(|word| word.load(Ordering::Relaxed) == 0), "round {round}");
        fill(block, 4 * MIB, round << 32);
        let air = heap.allocate(16 * MIB, 16).unwrap();
        fill(air, 16 * MIB, round);
        heap.free(air as usize).unwrap();
        check(block, (40 + round as usize) * PAGE, round << 32);
        heap.free(block as usize).unwrap();
    }
    heap.check().unwrap();
}
