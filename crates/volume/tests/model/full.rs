//! A volume that is full, and then is not.

use std::sync::Arc;

use aquifer_device::MemoryDevice;
use aquifer_volume::medium::DeviceMedium;
use aquifer_volume::{Ino, Kind, OpenOptions, PAGE_BYTES, Volume, VolumeError};

use crate::model::Dice;
use crate::{check, open};

#[test]
fn removing_makes_room_again_and_again() {
    let device = Arc::new(MemoryDevice::new(8 << 20, 4096));
    let medium = || Box::new(DeviceMedium::new(Arc::clone(&device), 32).expect("medium"));
    Volume::create(medium(), (0, 0)).expect("create");
    let volume = open(medium());
    let space = volume.space().expect("space");
    let mut written_before = None;
    for round in 0..8u8 {
        let mut names = Vec::new();
        let mut written = 0;
        let outcome = loop {
            let name = format!("file {}", names.len());
            let ino = match volume.make(Ino::ROOT_FOLDER, name.as_bytes(), Kind::File, 0o600, 0, 0) {
                Ok(ino) => ino,
                Err(error) => break error,
            };
            names.push(name);
            match volume.write(ino, 0, &[round; 100_000]) {
                Ok(100_000) => written += 100_000,
                Ok(part) => written += part,
                Err(error) => break error,
            }
            assert!(names.len() < 1000, "it is never full");
        };
        assert_eq!(outcome, VolumeError::NoSpace);
        assert!(written as u64 > space.capacity_bytes * 8 / 10, "{written} of {}", space.capacity_bytes);
        assert!(
            written_before.is_none_or(|before: usize| written >= before / 100 * 98),
            "{written_before:?}, then {written}"
        );
        written_before.get_or_insert(written);
        volume.sync().expect("a full volume can be synced");
        check(&volume);
        for name in names {
            volume.unlink(Ino::ROOT_FOLDER, name.as_bytes()).expect("a full volume lets files go");
        }
        if round % 2 == 0 {
            volume.sync().expect("sync");
        }
    }
    volume.close().expect("close");
    check(&open(medium()));
}

/// A fifth of a page changed in each of many pages, again and again: what changed takes as much room as is counted for it, so cleaning comes to an end.
#[test]
fn long_changes_of_an_almost_full_volume_come_to_an_end() {
    for percent in [70, 80, 88, 95] {
        let device = Arc::new(MemoryDevice::new(24 << 20, PAGE_BYTES));
        let medium = || Box::new(DeviceMedium::new(Arc::clone(&device), 64).expect("a medium"));
        Volume::create(medium(), (0, 0)).expect("create");
        let volume = open(medium());
        let space = volume.space().expect("space");
        let free = space.capacity_bytes - space.kept_bytes - space.used_bytes;
        let pages = free / 100 * percent / PAGE_BYTES as u64;
        let ino = volume.make(Ino::ROOT_FOLDER, b"file", Kind::File, 0o600, 0, 0).expect("room");
        let bytes = |page: u64, round: u64| -> Vec<u8> {
            let mut dice = Dice::new(page << 8 | round);
            (0..1000).map(|_| dice.below(256) as u8).collect()
        };
        for page in 0..pages {
            let whole = bytes(page, 0).repeat(5);
            let start = page * PAGE_BYTES as u64;
            assert_eq!(volume.write(ino, start, &whole[..PAGE_BYTES]), Ok(PAGE_BYTES), "{percent} %");
        }
        volume.sync().expect("sync");
        for round in 1..4 {
            for page in 0..pages {
                let start = page * PAGE_BYTES as u64 + 300;
                let written = volume.write(ino, start, &bytes(page, round));
                assert_eq!(written, Ok(1000), "{percent} %, round {round}, page {page}");
                if page % 200 == 0 {
                    volume.sync().unwrap_or_else(|error| panic!("{percent} %, round {round}: {error}"));
                }
            }
        }
        volume.sync().expect("sync");
        let mut found = [0; 1000];
        for page in 0..pages {
            volume.read(ino, page * PAGE_BYTES as u64 + 300, &mut found).expect("read");
            assert_eq!(found[..], bytes(page, 3)[..], "{percent} %, page {page}");
        }
        check(&volume);
        // It can be emptied.
        volume.unlink(Ino::ROOT_FOLDER, b"file").expect("removed");
        volume.sync().expect("sync");
        check(&volume);
        volume.close().expect("closed");
    }
}

/// Bytes that have their room can be overwritten, also while the RAM could hold more changes than the log has room for.
#[test]
fn bytes_of_a_full_volume_are_overwritten() {
    const PIECE: usize = 1 << 16;
    let device = Arc::new(MemoryDevice::new(32 << 20, PAGE_BYTES));
    let medium = || Box::new(DeviceMedium::new(Arc::clone(&device), 64).expect("a medium"));
    Volume::create(medium(), (0, 0)).expect("create");
    let volume = Volume::open(medium(), OpenOptions::default()).expect("open");
    let ino = volume.make(Ino::ROOT_FOLDER, b"file", Kind::File, 0o600, 0, 0).expect("room");
    let mut size = 0;
    while let Ok(written) = volume.write(ino, size, &[7; PIECE]) {
        size += written as u64;
    }
    for round in 8..11 {
        for at in (0..size / PIECE as u64).map(|piece| piece * PIECE as u64) {
            assert_eq!(volume.write(ino, at, &[round; PIECE]), Ok(PIECE), "round {round}, {at} of {size}");
        }
    }
    volume.sync().expect("sync");
    check(&volume);
}

/// Room of a file that was removed or cut is told without a sync, and taken by the next one.
#[test]
fn room_is_told_as_it_is() {
    let device = Arc::new(MemoryDevice::new(16 << 20, PAGE_BYTES));
    let medium = || Box::new(DeviceMedium::new(Arc::clone(&device), 64).expect("a medium"));
    Volume::create(medium(), (0, 0)).expect("create");
    let volume = open(medium());
    let used = || volume.space().expect("space").used_bytes;
    let empty = used();
    for name in [&b"a"[..], b"b"] {
        let ino = volume.make(Ino::ROOT_FOLDER, name, Kind::File, 0o600, 0, 0).expect("room");
        volume.write(ino, 0, &vec![1; 6 << 20]).expect("room");
        volume.sync().expect("sync");
        assert!(used() >= empty + (6 << 20));
        volume.truncate(ino, 3 << 20).expect("cut");
        assert!(used() < empty + (4 << 20), "{} bytes are used", used());
        volume.unlink(Ino::ROOT_FOLDER, name).expect("removed");
        assert!(used() < empty + (1 << 20), "{} bytes are used", used());
    }
    check(&volume);
}
