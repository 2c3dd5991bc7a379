//! Names, and other names.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::ground::fails;

fn ino(path: &Path) -> u64 {
    fs::symlink_metadata(path).expect("it is there").ino()
}

pub fn too_long(at: &Path) {
    let longest = "n".repeat(255);
    fs::write(at.join(&longest), "bytes").expect("a file");
    assert_eq!(fs::read(at.join(&longest)).expect("it is there"), b"bytes");
    let listed = fs::read_dir(at).expect("it lists").next().expect("an entry").expect("an entry");
    assert_eq!(listed.file_name(), longest.as_str());
    let longer = at.join("n".repeat(256));
    fails(fs::write(&longer, ""), Errno::NAMETOOLONG);
    fails(fs::create_dir(&longer), Errno::NAMETOOLONG);
    fails(fs::metadata(&longer), Errno::NAMETOOLONG);
    fails(fs::remove_file(&longer), Errno::NAMETOOLONG);
    fails(fs::rename(at.join(&longest), &longer), Errno::NAMETOOLONG);
    fails(symlink("target", &longer), Errno::NAMETOOLONG);
    fails(fs::metadata(at.join("p/".repeat(2100))), Errno::NAMETOOLONG);
}

pub fn taken_names(at: &Path) {
    fs::create_dir(at.join("folder")).expect("a folder");
    fs::write(at.join("file"), "").expect("a file");
    for name in ["folder", "file"] {
        fails(fs::create_dir(at.join(name)), Errno::EXIST);
        fails(symlink("target", at.join(name)), Errno::EXIST);
        fails(fs::hard_link(at.join("file"), at.join(name)), Errno::EXIST);
    }
    fails(fs::write(at.join("folder"), ""), Errno::ISDIR);
}

pub fn onto_a_file(at: &Path) {
    let (from, to) = (at.join("from"), at.join("to"));
    fs::write(&from, "new").expect("a file");
    fs::write(&to, "old").expect("a file");
    fs::hard_link(&to, at.join("old")).expect("a link");
    let number = ino(&from);
    fs::rename(&from, &to).expect("it is renamed");
    assert_eq!((ino(&to), fs::read(&to).expect("it is there")), (number, b"new".to_vec()));
    fails(fs::metadata(&from), Errno::NOENT);
    assert_eq!(fs::metadata(at.join("old")).expect("it is there").nlink(), 1);
    symlink("to", at.join("link")).expect("a link");
    fs::rename(at.join("link"), &to).expect("the link itself is renamed");
    assert_eq!(fs::read_link(&to).expect("it is the link"), Path::new("to"));
}

pub fn onto_folders(at: &Path) {
    for name in ["a", "b", "full"] {
        fs::create_dir(at.join(name)).expect("a folder");
    }
    fs::write(at.join("full/file"), "").expect("a file");
    fs::write(at.join("file"), "").expect("a file");
    fails(fs::rename(at.join("a"), at.join("full")), Errno::NOTEMPTY);
    fails(fs::rename(at.join("a"), at.join("file")), Errno::NOTDIR);
    fails(fs::rename(at.join("file"), at.join("a")), Errno::ISDIR);
    let number = ino(&at.join("full"));
    fs::rename(at.join("full"), at.join("b")).expect("it replaces what is empty");
    assert_eq!(ino(&at.join("b")), number);
    assert!(at.join("b/file").exists() && !at.join("full").exists());
}

pub fn into_itself(at: &Path) {
    fs::create_dir_all(at.join("a/b/c")).expect("folders");
    fails(fs::rename(at.join("a"), at.join("a/b/c/d")), Errno::INVAL);
    fails(fs::rename(at.join("a"), at.join("a/b")), Errno::INVAL);
    fails(fs::rename(at.join("a/b/c"), at.join("a")), Errno::NOTEMPTY);
    fs::rename(at.join("a/b/c"), at.join("a/c")).expect("it goes up");
    assert_eq!(ino(&at.join("a/c/..")), ino(&at.join("a")));
}

pub fn without_replacing(at: &Path) {
    let (from, to) = (at.join("from"), at.join("to"));
    fs::write(&from, "new").expect("a file");
    fs::write(&to, "old").expect("a file");
    let rename = || renameat_with(CWD, &from, CWD, &to, RenameFlags::NOREPLACE);
    fails(rename(), Errno::EXIST);
    assert_eq!(fs::read(&to).expect("it is there"), b"old");
    fs::remove_file(&to).expect("it goes");
    rename().expect("the name is free");
    assert_eq!(fs::read(&to).expect("it is there"), b"new");
}

pub fn exchanged(at: &Path) {
    fs::create_dir_all(at.join("folder/below")).expect("folders");
    fs::create_dir(at.join("other")).expect("a folder");
    fs::write(at.join("other/file"), "bytes").expect("a file");
    let exchange = |a: &str, b: &str| renameat_with(CWD, at.join(a), CWD, at.join(b), RenameFlags::EXCHANGE);
    exchange("folder/below", "other/file").expect("they change places");
    assert_eq!(fs::read(at.join("folder/below")).expect("it is the file"), b"bytes");
    assert!(at.join("other/file").is_dir());
    assert_eq!(ino(&at.join("other/file/..")), ino(&at.join("other")));
    let links = |name: &str| fs::metadata(at.join(name)).expect("it is there").nlink();
    assert_eq!(links("folder") + 1, links("other"));
    fails(exchange("folder", "none"), Errno::NOENT);
    fails(exchange("other", "other/file"), Errno::INVAL);
    fs::write(at.join("one"), "1").expect("a file");
    fs::write(at.join("two"), "2").expect("a file");
    exchange("one", "two").expect("they change places");
    assert_eq!(fs::read(at.join("one")).expect("it is there"), b"2");
}

pub fn across_folders(at: &Path) {
    fs::create_dir_all(at.join("a/moved/deep")).expect("folders");
    fs::create_dir_all(at.join("b/c")).expect("folders");
    fs::write(at.join("a/moved/deep/file"), "bytes").expect("a file");
    fs::rename(at.join("a/moved"), at.join("b/c/moved")).expect("it moves");
    assert_eq!(fs::read(at.join("b/c/moved/deep/file")).expect("it came along"), b"bytes");
    assert_eq!(ino(&at.join("b/c/moved/..")), ino(&at.join("b/c")));
    assert_eq!(fs::read_dir(at.join("a")).expect("it lists").count(), 0);
}

/// Renaming one name of a file onto another does nothing.
pub fn same_file_twice(at: &Path) {
    fs::write(at.join("a"), "").expect("a file");
    fs::hard_link(at.join("a"), at.join("b")).expect("a link");
    fs::rename(at.join("a"), at.join("b")).expect("nothing happens");
    assert_eq!(ino(&at.join("a")), ino(&at.join("b")));
    fs::rename(at.join("a"), at.join("a")).expect("nothing happens");
    assert!(at.join("a").exists());
}

pub fn not_there(at: &Path) {
    let none = at.join("none");
    fails(fs::metadata(&none), Errno::NOENT);
    fails(fs::remove_file(&none), Errno::NOENT);
    fails(fs::rename(&none, at.join("other")), Errno::NOENT);
    fails(fs::write(none.join("file"), ""), Errno::NOENT);
    fs::write(&none, "").expect("now it is");
    assert!(none.exists());
    fails(fs::metadata(none.join("file")), Errno::NOTDIR);
}
