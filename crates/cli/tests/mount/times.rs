//! Times.

use std::fs::{self, File, FileTimes};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, utimensat};

/// Some moment long ago.
fn long_ago() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789)
}

fn age(path: &Path) {
    File::open(path)
        .and_then(|file| file.set_times(FileTimes::new().set_modified(long_ago()).set_accessed(long_ago())))
        .expect("it is set");
    assert_eq!(written(path), long_ago());
}

fn written(path: &Path) -> SystemTime {
    fs::metadata(path).and_then(|metadata| metadata.modified()).expect("it is there")
}

pub fn set_to_what_was_asked(at: &Path) {
    let path = at.join("file");
    fs::write(&path, "").expect("a file");
    age(&path);
    assert_eq!(
        fs::metadata(&path).and_then(|metadata| metadata.accessed()).expect("it is there"),
        long_ago()
    );
    let set = |read: Timespec, write: Timespec| {
        let times = Timestamps { last_access: read, last_modification: write };
        utimensat(CWD, &path, &times, AtFlags::empty()).expect("it is set");
        let metadata = fs::metadata(&path).expect("it is there");
        ((metadata.atime(), metadata.atime_nsec()), (metadata.mtime(), metadata.mtime_nsec()))
    };
    let exact = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let long_ago = (1_000_000_000, 123_456_789);
    assert_eq!(set(exact(0, UTIME_OMIT), exact(2, 4)), (long_ago, (2, 4)));
    assert_eq!(set(exact(3, 5), exact(0, UTIME_OMIT)), ((3, 5), (2, 4)));
    let (read, write) = set(exact(0, UTIME_NOW), exact(0, UTIME_NOW));
    assert!(read.0 > 1_500_000_000 && write.0 > 1_500_000_000);
    std::os::unix::fs::symlink("nowhere", at.join("link")).expect("a link");
    let times = Timestamps { last_access: exact(7, 0), last_modification: exact(8, 0) };
    utimensat(CWD, at.join("link"), &times, AtFlags::SYMLINK_NOFOLLOW).expect("it is set");
    assert_eq!(fs::symlink_metadata(at.join("link")).expect("it is there").mtime(), 8);
}

pub fn change_with_bytes(at: &Path) {
    let path = at.join("file");
    let mut file = File::create(&path).expect("a file");
    let mut is_new = |what: &str, change: &mut dyn FnMut(&mut File)| {
        age(&path);
        change(&mut file);
        assert!(written(&path) > long_ago() + Duration::from_secs(1000), "{what}");
    };
    is_new("write", &mut |file| file.write_all(b"x").expect("it writes"));
    is_new("grow", &mut |file| file.set_len(10).expect("it changes"));
    is_new("shrink", &mut |file| file.set_len(5).expect("it changes"));
    is_new("empty", &mut |_| drop(File::create(&path).expect("it opens")));
    age(&path);
    let mut reading = String::new();
    std::io::Read::read_to_string(&mut File::open(&path).expect("it opens"), &mut reading).expect("it reads");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("it changes");
    assert_eq!(written(&path), long_ago());
}

pub fn change_of_folders(at: &Path) {
    let folder = at.join("folder");
    fs::create_dir(&folder).expect("a folder");
    fs::write(at.join("outside"), "").expect("a file");
    let is_new = |what: &str, change: &dyn Fn()| {
        age(&folder);
        change();
        assert!(written(&folder) > long_ago() + Duration::from_secs(1000), "{what}");
    };
    let within = |name: &str| folder.join(name);
    is_new("make", &|| fs::write(within("file"), "").expect("a file"));
    is_new("link", &|| fs::hard_link(within("file"), within("link")).expect("a link"));
    is_new("rename", &|| fs::rename(within("link"), within("other")).expect("it is renamed"));
    is_new("unlink", &|| fs::remove_file(within("other")).expect("it goes"));
    is_new("folder", &|| fs::create_dir(within("folder")).expect("a folder"));
    is_new("no folder", &|| fs::remove_dir(within("folder")).expect("it goes"));
    is_new("in", &|| fs::rename(at.join("outside"), within("outside")).expect("it moves"));
    is_new("out", &|| fs::rename(within("outside"), at.join("outside")).expect("it moves"));
    age(&folder);
    fs::write(within("file"), "bytes").expect("it writes");
    assert_eq!(written(&folder), long_ago());
}

pub fn before_1970(at: &Path) {
    let path = at.join("file");
    fs::write(&path, "").expect("a file");
    let times = Timestamps {
        last_access: Timespec { tv_sec: -5, tv_nsec: 500_000_000 },
        last_modification: Timespec { tv_sec: -1_000_000, tv_nsec: 1 },
    };
    utimensat(CWD, &path, &times, AtFlags::empty()).expect("it is set");
    let metadata = fs::metadata(&path).expect("it is there");
    assert_eq!((metadata.atime(), metadata.atime_nsec()), (-5, 500_000_000));
    assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (-1_000_000, 1));
}
