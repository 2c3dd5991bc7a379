//! Room, and none.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;

use crate::ground::{Mount, cannot_mount, fails, folder, is_root, skipped};

/// Of the file systems that are filled.
const SMALL_BYTES: u64 = 32 << 20;

pub fn is_told(at: &Path) {
    let space = statvfs(at).expect("it is told");
    assert_eq!(space.f_namemax, 255);
    assert!(space.f_bavail <= space.f_bfree && space.f_bfree < space.f_blocks);
    assert!(space.f_frsize >= 512);
}

/// Fills a file system of [`SMALL_BYTES`] to its end, twice: what is removed is free again, and what was written is not lost.
fn filled(at: &Path) {
    let kept = vec![0x5a; 1 << 20];
    fs::write(at.join("kept"), &kept).expect("there is room");
    let mut fitted = Vec::new();
    for round in 0..3u8 {
        let mut file = File::create(at.join("filling")).expect("it is made");
        let (mut written, piece) = (0, vec![round; 64 << 10]);
        let error = loop {
            match file.write(&piece) {
                Ok(bytes) => written += bytes as u64,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
        assert!((SMALL_BYTES / 2..SMALL_BYTES).contains(&written), "{written}");
        file.sync_all().expect("what was written is kept");
        assert_eq!(fs::metadata(at.join("filling")).expect("it is there").len(), written);
        assert!(fs::read(at.join("filling")).expect("it reads").iter().all(|&byte| byte == round));
        let space = statvfs(at).expect("it is told");
        assert!(
            space.f_bavail * space.f_frsize < 1 << 20,
            "{} bytes are free",
            space.f_bavail * space.f_frsize
        );
        fs::remove_file(at.join("filling")).expect("it goes");
        fitted.push(written);
        drop(file);
        fs::write(at.join("more"), vec![1; 4 << 20]).expect("there is room again");
        fs::remove_file(at.join("more")).expect("it goes");
    }
    assert!(fitted.iter().all(|&bytes| bytes * 10 > fitted[0] * 9), "{fitted:?}");
    assert!(fs::read(at.join("kept")).expect("it is there") == kept);
}

/// Room that is reserved stays, until the file is cut or goes.
fn reserved(at: &Path) {
    let file = File::create(at.join("reserved")).expect("it is made");
    let allocate = |flags, len| fallocate(&file, flags, 0, len);
    allocate(FallocateFlags::empty(), 4 << 20).expect("there is room");
    allocate(FallocateFlags::KEEP_SIZE, 8 << 20).expect("there is room");
    assert_eq!(file.metadata().expect("it is there").len(), 4 << 20);
    fails(allocate(FallocateFlags::KEEP_SIZE, 2 * SMALL_BYTES), Errno::NOSPC);
    fails(allocate(FallocateFlags::COLLAPSE_RANGE, 4096), Errno::OPNOTSUPP);
    let mut filling = File::create(at.join("filling")).expect("it is made");
    let piece = vec![3; 64 << 10];
    while filling.write(&piece).is_ok() {}
    for offset in (0..8 << 20).step_by(piece.len()) {
        file.write_all_at(&piece, offset).expect("it has its room");
    }
    file.sync_all().expect("it syncs");
    assert_eq!(file.metadata().expect("it is there").len(), 8 << 20);
}

/// One file can have all the room that is told, with what the file system needs to find it.
fn had_by_one_file(at: &Path) {
    let file = File::create(at.join("all")).expect("it is made");
    file.sync_all().expect("it syncs");
    let space = statvfs(at).expect("it is told");
    let told = space.f_bavail * space.f_frsize;
    assert!(told > SMALL_BYTES / 2, "{told} bytes are free");
    fallocate(&file, FallocateFlags::empty(), 0, told).expect("what is told is there");
}

/// Runs a check on a small tmpfs.
fn native(test: &str, check: fn(&Path)) {
    if !is_root() {
        return skipped(test, "only root can mount a tmpfs");
    }
    let at = folder();
    let size = format!("size={SMALL_BYTES}");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at.path()).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return skipped(test, "a tmpfs could not be mounted");
    }
    let outcome = std::panic::catch_unwind(|| check(at.path()));
    assert!(Command::new("umount").arg(at.path()).status().expect("it runs").success());
    outcome.expect("the check holds");
}

/// Runs a check on a small volume.
fn mounted(test: &str, check: fn(&Path)) {
    if let Some(reason) = cannot_mount() {
        return skipped(test, &reason);
    }
    let mount = Mount::new(SMALL_BYTES);
    check(&mount.folder);
    mount.end();
}

/// What a removed file had is there for the next one, and told, at once.
#[test]
fn what_was_removed_is_there_at_once() {
    if let Some(reason) = cannot_mount() {
        return skipped("what_was_removed_is_there_at_once", &reason);
    }
    let mount = Mount::new(64 << 20);
    let at = &mount.folder;
    let free = || statvfs(at).map(|space| space.f_bavail * space.f_frsize).expect("it is told");
    let (all, piece) = (free(), vec![1; 1 << 20]);
    for round in 0..40 {
        let mut file = File::create(at.join("filling")).expect("it is made");
        while file.write(&piece).is_ok_and(|written| written > 0) {}
        drop(file);
        fs::remove_file(at.join("filling")).expect("it goes");
        if round % 2 == 0 {
            let told = free();
            assert!(told > all / 100 * 95, "round {round}: {told} of {all} bytes are free");
        }
        let written = fs::write(at.join("next"), vec![2; 30 << 20]);
        written.unwrap_or_else(|error| panic!("round {round}: {error}"));
        fs::remove_file(at.join("next")).expect("it goes");
    }
    mount.end();
}

/// A file without a name that is open keeps its room; who needs that waits long for it only once.
#[test]
fn what_is_open_still_is_not_waited_for_again_and_again() {
    if let Some(reason) = cannot_mount() {
        return skipped("what_is_open_still_is_not_waited_for_again_and_again", &reason);
    }
    let mount = Mount::new(SMALL_BYTES);
    let at = &mount.folder;
    let mut open = File::create(at.join("open")).expect("it is made");
    fs::remove_file(at.join("open")).expect("it goes");
    let piece = vec![1; 1 << 20];
    while open.write(&piece).is_ok_and(|written| written > 0) {}
    for _ in 0..100 {
        fails(open.write(&piece), Errno::NOSPC);
    }
    drop(open);
    fs::write(at.join("next"), &piece).expect("there is room");
    mount.end();
}

#[test]
fn native_is_filled() {
    native("native_is_filled", filled);
}

#[test]
fn mounted_is_filled() {
    mounted("mounted_is_filled", filled);
}

#[test]
fn native_is_had_by_one_file() {
    native("native_is_had_by_one_file", had_by_one_file);
}

#[test]
fn mounted_is_had_by_one_file() {
    mounted("mounted_is_had_by_one_file", had_by_one_file);
}

#[test]
fn native_keeps_reserved_room() {
    native("native_keeps_reserved_room", reserved);
}

#[test]
fn mounted_keeps_reserved_room() {
    mounted("mounted_keeps_reserved_room", reserved);
}
