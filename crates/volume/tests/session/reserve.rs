//! Room that is reserved.

use std::sync::Arc;

use aquifer_device::MemoryDevice;
use aquifer_volume::medium::DeviceMedium;
use aquifer_volume::{Ino, Kind, OpenOptions, Volume, VolumeError};

use super::{check, volume};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;

fn make(volume: &Volume, name: &[u8]) -> Ino {
    volume.make(Ino::ROOT_FOLDER, name, Kind::File, 0o644, 0, 0).expect("made")
}

/// Writes until there is no room.
fn fill(volume: &Volume, name: &[u8]) {
    let (ino, bytes, mut at) = (make(volume, name), vec![7; 1 << 16], 0);
    loop {
        match volume.write(ino, at, &bytes) {
            Ok(written) => at += written as u64,
            Err(error) => break assert_eq!(error, VolumeError::NoSpace),
        }
    }
}

fn has(volume: &Volume, ino: Ino, offset: u64, len: u64, byte: u8) -> bool {
    let mut bytes = vec![!byte; len as usize];
    volume.read(ino, offset, &mut bytes) == Ok(len as usize) && bytes.iter().all(|&found| found == byte)
}

#[test]
fn what_is_reserved_can_be_written_on_a_full_volume() {
    let volume = volume();
    let (grown, kept) = (make(&volume, b"grown"), make(&volume, b"kept"));
    volume.write(grown, 100, b"bytes").expect("room");
    volume.reserve(grown, 0..4 * MIB, false).expect("room");
    volume.reserve(kept, 0..4 * MIB, true).expect("room");
    assert_eq!(volume.inode(grown).map(|inode| (inode.size_bytes, inode.pages)), Ok((4 * MIB, 1024)));
    assert_eq!(volume.inode(kept).map(|inode| (inode.size_bytes, inode.pages)), Ok((0, 1024)));
    let mut bytes = [0; 5];
    volume.read(grown, 100, &mut bytes).expect("it reads");
    assert_eq!(&bytes, b"bytes");
    fill(&volume, b"filling");
    for ino in [grown, kept] {
        for at in (0..4 * MIB).step_by(1 << 16) {
            assert_eq!(volume.write(ino, at, &[9; 1 << 16]), Ok(1 << 16), "{ino} at {at}");
        }
        assert!(has(&volume, ino, 0, 4 * MIB, 9));
    }
    volume.sync().expect("it syncs");
    check(&volume);
}

#[test]
fn without_room_nothing_is_reserved() {
    let volume = volume();
    let ino = make(&volume, b"file");
    for keeps_size in [false, true] {
        assert_eq!(volume.reserve(ino, 0..64 * MIB, keeps_size), Err(VolumeError::NoSpace));
        assert_eq!(volume.reserve(ino, 0..(1 << 44) - PAGE, keeps_size), Err(VolumeError::NoSpace));
        assert_eq!(volume.inode(ino).map(|inode| (inode.size_bytes, inode.pages)), Ok((0, 0)));
    }
    assert_eq!(volume.reserve(ino, 0..(1 << 44) + 1, false), Err(VolumeError::TooLarge));
    fill(&volume, b"filling");
    assert_eq!(volume.reserve(ino, 0..MIB, false), Err(VolumeError::NoSpace));
    volume.unlink(Ino::ROOT_FOLDER, b"filling").expect("it goes");
    volume.reserve(ino, 0..16 * MIB, false).expect("its room is there at once");
    check(&volume);
}

/// Room behind the end goes with cuts, holes and the file; a volume that is opened again knows it.
#[test]
fn what_lies_behind_the_end_is_freed() {
    let device = Arc::new(MemoryDevice::new(32 << 20, 4096));
    let medium = || Box::new(DeviceMedium::new(Arc::clone(&device), 64).expect("a medium"));
    Volume::create(medium(), (0, 0)).expect("created");
    let volume = Volume::open(medium(), OpenOptions::default()).expect("opened");
    let pages = |volume: &Volume, ino| volume.inode(ino).expect("there").pages;
    let ino = make(&volume, b"file");
    volume.write(ino, 0, &[1; 5000]).expect("room");
    volume.reserve(ino, 0..100 * PAGE, true).expect("room");
    assert_eq!(pages(&volume, ino), 100);
    volume.punch(ino, 10 * PAGE + 1, 20 * PAGE).expect("a hole behind the end");
    assert_eq!(pages(&volume, ino), 81);
    volume.punch(ino, PAGE, PAGE).expect("a hole at the end");
    assert_eq!(pages(&volume, ino), 80);
    check(&volume);
    volume.close().expect("closed");
    let volume = Volume::open(medium(), OpenOptions::default()).expect("opened");
    check(&volume);
    volume.truncate(ino, 12 * PAGE).expect("it grows");
    assert!(has(&volume, ino, 2 * PAGE, 10 * PAGE, 0));
    assert_eq!(pages(&volume, ino), 80);
    volume.truncate(ino, 5 * PAGE).expect("it is cut");
    assert_eq!(pages(&volume, ino), 4);
    volume.reserve(ino, 0..100 * PAGE, true).expect("room");
    volume.unlink(Ino::ROOT_FOLDER, b"file").expect("it goes");
    volume.sync().expect("it syncs");
    check(&volume);
}

#[test]
fn zeroed_ranges_keep_their_room() {
    let volume = volume();
    let ino = make(&volume, b"file");
    volume.write(ino, 0, &[7; 40_000]).expect("room");
    volume.zero_and_reserve(ino, 5000..20_000, true).expect("zeroed");
    assert!(has(&volume, ino, 0, 5000, 7) && has(&volume, ino, 5000, 15_000, 0));
    assert!(has(&volume, ino, 20_000, 20_000, 7));
    assert_eq!(volume.inode(ino).map(|inode| (inode.size_bytes, inode.pages)), Ok((40_000, 10)));
    volume.zero_and_reserve(ino, 39_000..100_000, false).expect("zeroed");
    assert!(has(&volume, ino, 20_000, 19_000, 7) && has(&volume, ino, 39_000, 61_000, 0));
    assert_eq!(volume.inode(ino).map(|inode| (inode.size_bytes, inode.pages)), Ok((100_000, 25)));
    check(&volume);
}
