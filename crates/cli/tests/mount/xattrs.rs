//! Extended attributes of files and folders, in the system's own words.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use rustix::fs::{
    XattrFlags, fgetxattr, fsetxattr, getxattr, lgetxattr, listxattr, lsetxattr, removexattr, setxattr,
};
use rustix::io::Errno;

use crate::ground::{Mount, VOLUME_BYTES, cannot_mount, fails, skipped};

fn set(file: &Path, name: &str, value: &[u8]) -> rustix::io::Result<()> {
    setxattr(file, name, value, XattrFlags::empty())
}

fn get(file: &Path, name: &str) -> rustix::io::Result<Vec<u8>> {
    let mut value = vec![0; 64 << 10];
    let len = getxattr(file, name, &mut value[..])?;
    value.truncate(len);
    Ok(value)
}

/// Names that begin with `user.`, sorted: a native folder may have others.
fn names(file: &Path) -> Vec<String> {
    let mut list = vec![0u8; 64 << 10];
    let len = listxattr(file, &mut list[..]).expect("it lists");
    let all = list[..len].split(|byte| *byte == 0).filter(|name| name.starts_with(b"user."));
    let mut names: Vec<String> = all.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    names.sort_unstable();
    names
}

fn file(at: &Path) -> std::path::PathBuf {
    let file = at.join("file");
    fs::write(&file, "bytes").expect("a file");
    file
}

pub fn are_set_read_listed_and_removed(at: &Path) {
    let file = file(at);
    assert_eq!(names(&file), [""; 0]);
    set(&file, "user.colour", b"blue").expect("it is set");
    set(&file, "user.empty", b"").expect("it is set");
    assert_eq!(get(&file, "user.colour"), Ok(b"blue".to_vec()));
    assert_eq!(get(&file, "user.empty"), Ok(vec![]));
    set(&file, "user.colour", b"dark red").expect("it is changed");
    assert_eq!(get(&file, "user.colour"), Ok(b"dark red".to_vec()));
    assert_eq!(names(&file), ["user.colour", "user.empty"]);
    removexattr(&file, "user.colour").expect("it goes");
    fails(get(&file, "user.colour"), Errno::NODATA);
    fails(removexattr(&file, "user.colour"), Errno::NODATA);
    assert_eq!(names(&file), ["user.empty"]);
    assert_eq!(fs::read(&file).expect("it is there"), b"bytes");
}

pub fn are_made_or_replaced(at: &Path) {
    let file = file(at);
    fails(setxattr(&file, "user.a", b"1", XattrFlags::REPLACE), Errno::NODATA);
    setxattr(&file, "user.a", b"1", XattrFlags::CREATE).expect("it is made");
    fails(setxattr(&file, "user.a", b"2", XattrFlags::CREATE), Errno::EXIST);
    assert_eq!(get(&file, "user.a"), Ok(b"1".to_vec()));
    setxattr(&file, "user.a", b"3", XattrFlags::REPLACE).expect("it is replaced");
    assert_eq!(get(&file, "user.a"), Ok(b"3".to_vec()));
}

pub fn room_for_them_is_looked_at(at: &Path) {
    let file = file(at);
    set(&file, "user.a", b"12345").expect("it is set");
    fails(getxattr(&file, "user.a", &mut [0u8; 4][..]), Errno::RANGE);
    assert_eq!(getxattr(&file, "user.a", &mut [0u8; 5][..]), Ok(5));
    fails(listxattr(&file, &mut [0u8; 3][..]), Errno::RANGE);
    let open = File::open(&file).expect("it opens");
    fsetxattr(&open, "user.b", b"by descriptor", XattrFlags::empty()).expect("it is set");
    assert_eq!(fgetxattr(&open, "user.b", &mut [0u8; 20][..]), Ok(13));
}

pub fn too_large(at: &Path) {
    let file = file(at);
    let longest = format!("user.{}", "n".repeat(250));
    set(&file, &longest, &[1; 1000]).expect("it is set");
    assert_eq!(get(&file, &longest), Ok(vec![1; 1000]));
    fails(set(&file, &format!("{longest}n"), b"1"), Errno::RANGE);
    fails(set(&file, "user.", b"1"), Errno::INVAL);
    fails(set(&file, "user.b", &vec![1; (64 << 10) + 1]), Errno::TOOBIG);
    // A native folder may have room for 4 KiB of them.
    let mut refused = None;
    for nth in 0..4 {
        refused = refused.or(set(&file, &format!("user.{nth}"), &vec![nth; 64 << 10]).err());
    }
    assert!(matches!(refused, Some(Errno::NOSPC | Errno::TOOBIG)), "{refused:?}");
    assert_eq!(get(&file, &longest), Ok(vec![1; 1000]));
}

pub fn others_are_refused(at: &Path) {
    let file = file(at);
    for name in ["trusted.a", "security.aquifer", "system.aquifer", "other.a"] {
        let found = get(&file, name);
        assert!(matches!(found, Err(Errno::NODATA | Errno::OPNOTSUPP)), "{name}: {found:?}");
        match set(&file, name, b"1") {
            // Native folders have some.
            Ok(()) => removexattr(&file, name).expect("it goes"),
            Err(error) => assert!([Errno::OPNOTSUPP, Errno::PERM].contains(&error), "{name}: {error}"),
        }
    }
    assert_eq!(names(&file), [""; 0]);
}

pub fn of_folders_and_links(at: &Path) {
    let (folder, link) = (at.join("folder"), at.join("link"));
    fs::create_dir(&folder).expect("a folder");
    symlink("folder", &link).expect("a link");
    set(&link, "user.a", b"of the folder").expect("it is set");
    assert_eq!(get(&folder, "user.a"), Ok(b"of the folder".to_vec()));
    fails(lsetxattr(&link, "user.a", b"of the link", XattrFlags::empty()), Errno::PERM);
    fails(lgetxattr(&link, "user.a", &mut [0u8; 20][..]), Errno::NODATA);
    fs::create_dir(folder.join("below")).expect("a folder");
    assert_eq!(names(&folder.join("below")), [""; 0]);
}

pub fn go_with_their_file(at: &Path) {
    let first = file(at);
    set(&first, "user.a", b"1").expect("it is set");
    let changed = fs::metadata(&first).expect("it is there").modified().expect("a time");
    let (second, third) = (at.join("second"), at.join("third"));
    fs::hard_link(&first, &second).expect("a link");
    fs::rename(&first, &third).expect("it moves");
    for name in [&second, &third] {
        assert_eq!(get(name, "user.a"), Ok(b"1".to_vec()));
    }
    assert_eq!(fs::metadata(&third).expect("it is there").modified().expect("a time"), changed);
    let open = File::open(&second).expect("it opens");
    fs::remove_file(&second).expect("it goes");
    fs::remove_file(&third).expect("it goes");
    assert_eq!(fgetxattr(&open, "user.a", &mut [0u8; 9][..]), Ok(1));
    fsetxattr(&open, "user.b", b"2", XattrFlags::empty()).expect("it is set");
    drop(open);
    // The number of the file may be another's now.
    assert_eq!(names(&file(at)), [""; 0]);
}

/// By the programs that people copy with, where they are installed.
pub fn are_copied(at: &Path) {
    let from = at.join("from");
    fs::create_dir(&from).expect("a folder");
    let first = file(&from);
    set(&first, "user.a", b"1").expect("it is set");
    set(&from, "user.b", &[2; 900]).expect("it is set");
    for script in [
        "cp -a from to",
        "rsync -aX from/ to",
        "mkdir to && tar -C from --xattrs -c . | tar -C to --xattrs -x",
    ] {
        let program = script.split(' ').find(|word| ["cp", "rsync", "tar"].contains(word)).expect("one");
        if Command::new(program).arg("--version").output().is_err() {
            skipped("are_copied", &format!("{program} is not installed"));
            continue;
        }
        let done = Command::new("sh").args(["-e", "-c", script]).current_dir(at).status().expect("it starts");
        assert!(done.success(), "{script}");
        let to = at.join("to");
        assert_eq!(get(&to.join("file"), "user.a"), Ok(b"1".to_vec()), "{script}");
        assert_eq!(get(&to, "user.b"), Ok(vec![2; 900]), "{script}");
        fs::remove_dir_all(&to).expect("it goes");
    }
}

#[test]
fn are_there_after_a_crash_and_a_new_mount() {
    if let Some(reason) = cannot_mount() {
        return skipped("are_there_after_a_crash_and_a_new_mount", &reason);
    }
    let mut mount = Mount::new(VOLUME_BYTES);
    let one = file(&mount.folder);
    set(&one, "user.a", &[1; 60_000]).expect("it is set");
    File::open(&one).and_then(|file| file.sync_all()).expect("synced");
    mount.crash();
    mount.start(&[]);
    assert_eq!(get(&one, "user.a"), Ok(vec![1; 60_000]));
    mount.stop();
    mount.start(&["--read-only"]);
    assert_eq!(get(&one, "user.a"), Ok(vec![1; 60_000]));
    assert_eq!(set(&one, "user.a", b"2"), Err(Errno::ROFS));
    mount.end();
}

#[test]
fn are_left_alone_where_a_mount_is_to_have_none() {
    if let Some(reason) = cannot_mount() {
        return skipped("are_left_alone_where_a_mount_is_to_have_none", &reason);
    }
    let mut mount = Mount::new(VOLUME_BYTES);
    let (one, removed) = (file(&mount.folder), mount.folder.join("removed"));
    set(&one, "user.a", b"1").expect("it is set");
    fs::write(&removed, "bytes").expect("a file");
    set(&removed, "user.a", b"2").expect("it is set");
    mount.stop();
    mount.start(&["--no-xattrs"]);
    for _ in 0..2 {
        fails(get(&one, "user.a"), Errno::OPNOTSUPP);
        fails(set(&one, "user.a", b"3"), Errno::OPNOTSUPP);
        fails(removexattr(&one, "user.a"), Errno::OPNOTSUPP);
        fails(listxattr(&one, &mut [0u8; 9][..]), Errno::OPNOTSUPP);
    }
    fs::write(&one, "other bytes").expect("it is written");
    fs::remove_file(&removed).expect("it goes");
    mount.stop();
    mount.start(&[]);
    assert_eq!(get(&one, "user.a"), Ok(b"1".to_vec()));
    assert_eq!(fs::read(&one).expect("it is there"), b"other bytes");
    mount.end();
}
