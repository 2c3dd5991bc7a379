//! A program whose large blocks exceed its RAM, by nothing but its allocator.

mod common;

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};

use aquifer::{Global, Options};
use common::{Rng, Watchdog};

#[global_allocator]
static GLOBAL: Global = Global::new();

const RAM: u64 = 24 << 20;

/// The only test here: it is about the whole process.
#[test]
fn a_program_exceeds_its_ram() {
    let _watchdog = Watchdog::new("the allocator asks itself");
    // A block from before, which grows later.
    let mut before: Vec<u64> = (0..20_000).collect();
    GLOBAL.open(Options::new().ram_bytes(RAM).flash_bytes(512 << 20)).unwrap();
    assert!(GLOBAL.open(Options::new()).is_err());
    assert!(GLOBAL.stats().is_none());

    let mut numbers: Vec<u64> = Vec::new();
    numbers.extend(0..10_000_000);
    before.extend(20_000..200_000);
    assert!(before.iter().zip(0..).all(|(&number, n)| number == n));
    let stats = GLOBAL.stats().expect("76 MiB are more than 24");
    assert!(stats.ram_used_bytes <= RAM, "{stats:?}");
    assert!(GLOBAL.block_bytes() >= 76 << 20);

    let zeros = vec![0u8; 30 << 20];
    assert!(zeros.iter().all(|&byte| byte == 0));
    let mut table: HashMap<u64, u64> = HashMap::new();
    table.extend(numbers.iter().step_by(25).map(|&n| (n, n * 3)));
    let mut rng = Rng::new(7);
    let picks: Vec<u64> = (0..5_000).map(|_| rng.below(400_000) as u64 * 25).collect();
    assert!(picks.iter().all(|n| table[n] == n * 3 && numbers[*n as usize] == *n));

    threads_have_blocks();
    files_are_read_into_blocks();
    a_child_sees_what_its_parent_had(&numbers);

    // More than flash: refused, and all is there.
    assert!(Vec::<u8>::new().try_reserve(4 << 30).is_err());
    numbers.shrink_to(1_000_000);
    numbers.truncate(1_000_000);
    numbers.shrink_to_fit();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    assert!(numbers.iter().rev().zip(0..).all(|(&number, n)| number == n));
    drop((numbers, zeros, table, before));
    assert!(GLOBAL.block_bytes() < 2 << 20, "{}", GLOBAL.block_bytes());
}

fn threads_have_blocks() {
    std::thread::scope(|scope| {
        for seed in 0..4u8 {
            scope.spawn(move || {
                let mut blocks: Vec<Vec<u8>> = Vec::new();
                let mut rng = Rng::new(u64::from(seed));
                for n in 0..300 {
                    let bytes = 1 + rng.below(200 << 10);
                    let mut block = vec![seed; bytes / 2 + 1];
                    block.resize(bytes, seed ^ 0x55);
                    blocks.push(block);
                    if n % 3 == 0 {
                        let gone = blocks.swap_remove(rng.below(blocks.len()));
                        assert!(gone.iter().all(|&byte| byte == seed || byte == seed ^ 0x55));
                    }
                }
            });
        }
    });
}

fn files_are_read_into_blocks() {
    let mut file = tempfile::tempfile().unwrap();
    let written: Vec<u8> = (0..40 << 20).map(|n: u32| (n / 4096) as u8).collect();
    // Absent pages are given to system calls where a thread may resolve their faults.
    if aquifer::Faults::of_calls_too() != aquifer::Faults::Thread {
        return;
    }
    file.write_all(&written).unwrap();
    let mut path =
        fs::File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file))).unwrap();
    let mut read = Vec::new();
    path.read_to_end(&mut read).unwrap();
    assert!(read == written);
}

fn a_child_sees_what_its_parent_had(numbers: &[u64]) {
    // SAFETY: the child touches memory, allocates as this allocator does, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let copy: Vec<u64> = numbers.iter().copied().step_by(10).collect();
        let fits = copy.iter().zip(0..).all(|(&number, n)| number == n * 10);
        drop(copy);
        // SAFETY: ends the child without what the test's threads had to do.
        unsafe { libc::_exit(i32::from(!fits)) };
    }
    let mut status = 0;
    // SAFETY: our child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child ended with {status:#x}");
}
