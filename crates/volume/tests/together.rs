//! Atomic writes to several places.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use aquifer_device::{AlignedBuffer, Device, MemoryDevice};
use aquifer_volume::medium::DeviceMedium;
use aquifer_volume::{Attributes, Depth, Ino, Kind, OpenOptions, PAGE_BYTES, Volume, VolumeError};

fn open(device: &Arc<MemoryDevice>) -> Volume {
    let medium = Box::new(DeviceMedium::new(Arc::clone(device), 32).expect("medium"));
    Volume::open(medium, OpenOptions { ram_bytes: 1 << 20, is_read_only: false }).expect("open")
}

fn new_volume(len_bytes: u64) -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(len_bytes, 4096));
    let medium = DeviceMedium::new(Arc::clone(&device), 32).expect("medium");
    Volume::create(Box::new(medium), (0, 0)).expect("create");
    device
}

fn make(volume: &Volume, name: &[u8]) -> Ino {
    volume.make(Ino::ROOT_FOLDER, name, Kind::File, 0o644, 0, 0).expect("make")
}

fn check(volume: &Volume) {
    let findings = volume.check(Depth::Contents, |_, _| ()).expect("check");
    assert!(findings.problems.is_empty(), "{:#?}", findings.problems);
}

/// Places of a file, some of them across two pages.
const PLACES: u64 = 24;
const STEP_BYTES: u64 = 3 * PAGE_BYTES as u64 - 700;

fn write_round(volume: &Volume, ino: Ino, round: u8) {
    let bytes = [round; 1500];
    let writes: Vec<(u64, &[u8])> = (0..PLACES).map(|place| (place * STEP_BYTES, &bytes[..])).collect();
    volume.write_together(ino, &writes).expect("write");
}

fn round_of(volume: &Volume, ino: Ino) -> u8 {
    let mut rounds = (0..PLACES).map(|place| {
        let mut bytes = [0; 1500];
        assert_eq!(volume.read(ino, place * STEP_BYTES, &mut bytes).expect("read"), bytes.len());
        assert!(bytes.iter().all(|&byte| byte == bytes[0]), "place {place} is torn");
        bytes[0]
    });
    let first = rounds.next().expect("a place");
    rounds.for_each(|round| assert_eq!(round, first, "written in one moment"));
    first
}

#[test]
fn a_crash_finds_all_or_nothing() {
    let device = new_volume(16 << 20);
    let volume = open(&device);
    let ino = make(&volume, b"file");
    write_round(&volume, ino, 0);
    volume.close().expect("close");
    for _ in 0..20 {
        let volume = open(&device);
        let before = round_of(&volume, ino);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut round = before;
                while !stop.load(Ordering::Relaxed) {
                    round = round.wrapping_add(1);
                    write_round(&volume, ino, round);
                }
            });
            for _ in 0..5 {
                volume.sync().expect("sync");
            }
            stop.store(true, Ordering::Relaxed);
        });
        // What was not synced is lost here, as by a crash.
        drop(volume);
        let volume = open(&device);
        round_of(&volume, ino);
        check(&volume);
    }
}

#[test]
fn without_room_for_all_nothing_is_written() {
    let device = new_volume(4 << 20);
    let volume = open(&device);
    let (ino, filler) = (make(&volume, b"file"), make(&volume, b"filler"));
    volume.write(ino, 0, &[1; PAGE_BYTES]).expect("write");
    let mut offset = 0;
    while volume.write(filler, offset, &[2; PAGE_BYTES]).is_ok() {
        offset += PAGE_BYTES as u64;
    }
    volume.truncate(filler, offset - 4 * PAGE_BYTES as u64).expect("truncate");
    volume.sync().expect("sync");
    let before = volume.space().expect("space");

    let page = [3; PAGE_BYTES];
    let writes: Vec<(u64, &[u8])> = (0..40).map(|at| (at * PAGE_BYTES as u64, &page[..])).collect();
    assert_eq!(volume.write_together(ino, &writes), Err(VolumeError::NoSpace));
    assert_eq!(volume.inode(ino).expect("inode").size_bytes, PAGE_BYTES as u64);
    let mut bytes = [0; PAGE_BYTES];
    volume.read(ino, 0, &mut bytes).expect("read");
    assert_eq!(bytes, [1; PAGE_BYTES]);
    assert_eq!(volume.space().expect("space"), before);

    volume.write_together(ino, &writes[..3]).expect("there is room for these");
    volume.sync().expect("sync");
    assert_eq!(volume.inode(ino).expect("inode").pages, 3);
    check(&volume);
}

#[test]
fn more_than_ram_holds_is_refused() {
    let device = new_volume(16 << 20);
    let volume = open(&device);
    let ino = make(&volume, b"file");
    let page = [3; PAGE_BYTES];
    let writes: Vec<(u64, &[u8])> = (0..300).map(|at| (at * PAGE_BYTES as u64, &page[..])).collect();
    assert!(matches!(volume.write_together(ino, &writes), Err(VolumeError::Invalid(_))));
    assert_eq!(volume.inode(ino).expect("inode").size_bytes, 0);
    volume.write_together(ino, &writes[..50]).expect("write");
    check(&volume);
}

#[test]
fn zeros_over_a_page_that_is_not_in_ram_are_kept() {
    let device = new_volume(16 << 20);
    let volume = open(&device);
    let ino = make(&volume, b"file");
    volume.write(ino, 0, &[7; 2 * PAGE_BYTES]).expect("write");
    volume.close().expect("close");
    let volume = open(&device);
    volume.write(ino, 0, &[0; PAGE_BYTES]).expect("write");
    volume.sync().expect("sync");
    // What was not synced is lost here, as by a crash.
    drop(volume);
    let volume = open(&device);
    let mut bytes = [1; 2 * PAGE_BYTES];
    assert_eq!(volume.read(ino, 0, &mut bytes).expect("read"), bytes.len());
    assert!(bytes[..PAGE_BYTES].iter().all(|&byte| byte == 0), "the zeros are lost");
    assert!(bytes[PAGE_BYTES..].iter().all(|&byte| byte == 7));
    check(&volume);
}

#[test]
fn pages_that_are_read_together_are_verified() {
    const PAGES: usize = 64;
    let device = new_volume(16 << 20);
    let volume = open(&device);
    let ino = make(&volume, b"file");
    let page = |nth: usize| [nth as u8 + 1; PAGE_BYTES];
    let bytes: Vec<u8> = (0..PAGES).flat_map(page).collect();
    volume.write(ino, 0, &bytes).expect("write");
    volume.close().expect("close");
    let mut block = AlignedBuffer::new(PAGE_BYTES);
    let mut flipped = 0;
    for at in (0..device.len_bytes()).step_by(PAGE_BYTES) {
        device.read_at(at, &mut block).expect("memory");
        if block[..] == page(20) {
            block[1000] ^= 4;
            device.write_at(at, &block).expect("memory");
            flipped += 1;
        }
    }
    assert_eq!(flipped, 1);
    let volume = open(&device);
    let mut found = vec![0; bytes.len()];
    // In order, so that all of it is read ahead.
    for (nth, found) in found.chunks_exact_mut(PAGE_BYTES).enumerate() {
        let outcome = volume.read(ino, (nth * PAGE_BYTES) as u64, found);
        assert_eq!(outcome.is_err(), nth == 20, "page {nth}: {outcome:?}");
        assert!(nth == 20 || *found == page(nth), "page {nth}");
    }
    let volume = open(&device);
    assert!(matches!(volume.read(ino, 0, &mut found), Err(VolumeError::Damaged { .. })));
}

/// Rights that are changed while bytes are written stay as they were set.
#[test]
fn rights_that_change_meanwhile_stay() {
    let volume = open(&new_volume(16 << 20));
    let ino = make(&volume, b"file");
    let (is_over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let lost = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                write_round(&volume, ino, rounds.fetch_add(1, Ordering::Relaxed) as u8);
            }
        });
        let lost = (0..1000u16).find(|nth| {
            let attributes = Attributes { mode: Some(nth % 0o1000), ..Attributes::default() };
            volume.set_attributes(ino, &attributes).expect("set");
            // The write that was under way has ended.
            let begun = rounds.load(Ordering::Relaxed);
            while rounds.load(Ordering::Relaxed) < begun + 2 {
                std::thread::yield_now();
            }
            volume.inode(ino).expect("there").mode != nth % 0o1000
        });
        is_over.store(true, Ordering::Relaxed);
        lost
    });
    assert_eq!(lost, None, "a change of rights is lost");
}
