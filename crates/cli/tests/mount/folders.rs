//! Folders.

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, RawDir, open, openat, statat, unlinkat};
use rustix::io::Errno;

use crate::ground::fails;

pub fn ten_thousand_files(at: &Path) {
    let name = |n: u32| at.join(format!("file-{n}"));
    for n in 0..10_000 {
        File::create_new(name(n)).expect("it is made");
    }
    let listed: HashSet<_> =
        fs::read_dir(at).expect("it lists").map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(listed.len(), 10_000);
    assert_eq!(fs::read_dir(at).expect("it lists").count(), 10_000);
    for n in (0..10_000).step_by(2) {
        fs::remove_file(name(n)).expect("it goes");
    }
    assert_eq!(fs::read_dir(at).expect("it lists").count(), 5000);
    for n in 0..10_000 {
        assert_eq!(name(n).exists(), n % 2 == 1, "{n}");
    }
}

pub fn empty_is_removed_and_full_is_not(at: &Path) {
    let folder = at.join("folder");
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("file"), "").expect("a file");
    fails(fs::remove_dir(&folder), Errno::NOTEMPTY);
    fails(fs::remove_file(&folder), Errno::ISDIR);
    fs::remove_file(folder.join("file")).expect("it goes");
    fs::remove_dir(&folder).expect("it goes");
    fails(fs::remove_dir(&folder), Errno::NOENT);
    fs::write(at.join("file"), "").expect("a file");
    fails(fs::remove_dir(at.join("file")), Errno::NOTDIR);
    fails(fs::create_dir(at.join("file/folder")), Errno::NOTDIR);
}

/// A listing through a small buffer, while what was listed is removed: everything is listed once.
pub fn removing_while_listing(at: &Path) {
    const FILES: usize = 1000;
    for n in 0..FILES {
        fs::write(at.join(format!("some-file-{n}")), "").expect("a file");
    }
    let folder = open(at, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("it opens");
    let mut seen = HashSet::new();
    let mut buffer = [std::mem::MaybeUninit::uninit(); 1024];
    let mut listing = RawDir::new(&folder, &mut buffer);
    while let Some(entry) = listing.next() {
        let name = entry.expect("an entry").file_name().to_owned();
        if name.to_bytes().starts_with(b"some") {
            assert!(seen.insert(name.clone()), "{name:?} twice");
            unlinkat(&folder, &name, AtFlags::empty()).expect("it goes");
        }
    }
    assert_eq!(seen.len(), FILES);
    assert_eq!(fs::read_dir(at).expect("it lists").count(), 0);
}

pub fn dots_are_listed(at: &Path) {
    fs::create_dir_all(at.join("a/b")).expect("folders");
    let folder = open(at.join("a"), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("it opens");
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut listing = RawDir::new(&folder, &mut buffer);
    let mut found = Vec::new();
    while let Some(entry) = listing.next() {
        let entry = entry.expect("an entry");
        found.push((entry.file_name().to_str().expect("text").to_owned(), entry.ino()));
    }
    found.sort();
    let ino = |name: &str| statat(&folder, name, AtFlags::empty()).expect("it is there").st_ino;
    // Of what is mounted on, a listing tells another number than a look.
    assert_eq!(found[0], (".".into(), ino(".")));
    assert_eq!((found[1].0.as_str(), found[1].1), ("..", fs::metadata(at).expect("it is there").ino()));
    assert_eq!(found[2], ("b".into(), ino("b")));
}

pub fn links_are_counted(at: &Path) {
    let links = |name: &str| fs::metadata(at.join(name)).expect("it is there").nlink();
    let is_counted = {
        fs::create_dir(at.join("a")).expect("a folder");
        // Some file systems, such as btrfs, say 1 for all folders.
        links("a") == 2
    };
    if !is_counted {
        return;
    }
    fs::create_dir(at.join("a/b")).expect("a folder");
    fs::create_dir(at.join("c")).expect("a folder");
    fs::write(at.join("a/file"), "").expect("a file");
    assert_eq!((links("a"), links("a/b"), links("c")), (3, 2, 2));
    fs::rename(at.join("a/b"), at.join("c/b")).expect("it moves");
    assert_eq!((links("a"), links("c"), links("c/b")), (2, 3, 2));
    fs::create_dir(at.join("a/b")).expect("a folder");
    fs::rename(at.join("a/b"), at.join("c/b")).expect("it replaces");
    assert_eq!((links("a"), links("c")), (2, 3));
    fs::remove_dir(at.join("c/b")).expect("it goes");
    assert_eq!(links("c"), 2);
}

pub fn a_removed_folder_that_is_stood_in(at: &Path) {
    fs::create_dir(at.join("folder")).expect("a folder");
    let folder =
        open(at.join("folder"), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("it opens");
    fs::remove_dir(at.join("folder")).expect("it goes");
    // A number that becomes free is given again; the old folder must not turn into the new file.
    fs::write(at.join("new"), "new").expect("a file");
    fs::create_dir(at.join("other")).expect("a folder");
    assert_eq!(rustix::fs::fstat(&folder).expect("it is known").st_nlink, 0);
    fails(openat(&folder, "file", OFlags::CREATE | OFlags::RDWR, Mode::RUSR), Errno::NOENT);
    let mut buffer = [std::mem::MaybeUninit::uninit(); 1024];
    assert!(
        RawDir::new(&folder, &mut buffer).next().is_none_or(
            |entry| entry.is_err() || entry.is_ok_and(|entry| entry.file_name().to_bytes() == b".")
        )
    );
    assert_eq!(fs::read(at.join("new")).expect("it is there"), b"new");
}

pub fn sync_of_a_folder(at: &Path) {
    fs::write(at.join("file"), "bytes").expect("a file");
    File::open(at).and_then(|folder| folder.sync_all()).expect("it syncs");
    File::open(at).and_then(|folder| folder.sync_data()).expect("it syncs");
}

pub fn set_group_id_is_inherited(at: &Path) {
    let folder = at.join("folder");
    fs::create_dir(&folder).expect("a folder");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o2775)).expect("its mode");
    fs::create_dir(folder.join("folder")).expect("a folder");
    fs::write(folder.join("file"), "").expect("a file");
    let mode = |name: &str| fs::metadata(folder.join(name)).expect("it is there").mode();
    assert_eq!(mode("folder") & 0o2000, 0o2000);
    assert_eq!(mode("file") & 0o2000, 0);
}
