//! Other names, and symbolic links.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use rustix::io::Errno;

use crate::ground::fails;

pub fn another_name(at: &Path) {
    let (first, second) = (at.join("first"), at.join("second"));
    fs::write(&first, "one").expect("a file");
    fs::hard_link(&first, &second).expect("a link");
    let (a, b) = (fs::metadata(&first).expect("it is there"), fs::metadata(&second).expect("it is there"));
    assert_eq!((a.ino(), a.nlink(), b.nlink()), (b.ino(), 2, 2));
    fs::write(&second, "two").expect("it writes");
    assert_eq!(fs::read(&first).expect("it is there"), b"two");
    fs::create_dir(at.join("folder")).expect("a folder");
    fails(fs::hard_link(at.join("folder"), at.join("other")), Errno::PERM);
    fails(fs::hard_link(&first, &second), Errno::EXIST);
    fails(fs::hard_link(at.join("none"), at.join("other")), Errno::NOENT);
    fs::remove_file(&first).expect("it goes");
    assert_eq!(fs::metadata(&second).expect("it is there").nlink(), 1);
    assert_eq!(fs::read(&second).expect("it is there"), b"two");
}

pub fn symbolic(at: &Path) {
    let link = at.join("link");
    symlink("target", &link).expect("a link");
    assert_eq!(fs::read_link(&link).expect("it says"), Path::new("target"));
    let metadata = fs::symlink_metadata(&link).expect("it is there");
    assert!(metadata.is_symlink());
    assert_eq!((metadata.len(), metadata.mode() & 0o7777), (6, 0o777));
    fails(fs::read(&link), Errno::NOENT);
    fs::write(at.join("target"), "bytes").expect("a file");
    assert_eq!(fs::read(&link).expect("it leads there"), b"bytes");
    fails(fs::read_link(at.join("target")), Errno::INVAL);
    fails(symlink("other", &link), Errno::EXIST);
    fs::remove_file(&link).expect("it goes");
    assert!(at.join("target").exists());
}

pub fn loops_end(at: &Path) {
    symlink("b", at.join("a")).expect("a link");
    symlink("a", at.join("b")).expect("a link");
    fails(fs::read(at.join("a")), Errno::LOOP);
    fails(fs::create_dir(at.join("a/folder")), Errno::LOOP);
    fails(fs::metadata(at.join("b")), Errno::LOOP);
    fs::symlink_metadata(at.join("b")).expect("the link is there");
}

pub fn long_targets(at: &Path) {
    let target = "t/".repeat(2047);
    symlink(&target, at.join("link")).expect("a link");
    assert_eq!(fs::read_link(at.join("link")).expect("it says").as_os_str().len(), 4094);
    fails(symlink("t".repeat(4096), at.join("other")), Errno::NAMETOOLONG);
    fails(symlink("", at.join("other")), Errno::NOENT);
}

pub fn names_of_links_go_away(at: &Path) {
    let names: Vec<_> = (0..100).map(|n| at.join(format!("name-{n}"))).collect();
    fs::write(&names[0], "bytes").expect("a file");
    for name in &names[1..] {
        fs::hard_link(&names[0], name).expect("a link");
    }
    for (gone, name) in names.iter().enumerate() {
        assert_eq!(fs::metadata(name).expect("it is there").nlink(), 100 - gone as u64);
        fs::remove_file(name).expect("it goes");
    }
}
