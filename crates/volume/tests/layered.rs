//! The layered stacks are files like the volume's: the same operations leave the same bytes, with less RAM than data, while flash is cleaned, and after
//! a mount.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aquifer_device::Pacing;
use aquifer_device::nand::{Geometry, Nand, NandOptions};
use aquifer_volume::layered::{Division, Image, Kind, Stack, StackOptions};
use aquifer_volume::medium::NandMedium;
use aquifer_volume::{Ino, Kind as InodeKind, OpenOptions, PAGE_BYTES, Protection, Volume};

const KINDS: [Kind; 4] = [
    Kind::Ftl { entry_bytes: 8, is_scattered: false },
    Kind::Ftl { entry_bytes: 4, is_scattered: true },
    Kind::Ftl { entry_bytes: 8, is_scattered: true },
    Kind::Combined,
];
/// Of the file; the flash has a quarter more.
const PAGES: u32 = 6400;
const RAM_BYTES: u64 = 2 << 20;

fn flash() -> Nand {
    let geometry = Geometry {
        channels: 2,
        dies_per_channel: 1,
        planes_per_die: 1,
        blocks_per_plane: 125,
        pages_per_block: 32,
        page_bytes: PAGE_BYTES as u32,
    };
    Nand::new(NandOptions::new(geometry)).expect("flash")
}

fn options(kind: Kind) -> StackOptions {
    StackOptions { ram_bytes: RAM_BYTES, kind, pacing: Pacing::Simulated }
}

fn mount(image: Image, kind: Kind) -> Arc<Stack> {
    Arc::new(Stack::mount(image, options(kind)).expect("mount"))
}

fn new_stack(kind: Kind) -> Arc<Stack> {
    mount(Image::new(flash(), PAGES, kind), kind)
}

fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^ x >> 27
}

fn page_of(seed: u64) -> [u8; PAGE_BYTES] {
    std::array::from_fn(|at| mix(seed << 12 | at as u64) as u8)
}

/// The words of mapped memory.
fn words<'a>(base: *mut u8) -> &'a [AtomicU64] {
    // SAFETY: all callers keep the mapping of `PAGES` pages for longer than the words, and use it through
    // atomics alone.
    unsafe { std::slice::from_raw_parts(base.cast(), PAGES as usize * PAGE_BYTES / 8) }
}

/// Steps of one run: whole pages written by calls, words stored into mapped memory, and syncs.
fn operate(seed: u64, words: &[AtomicU64], write: impl Fn(u32, &[u8; PAGE_BYTES]), sync: impl Fn()) -> u64 {
    let mut sum = 0u64;
    for step in 0..30_000 {
        let random = mix(seed << 32 | step);
        let page = (random >> 8) % u64::from(PAGES);
        match random % 16 {
            0..4 => write(page as u32, &page_of(random)),
            4..8 => {
                words[page as usize * 512 + (random >> 40) as usize % 512].store(random, Ordering::Relaxed)
            }
            _ => {
                let word = words[page as usize * 512 + (random >> 40) as usize % 512].load(Ordering::Relaxed);
                sum = sum.rotate_left(1) ^ word;
            }
        }
        if step % 3000 == 2999 {
            sync();
        }
    }
    sum
}

/// What the volume's file holds after it, and what was read meanwhile.
fn of_the_volume(seed: u64) -> (u64, Vec<u64>) {
    let medium = Arc::new(NandMedium::new(flash(), Pacing::Simulated).expect("medium"));
    Volume::create(Box::new(Arc::clone(&medium)), (0, 0)).expect("create");
    let open = OpenOptions { ram_bytes: RAM_BYTES, is_read_only: false };
    let volume = Arc::new(Volume::open(Box::new(medium), open).expect("open"));
    let ino = volume.make(Ino::ROOT_FOLDER, b"file", InodeKind::File, 0o600, 0, 0).expect("make");
    volume.truncate(ino, u64::from(PAGES) * PAGE_BYTES as u64).expect("truncate");
    let mapping = volume.map(ino, 0, PAGES as usize * PAGE_BYTES, Protection::Write).expect("map");
    let words = words(mapping.as_ptr());
    let write = |page: u32, bytes: &[u8; PAGE_BYTES]| {
        volume.write(ino, u64::from(page) * PAGE_BYTES as u64, bytes).expect("write");
    };
    let sum = operate(seed, words, write, || volume.sync().expect("sync"));
    (sum, words.iter().map(|word| word.load(Ordering::Relaxed)).collect())
}

#[test]
fn the_same_operations_leave_the_same_bytes_as_on_the_volume() {
    for seed in 0..2 {
        let (sum, bytes) = of_the_volume(seed);
        for kind in KINDS {
            let stack = new_stack(kind);
            let mapping = stack.map(Protection::Write).expect("map");
            let words = words(mapping.as_ptr());
            let found = operate(
                seed,
                words,
                |page, bytes| stack.write(page, bytes).expect("write"),
                || stack.sync().expect("sync"),
            );
            assert_eq!(found, sum, "{kind:?}: read meanwhile");
            let differ =
                words.iter().zip(&bytes).filter(|(word, byte)| word.load(Ordering::Relaxed) != **byte);
            assert_eq!(differ.count(), 0, "{kind:?}: words that differ");
            drop(mapping);
            let image = Arc::into_inner(stack).expect("nobody else has it").unmount().expect("unmount");
            let stack = mount(image, kind);
            let mut page = [0; PAGE_BYTES];
            for (index, words) in bytes.chunks_exact(512).enumerate() {
                stack.read(index as u32, &mut page).expect("read");
                let expected: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                assert!(page[..] == expected[..], "{kind:?}: page {index} after a mount");
            }
        }
    }
}

#[test]
fn flash_is_cleaned_while_threads_read_and_store() {
    const THREADS: u64 = 4;
    const STEPS: u64 = 6000;
    for kind in KINDS {
        let stack = new_stack(kind);
        let mapping = stack.map(Protection::Write).expect("map");
        let words = words(mapping.as_ptr());
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let stack = &stack;
                scope.spawn(move || {
                    for step in 0..STEPS {
                        let slot =
                            mix(step << 8 | thread) % (words.len() as u64 / THREADS) * THREADS + thread;
                        words[slot as usize].fetch_add(slot + 1, Ordering::Relaxed);
                        if step % 2000 == 0 {
                            stack.sync().expect("sync");
                        }
                    }
                });
            }
        });
        let mut counts = std::collections::HashMap::new();
        for thread in 0..THREADS {
            for step in 0..STEPS {
                let slot = mix(step << 8 | thread) % (words.len() as u64 / THREADS) * THREADS + thread;
                *counts.entry(slot).or_insert(0) += slot + 1;
            }
        }
        for (slot, sum) in counts {
            assert_eq!(words[slot as usize].load(Ordering::Relaxed), sum, "{kind:?}: word {slot}");
        }
    }
}

#[test]
fn tables_take_ram_from_pages_and_extents_are_as_the_layout_says() {
    let mut frames = Vec::new();
    for kind in KINDS {
        let stack = new_stack(kind);
        // In an order that is no neighbour's.
        for step in 0..PAGES {
            stack.write(step * 2671 % PAGES, &page_of(step.into())).expect("write");
        }
        stack.sync().expect("sync");
        let (extents, nodes) = stack.extents().expect("extents");
        let Division { frames: count, frame_bytes, table_bytes } = stack.division();
        assert!(count * frame_bytes + table_bytes <= RAM_BYTES);
        match kind {
            Kind::Ftl { is_scattered: false, .. } => assert!(extents < 10, "{extents} in {nodes}"),
            _ => assert!(extents > u64::from(PAGES) / 4 && nodes > 0, "{kind:?}: {extents} in {nodes}"),
        }
        frames.push(count);
    }
    assert!(frames[0] == frames[2] && frames[0] < frames[1] && frames[1] < frames[3], "{frames:?}");
}
