//! Extended attributes.

use std::sync::Arc;

use aquifer_device::MemoryDevice;
use aquifer_volume::medium::DeviceMedium;
use aquifer_volume::xattrs::{XATTR_NAME_BYTES_MAX, XATTR_VALUE_BYTES_MAX, XATTRS_BYTES_MAX};
use aquifer_volume::{Ino, Kind, OpenOptions, SetXattr, Volume, VolumeError};

use super::{check, volume};

fn file(volume: &Volume, name: &str) -> Ino {
    volume.make(Ino::ROOT_FOLDER, name.as_bytes(), Kind::File, 0o600, 0, 0).expect("made")
}

fn names(volume: &Volume, ino: Ino) -> Vec<String> {
    let all = volume.xattrs(ino).expect("read");
    all.names().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

#[test]
fn are_set_read_listed_and_removed() {
    let volume = volume();
    let one = file(&volume, "one");
    for ino in [one, Ino::ROOT_FOLDER] {
        assert_eq!(volume.xattr(ino, b"user.a"), Err(VolumeError::NoXattr));
        assert_eq!(volume.remove_xattr(ino, b"user.a"), Err(VolumeError::NoXattr));
        assert_eq!(volume.set_xattr(ino, b"user.a", b"1", SetXattr::Replace), Err(VolumeError::NoXattr));
        assert_eq!(names(&volume, ino), [""; 0]);
        volume.set_xattr(ino, b"user.a", b"1", SetXattr::Create).expect("set");
        assert_eq!(volume.set_xattr(ino, b"user.a", b"2", SetXattr::Create), Err(VolumeError::Exists));
        volume.set_xattr(ino, b"user.b", b"", SetXattr::Any).expect("set");
        volume.set_xattr(ino, b"user.a", &[7; 10_000], SetXattr::Replace).expect("set");
        assert_eq!(volume.xattr(ino, b"user.a"), Ok(vec![7; 10_000]));
        assert_eq!(volume.xattr(ino, b"user.b"), Ok(vec![]));
        assert_eq!(names(&volume, ino), ["user.a", "user.b"]);
        check(&volume);
        volume.remove_xattr(ino, b"user.a").expect("removed");
        assert_eq!(names(&volume, ino), ["user.b"]);
        check(&volume);
    }
    assert_eq!(volume.space().expect("read").files, 4);
    volume.remove_xattr(one, b"user.b").expect("removed");
    assert_eq!(volume.space().expect("read").files, 3);
    check(&volume);
}

#[test]
fn other_kinds_of_names_are_refused() {
    let volume = volume();
    let one = file(&volume, "one");
    for name in ["security.capability", "trusted.a", "system.posix_acl_access", "a", "userx", "user"] {
        let set = volume.set_xattr(one, name.as_bytes(), b"1", SetXattr::Any);
        assert_eq!(set, Err(VolumeError::XattrNotSupported), "{name}");
        assert_eq!(volume.xattr(one, name.as_bytes()), Err(VolumeError::NoXattr), "{name}");
        let removed = volume.remove_xattr(one, name.as_bytes());
        assert_eq!(removed, Err(VolumeError::XattrNotSupported), "{name}");
    }
    assert!(matches!(volume.set_xattr(one, b"user.", b"1", SetXattr::Any), Err(VolumeError::Invalid(_))));
    let link = volume.make_symlink(Ino::ROOT_FOLDER, b"link", b"one", 0, 0).expect("made");
    assert_eq!(volume.set_xattr(link, b"user.a", b"1", SetXattr::Any), Err(VolumeError::NotOwner));
    check(&volume);
}

#[test]
fn what_is_too_large_changes_nothing() {
    let volume = volume();
    let one = file(&volume, "one");
    let longest = [&b"user."[..], &[b'n'; XATTR_NAME_BYTES_MAX - 5]].concat();
    volume.set_xattr(one, &longest, &[1; XATTR_VALUE_BYTES_MAX], SetXattr::Any).expect("fits");
    let longer = [&longest[..], b"n"].concat();
    assert_eq!(volume.set_xattr(one, &longer, b"", SetXattr::Any), Err(VolumeError::XattrNameTooLong));
    let too_large = vec![2; XATTR_VALUE_BYTES_MAX + 1];
    assert_eq!(volume.set_xattr(one, b"user.b", &too_large, SetXattr::Any), Err(VolumeError::XattrsTooLarge));
    let left = XATTRS_BYTES_MAX - 8 - longest.len() - XATTR_VALUE_BYTES_MAX - 14;
    volume.set_xattr(one, b"user.b", &vec![2; left], SetXattr::Any).expect("fits");
    assert_eq!(volume.set_xattr(one, b"user.c", b"", SetXattr::Any), Err(VolumeError::XattrsTooLarge));
    assert_eq!(volume.xattr(one, &longest), Ok(vec![1; XATTR_VALUE_BYTES_MAX]));
    assert_eq!(volume.xattr(one, b"user.b"), Ok(vec![2; left]));
    check(&volume);
}

#[test]
fn go_with_the_file() {
    let volume = volume();
    let before = volume.space().expect("read").files;
    for is_held in [false, true] {
        let one = file(&volume, "one");
        volume.set_xattr(one, b"user.a", &[1; 9000], SetXattr::Any).expect("set");
        if is_held {
            volume.hold(one);
        }
        volume.unlink(Ino::ROOT_FOLDER, b"one").expect("removed");
        if is_held {
            // A program that has the file open still has them, and may change them.
            volume.set_xattr(one, b"user.b", b"2", SetXattr::Any).expect("set");
            assert_eq!(volume.xattr(one, b"user.a"), Ok(vec![1; 9000]));
            check(&volume);
            volume.let_go(one).expect("freed");
        }
        assert_eq!(volume.space().expect("read").files, before);
        check(&volume);
    }
    let folder = volume.make(Ino::ROOT_FOLDER, b"folder", Kind::Folder, 0o700, 0, 0).expect("made");
    volume.set_xattr(folder, b"user.a", b"1", SetXattr::Any).expect("set");
    let one = file(&volume, "one");
    volume.set_xattr(one, b"user.a", b"2", SetXattr::Any).expect("set");
    let two = file(&volume, "two");
    let from = (Ino::ROOT_FOLDER, &b"one"[..]);
    volume.rename(from, (Ino::ROOT_FOLDER, b"two"), aquifer_volume::IfTaken::Replace).expect("moved");
    assert_eq!(volume.xattr(one, b"user.a"), Ok(b"2".to_vec()));
    assert_eq!(volume.inode(two), Err(VolumeError::NotFound));
    volume.remove_folder(Ino::ROOT_FOLDER, b"folder").expect("removed");
    assert_eq!(volume.space().expect("read").files, before + 2);
    check(&volume);
}

#[test]
fn a_full_volume_refuses_and_lets_go() {
    let volume = volume();
    let one = file(&volume, "one");
    let full = file(&volume, "full");
    volume.set_xattr(one, b"user.a", &[1; 20_000], SetXattr::Any).expect("set");
    let mut at = 0;
    while let Ok(written) = volume.write(full, at, &[3; 1 << 16]) {
        at += written as u64;
    }
    while let Ok(1..) = volume.write(full, at, &[3; 4096]) {
        at += 4096;
    }
    assert_eq!(volume.set_xattr(one, b"user.b", &[2; 60_000], SetXattr::Any), Err(VolumeError::NoSpace));
    let two = file(&volume, "two");
    assert_eq!(volume.set_xattr(two, b"user.b", b"2", SetXattr::Any), Err(VolumeError::NoSpace));
    assert_eq!(names(&volume, two), [""; 0]);
    assert_eq!(volume.xattr(one, b"user.a"), Ok(vec![1; 20_000]));
    // Bytes that have their room can be changed, and be taken away.
    volume.set_xattr(one, b"user.a", &[4; 20_000], SetXattr::Any).expect("set");
    volume.remove_xattr(one, b"user.a").expect("removed");
    volume.unlink(Ino::ROOT_FOLDER, b"full").expect("removed");
    volume.sync().expect("synced");
    volume.set_xattr(two, b"user.b", &[2; 60_000], SetXattr::Any).expect("set");
    check(&volume);
}

/// A crash leaves the attributes of a file as one call left them.
#[test]
fn a_crash_keeps_all_of_a_file_or_what_was_before() {
    let device = Arc::new(MemoryDevice::new(32 << 20, 4096));
    let medium = || Box::new(DeviceMedium::new(Arc::clone(&device), 64).expect("a medium"));
    Volume::create(medium(), (0, 0)).expect("created");
    let mut expected: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for round in 0..12u8 {
        let volume = Volume::open(medium(), OpenOptions::default()).expect("opened");
        if round == 0 {
            file(&volume, "one");
        }
        let one = volume.lookup(Ino::ROOT_FOLDER, b"one").expect("there");
        assert_eq!(names(&volume, one).len(), expected.len(), "{round}");
        for (name, value) in &expected {
            assert_eq!(volume.xattr(one, name).as_ref(), Ok(value), "{round}");
        }
        let name = format!("user.{round}").into_bytes();
        let value = vec![round; usize::from(round) * 900];
        volume.set_xattr(one, &name, &value, SetXattr::Create).expect("set");
        expected.push((name, value));
        if round % 3 == 2 {
            let (name, _) = expected.remove(0);
            volume.remove_xattr(one, &name).expect("removed");
        }
        volume.sync().expect("synced");
        // Not synced, so not there after the crash.
        volume.set_xattr(one, b"user.lost", &[9; 50_000], SetXattr::Any).expect("set");
        std::mem::forget(volume);
    }
    let volume = Volume::open(medium(), OpenOptions::default()).expect("opened");
    check(&volume);
}
