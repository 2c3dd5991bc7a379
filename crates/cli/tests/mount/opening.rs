//! Open files.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::thread;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use crate::ground::{bytes, fails};

pub fn exclusive(at: &Path) {
    let make = || OpenOptions::new().write(true).create_new(true).open(at.join("file"));
    make().expect("nobody has the name");
    fails(make(), Errno::EXIST);
    std::os::unix::fs::symlink("nowhere", at.join("link")).expect("a link");
    fails(OpenOptions::new().write(true).create_new(true).open(at.join("link")), Errno::EXIST);
    // Of many who try, one makes it.
    let made = thread::scope(|scope| {
        let tries: Vec<_> =
            (0..8).map(|_| scope.spawn(|| File::create_new(at.join("raced")).is_ok())).collect();
        tries.into_iter().map(|one| usize::from(one.join().expect("it ends"))).sum::<usize>()
    });
    assert_eq!(made, 1);
}

pub fn appended(at: &Path) {
    const LINES: usize = 500;
    let path = at.join("file");
    thread::scope(|scope| {
        for writer in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let mut file = OpenOptions::new().append(true).create(true).open(path).expect("it opens");
                for line in 0..LINES {
                    file.write_all(format!("{writer} {line:06}\n").as_bytes()).expect("it appends");
                }
            });
        }
    });
    let text = String::from_utf8(bytes(&path)).expect("text");
    assert_eq!(text.lines().count(), 4 * LINES);
    for writer in 0..4 {
        let own: Vec<_> = text.lines().filter(|line| line.starts_with(&format!("{writer} "))).collect();
        assert_eq!(own, (0..LINES).map(|line| format!("{writer} {line:06}")).collect::<Vec<_>>());
    }
    let mut file = OpenOptions::new().append(true).read(true).open(&path).expect("it opens");
    file.seek(SeekFrom::Start(0)).expect("it seeks");
    file.write_all(b"end").expect("it appends all the same");
    assert!(bytes(&path).ends_with(b"\nend"));
}

pub fn truncated(at: &Path) {
    let path = at.join("file");
    fs::write(&path, vec![1; 10_000]).expect("a file");
    let held = File::open(&path).expect("it opens");
    let number = held.metadata().expect("it is there").ino();
    let again = OpenOptions::new().write(true).truncate(true).open(&path).expect("it opens");
    assert_eq!(again.metadata().expect("it is there").len(), 0);
    assert_eq!(held.metadata().map(|held| (held.len(), held.ino())).expect("it is there"), (0, number));
    again.write_all_at(b"new", 5000).expect("it writes");
    let mut expected = vec![0; 5000];
    expected.extend_from_slice(b"new");
    assert_eq!(bytes(&path), expected);
}

pub fn without_a_name(at: &Path) {
    let path = at.join("file");
    let mut file =
        OpenOptions::new().read(true).write(true).create_new(true).open(&path).expect("it is made");
    file.write_all(&[3; 20_000]).expect("it writes");
    fs::remove_file(&path).expect("it goes");
    assert_eq!(file.metadata().expect("it is there").nlink(), 0);
    for n in 0..50 {
        fs::write(at.join(format!("other-{n}")), vec![4; 20_000]).expect("a file");
    }
    file.write_all(&[5; 20_000]).expect("it writes");
    let mut all = Vec::new();
    file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut all)).expect("it reads");
    assert!(
        all.len() == 40_000 && all[..20_000].iter().all(|&b| b == 3) && all[20_000..].iter().all(|&b| b == 5)
    );
    file.set_len(100).expect("it changes");
    assert_eq!(file.metadata().expect("it is there").len(), 100);
    assert!(!path.exists());
}

pub fn for_all_flags(at: &Path) {
    let path = at.join("file");
    fails(open(&path, OFlags::RDONLY, Mode::empty()), Errno::NOENT);
    fs::write(&path, "bytes").expect("a file");
    fails(open(&path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()), Errno::NOTDIR);
    fails(open(at, OFlags::WRONLY, Mode::empty()), Errno::ISDIR);
    std::os::unix::fs::symlink("file", at.join("link")).expect("a link");
    fails(open(at.join("link"), OFlags::RDONLY | OFlags::NOFOLLOW, Mode::empty()), Errno::LOOP);
    let mut read_only = File::open(&path).expect("it opens");
    fails(read_only.write(b"x"), Errno::BADF);
    let mut write_only = OpenOptions::new().write(true).open(&path).expect("it opens");
    fails(write_only.read(&mut [0]), Errno::BADF);
    fails(File::open(at).and_then(|mut folder| folder.read(&mut [0])), Errno::ISDIR);
    let synced = open(&path, OFlags::WRONLY | OFlags::DSYNC, Mode::empty()).expect("it opens");
    assert_eq!(rustix::io::write(&synced, b"BYTES"), Ok(5));
    assert_eq!(bytes(&path), b"BYTES");
}

pub fn replaced_while_open(at: &Path) {
    let path = at.join("file");
    fs::write(&path, "old").expect("a file");
    let mut old = File::open(&path).expect("it opens");
    fs::write(at.join("new"), "new").expect("a file");
    fs::rename(at.join("new"), &path).expect("it replaces");
    let mut text = String::new();
    old.read_to_string(&mut text).expect("it reads");
    assert_eq!((text.as_str(), old.metadata().expect("it is there").nlink()), ("old", 0));
    assert_eq!(bytes(&path), b"new");
}

/// Threads that write, read, sync and remove files of their own.
pub fn many_at_once(at: &Path) {
    thread::scope(|scope| {
        for worker in 0..8u8 {
            scope.spawn(move || {
                for round in 0..20u8 {
                    let path = at.join(format!("{worker}-{round}"));
                    let content = vec![worker ^ round; 10_000 + usize::from(round) * 997];
                    let mut file = File::create(&path).expect("it is made");
                    file.write_all(&content).expect("it writes");
                    if round % 7 == worker % 7 {
                        file.sync_all().expect("it syncs");
                    }
                    assert!(bytes(&path) == content, "{worker} {round}");
                    if round % 2 == 0 {
                        fs::remove_file(&path).expect("it goes");
                    }
                }
            });
        }
    });
    assert_eq!(fs::read_dir(at).expect("it lists").count(), 80);
}

/// Volumes have no files that never have a name; native file systems may. Made, or refused so that programs make a file with a name and remove that.
pub fn files_that_never_have_a_name(at: &Path) {
    match open(at, OFlags::TMPFILE | OFlags::RDWR, Mode::RUSR) {
        Ok(file) => assert_eq!(rustix::fs::fstat(file).expect("it is there").st_nlink, 0),
        Err(error) => assert_eq!(error, Errno::OPNOTSUPP),
    }
    assert_eq!(fs::read_dir(at).expect("it lists").count(), 0);
    drop(tempfile::tempfile_in(at).expect("the library makes one in either case"));
}
