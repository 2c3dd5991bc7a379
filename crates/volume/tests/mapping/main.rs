//! Files as memory: what is stored is there, with less RAM than data, from many threads, through several mappings, after a crash.

mod alone;
mod cuts;
mod eviction;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aquifer_device::MemoryDevice;
use aquifer_volume::medium::DeviceMedium;
use aquifer_volume::{Depth, Ino, Kind, Mapping, OpenOptions, PAGE_BYTES, Protection, Volume};

const RAM_BYTES: u64 = 4 << 20;

struct Rig {
    device: Arc<MemoryDevice>,
}

impl Rig {
    fn new() -> Self {
        let rig = Rig { device: Arc::new(MemoryDevice::new(96 << 20, 4096)) };
        Volume::create(rig.medium(), (0, 0)).expect("create");
        rig
    }

    fn medium(&self) -> Box<DeviceMedium<Arc<MemoryDevice>>> {
        Box::new(DeviceMedium::new(Arc::clone(&self.device), 256).expect("medium"))
    }

    fn open(&self) -> Arc<Volume> {
        let options = OpenOptions { ram_bytes: RAM_BYTES, is_read_only: false };
        Arc::new(Volume::open(self.medium(), options).expect("open"))
    }
}

fn make(volume: &Volume, name: &str, size_bytes: u64) -> Ino {
    let ino = volume.make(Ino::ROOT_FOLDER, name.as_bytes(), Kind::File, 0o600, 0, 0).expect("make");
    volume.truncate(ino, size_bytes).expect("truncate");
    ino
}

/// The words of a mapping.
fn words(mapping: &Mapping) -> &[AtomicU64] {
    // SAFETY: the range is mapped for as long as the mapping lives, and is only used through atomics.
    unsafe { std::slice::from_raw_parts(mapping.as_ptr().cast(), mapping.len() / 8) }
}

fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^ x >> 27
}

fn check(volume: &Volume) {
    let findings = volume.check(Depth::Contents, |_, _| ()).expect("check");
    assert!(findings.problems.is_empty(), "{:#?}", findings.problems);
}

#[test]
fn ten_times_the_ram_from_many_threads_and_after_an_opening() {
    const WORDS: u64 = 40 << 20 >> 3;
    const THREADS: u64 = 8;
    const STEPS: u64 = 30_000;
    let rig = Rig::new();
    let volume = rig.open();
    let _background = volume.start_background(Duration::from_millis(20)).expect("background");
    let ino = make(&volume, "file", WORDS * 8);
    let mapping = volume.map(ino, 0, WORDS as usize * 8, Protection::Write).expect("map");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (volume, words) = (&volume, words(&mapping));
            scope.spawn(move || {
                for step in 0..STEPS {
                    let slot = mix(step << 8 | thread) % (WORDS / THREADS) * THREADS + thread;
                    words[slot as usize].fetch_add(slot + 1, Ordering::Relaxed);
                    if step % 10_000 == 0 {
                        volume.sync().expect("sync");
                    }
                }
            });
        }
    });
    let expected = |thread: u64| {
        let mut counts = std::collections::HashMap::new();
        for step in 0..STEPS {
            *counts.entry(mix(step << 8 | thread) % (WORDS / THREADS) * THREADS + thread).or_insert(0u64) +=
                1;
        }
        counts
    };
    let verify = |words: &[AtomicU64]| {
        for thread in 0..THREADS {
            for (slot, count) in expected(thread) {
                assert_eq!(words[slot as usize].load(Ordering::Relaxed), count * (slot + 1), "word {slot}");
            }
        }
    };
    verify(words(&mapping));
    volume.sync().expect("sync");
    drop(mapping);
    check(&volume);
    drop(volume);
    let volume = rig.open();
    let mapping = volume.map(ino, 0, WORDS as usize * 8, Protection::Read).expect("map");
    verify(words(&mapping));
}

#[test]
fn mappings_reads_and_writes_see_one_file() {
    let rig = Rig::new();
    let volume = rig.open();
    let ino = make(&volume, "file", 10 * PAGE_BYTES as u64);
    volume.write(ino, 100, b"before").expect("write");
    let whole = volume.map(ino, 0, 10 * PAGE_BYTES, Protection::Write).expect("map");
    let part = volume.map(ino, PAGE_BYTES as u64, 2 * PAGE_BYTES, Protection::Read).expect("map");
    // SAFETY: the ranges are mapped until the mappings are dropped below.
    let at = |mapping: &Mapping, offset: usize| unsafe { mapping.as_ptr().add(offset) };
    // SAFETY: as above; nobody else uses them meanwhile.
    unsafe {
        assert_eq!(at(&whole, 101).read(), b'e');
        at(&whole, PAGE_BYTES + 7).write(42);
        assert_eq!(at(&part, 7).read(), 42);
        volume.write(ino, PAGE_BYTES as u64 + 8, &[43]).expect("write");
        assert_eq!((at(&part, 8).read(), at(&whole, PAGE_BYTES + 8).read()), (43, 43));
    }
    let mut bytes = [0; 2];
    assert_eq!(volume.read(ino, PAGE_BYTES as u64 + 7, &mut bytes).expect("read"), 2);
    assert_eq!(bytes, [42, 43]);
    volume.sync().expect("sync");
    // SAFETY: as above.
    unsafe { at(&whole, PAGE_BYTES + 7).write(44) };
    assert_eq!(volume.read(ino, PAGE_BYTES as u64 + 7, &mut bytes).expect("read"), 2);
    assert_eq!(bytes, [44, 43], "a store after a sync");
    check(&volume);
}

#[test]
fn a_private_mapping_keeps_its_stores_to_itself() {
    let rig = Rig::new();
    let volume = rig.open();
    let ino = make(&volume, "file", 2000 * PAGE_BYTES as u64);
    volume.write(ino, 0, b"shared").expect("write");
    volume.sync().expect("sync");
    let private = volume.map(ino, 0, 2000 * PAGE_BYTES, Protection::CopyOnWrite).expect("map");
    for page in 0..2000 {
        // SAFETY: the range is mapped, and nobody else uses it.
        unsafe {
            let at = private.as_ptr().add(page * PAGE_BYTES + 1);
            assert_eq!(at.read(), if page == 0 { b'h' } else { 0 });
            at.write(page as u8);
        }
    }
    for page in 0..2000 {
        // SAFETY: as above.
        assert_eq!(unsafe { private.as_ptr().add(page * PAGE_BYTES + 1).read() }, page as u8);
    }
    let mut bytes = [0; 6];
    volume.read(ino, 0, &mut bytes).expect("read");
    assert_eq!(&bytes, b"shared");
    assert_eq!(volume.inode(ino).expect("inode").pages, 1);
}

#[test]
fn what_was_synced_survives_and_holes_cost_nothing() {
    let rig = Rig::new();
    let volume = rig.open();
    let ino = make(&volume, "sparse", 1 << 40);
    let mapping = volume.map(ino, (1 << 40) - (1 << 21), 1 << 21, Protection::Write).expect("map");
    words(&mapping)[1000].store(77, Ordering::Relaxed);
    volume.sync().expect("sync");
    words(&mapping)[1001].store(78, Ordering::Relaxed);
    assert_eq!(volume.inode(ino).expect("inode").pages, 1);
    drop(mapping);
    // Not closed: as after a crash.
    drop(volume);
    let volume = rig.open();
    let mapping = volume.map(ino, (1 << 40) - (1 << 21), 1 << 21, Protection::Read).expect("map");
    assert_eq!(words(&mapping)[1000].load(Ordering::Relaxed), 77);
    assert_eq!(words(&mapping)[1001].load(Ordering::Relaxed), 0, "was never synced");
    check(&volume);
}

#[test]
fn a_file_that_is_cut_and_grows_again_is_zeros_there() {
    let rig = Rig::new();
    let volume = rig.open();
    let ino = make(&volume, "file", 3 * PAGE_BYTES as u64);
    let mapping = volume.map(ino, 0, 3 * PAGE_BYTES, Protection::Write).expect("map");
    for word in words(&mapping) {
        word.store(u64::MAX, Ordering::Relaxed);
    }
    volume.truncate(ino, 4104).expect("cut");
    // Behind the end, in the last page: memory, and not the file's.
    words(&mapping)[600].store(5, Ordering::Relaxed);
    volume.truncate(ino, 3 * PAGE_BYTES as u64).expect("grow");
    let nonzero = words(&mapping).iter().filter(|word| word.load(Ordering::Relaxed) != 0).count();
    assert_eq!(nonzero, 513);
    volume.sync().expect("sync");
    check(&volume);
}
