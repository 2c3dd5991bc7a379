//! Mounts whose kernel writes back: what it brings late is right, and what there is no room for is told.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::{Duration, SystemTime};

use crate::ground::{Mount, VOLUME_BYTES, cannot_mount, skipped};

fn mount(test: &str, size_bytes: u64) -> Option<Mount> {
    if let Some(reason) = cannot_mount() {
        skipped(test, &reason);
        return None;
    }
    let mut mount = Mount::unmounted(size_bytes);
    mount.start(&["--write-back"]);
    Some(mount)
}

/// A program that writes on and never syncs is told that there is no room; it loses no file but that.
#[test]
fn a_full_volume_ends_who_writes_on() {
    const SIZE_BYTES: u64 = 32 << 20;
    let Some(mount) = mount("a_full_volume_ends_who_writes_on", SIZE_BYTES) else { return };
    let at = &mount.folder;
    fs::write(at.join("kept"), vec![7; 1 << 20]).expect("there is room");
    for _ in 0..3 {
        let mut file = File::create(at.join("filling")).expect("it is made");
        let error = (0..40_000).find_map(|_| file.write(&[1; 64 << 10]).err()).expect("there is an end");
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
        assert_eq!(file.sync_all().map_err(|error| error.kind()), Err(ErrorKind::StorageFull));
        drop(file);
        fs::remove_file(at.join("filling")).expect("it goes");
        let next = File::create(at.join("next")).expect("it is made");
        next.write_all_at(&[2; 4 << 20], 0).and_then(|()| next.sync_all()).expect("there is room again");
        fs::remove_file(at.join("next")).expect("it goes");
    }
    assert_eq!(fs::read(at.join("kept")).expect("it is there"), vec![7; 1 << 20]);
    mount.end();
}

/// Sizes and times are the kernel's until it says them: the volume has them after a sync and a crash, and after unmounting.
#[test]
fn sizes_and_times_reach_the_volume() {
    let Some(mut mount) = mount("sizes_and_times_reach_the_volume", VOLUME_BYTES) else { return };
    let long_ago = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    let make = |mount: &Mount, name: &str| {
        let mut file = File::create_new(mount.folder.join(name)).expect("it is made");
        for number in 0..1000 {
            writeln!(file, "{number}").expect("it is written");
        }
        file.set_modified(long_ago).expect("it is set");
        file
    };
    let of = |mount: &Mount, name: &str| {
        let of = fs::metadata(mount.folder.join(name)).expect("it is there");
        (of.len(), of.modified().expect("it is told"), (of.ctime(), of.ctime_nsec()))
    };
    let file = make(&mount, "synced");
    file.sync_all().expect("it syncs");
    let said = of(&mount, "synced");
    assert_eq!((said.0, said.1), (3890, long_ago));
    mount.crash();
    mount.start(&["--write-back"]);
    assert_eq!(of(&mount, "synced"), said);
    drop(make(&mount, "closed"));
    let appended = File::options().append(true).open(mount.folder.join("synced")).expect("it opens");
    (&appended).write_all(b"more").expect("it is written");
    let said = [of(&mount, "synced"), of(&mount, "closed")];
    assert_eq!(said[0].0, 3894);
    drop(appended);
    mount.stop();
    mount.start(&[]);
    assert_eq!([of(&mount, "synced"), of(&mount, "closed")], said);
    assert!(fs::read(mount.folder.join("synced")).expect("it is there").ends_with(b"999\nmore"));
    mount.end();
}
