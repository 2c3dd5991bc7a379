//! Owners, and other users.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::thread;

use rustix::fs::{Gid, Uid};
use rustix::io::Errno;

use crate::ground::{fails, is_root, skipped};

const ALICE: u32 = 5001;
const BOB: u32 = 5002;

/// Does `work` as a user: only in a thread of its own, the process stays root.
fn as_user<T: Send>(user: u32, group: u32, others: &[u32], work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let outcome = scope.spawn(|| {
            let groups: Vec<_> = others.iter().map(|&group| Gid::from_raw(group)).collect();
            rustix::thread::set_thread_groups(&groups).expect("root may");
            let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(group));
            rustix::thread::set_thread_res_gid(gid, gid, gid).expect("root may");
            rustix::thread::set_thread_res_uid(uid, uid, uid).expect("root may");
            work()
        });
        outcome.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Whether there is root, who alone can be other users.
fn can_be_others(test: &str) -> bool {
    if !is_root() {
        skipped(test, "only root can act as other users");
    }
    is_root()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("the owner may");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").mode() & 0o7777
}

pub fn modes_are_kept(at: &Path) {
    if !can_be_others("modes_are_kept") {
        return;
    }
    let file = at.join("file");
    fs::write(&file, "bytes").expect("a file");
    chown(&file, Some(ALICE), Some(ALICE)).expect("root may");
    for (mode, owner, other) in
        [(0o400, true, false), (0o004, false, true), (0o440, true, false), (0, false, false)]
    {
        set_mode(&file, mode);
        assert_eq!(as_user(ALICE, ALICE, &[], || fs::read(&file)).is_ok(), owner, "{mode:o}");
        assert_eq!(as_user(BOB, BOB, &[], || fs::read(&file)).is_ok(), other, "{mode:o}");
    }
    set_mode(&file, 0o040);
    assert!(as_user(BOB, ALICE, &[], || fs::read(&file)).is_ok());
    assert!(as_user(BOB, BOB, &[ALICE], || fs::read(&file)).is_ok());
    let folder = at.join("folder");
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("file"), "").expect("a file");
    set_mode(&folder, 0o744);
    as_user(BOB, BOB, &[], || {
        assert_eq!(fs::read_dir(&folder).expect("it may be listed").count(), 1);
        fails(fs::metadata(folder.join("file")), Errno::ACCESS);
        fails(fs::write(folder.join("new"), ""), Errno::ACCESS);
    });
    set_mode(&folder, 0o711);
    as_user(BOB, BOB, &[], || {
        fs::metadata(folder.join("file")).expect("it may be looked up");
        fails(fs::read_dir(&folder).map(drop), Errno::ACCESS);
        fails(fs::remove_file(folder.join("file")), Errno::ACCESS);
    });
}

pub fn owners_may_and_others_may_not(at: &Path) {
    if !can_be_others("owners_may_and_others_may_not") {
        return;
    }
    let file = at.join("file");
    fs::write(&file, "").expect("a file");
    chown(&file, Some(ALICE), Some(ALICE)).expect("root may");
    let owner = fs::metadata(&file).expect("it is there");
    assert_eq!((owner.uid(), owner.gid()), (ALICE, ALICE));
    as_user(BOB, BOB, &[], || {
        fails(fs::set_permissions(&file, Permissions::from_mode(0o777)), Errno::PERM);
        fails(chown(&file, Some(BOB), None), Errno::PERM);
        fails(OpenOptions::new().write(true).truncate(true).open(&file), Errno::ACCESS);
    });
    as_user(ALICE, ALICE, &[BOB], || {
        set_mode(&file, 0o600);
        fails(chown(&file, Some(BOB), None), Errno::PERM);
        chown(&file, None, Some(BOB)).expect("the group is one of hers");
        fails(chown(&file, None, Some(4999)), Errno::PERM);
    });
    assert_eq!(fs::metadata(&file).expect("it is there").gid(), BOB);
    std::os::unix::fs::symlink("file", at.join("link")).expect("a link");
    std::os::unix::fs::lchown(at.join("link"), Some(BOB), Some(BOB)).expect("root may");
    assert_eq!(fs::symlink_metadata(at.join("link")).expect("it is there").uid(), BOB);
    assert_eq!(fs::metadata(&file).expect("it is there").uid(), ALICE);
}

pub fn sticky_folders(at: &Path) {
    if !can_be_others("sticky_folders") {
        return;
    }
    let folder = at.join("folder");
    fs::create_dir(&folder).expect("a folder");
    set_mode(&folder, 0o1777);
    as_user(ALICE, ALICE, &[], || fs::write(folder.join("hers"), "").expect("all may"));
    as_user(BOB, BOB, &[], || {
        fs::write(folder.join("his"), "").expect("all may");
        fails(fs::remove_file(folder.join("hers")), Errno::PERM);
        fails(fs::rename(folder.join("hers"), folder.join("other")), Errno::PERM);
        fails(fs::rename(folder.join("his"), folder.join("hers")), Errno::PERM);
        fs::rename(folder.join("his"), folder.join("still-his")).expect("it is his");
    });
    as_user(ALICE, ALICE, &[], || fs::remove_file(folder.join("hers")).expect("it is hers"));
    set_mode(&folder, 0o777);
    as_user(ALICE, ALICE, &[], || {
        fs::remove_file(folder.join("still-his")).expect("the folder is everybody's")
    });
}

pub fn who_owns_new_files(at: &Path) {
    if !can_be_others("who_owns_new_files") {
        return;
    }
    set_mode(at, 0o777);
    as_user(ALICE, BOB, &[], || {
        fs::write(at.join("file"), "").expect("all may");
        fs::create_dir(at.join("folder")).expect("all may");
        std::os::unix::fs::symlink("file", at.join("link")).expect("all may");
    });
    for name in ["file", "folder", "link"] {
        let metadata = fs::symlink_metadata(at.join(name)).expect("it is there");
        assert_eq!((metadata.uid(), metadata.gid()), (ALICE, BOB), "{name}");
    }
    let groups = at.join("groups");
    fs::create_dir(&groups).expect("a folder");
    chown(&groups, None, Some(4999)).expect("root may");
    set_mode(&groups, 0o2777);
    as_user(ALICE, ALICE, &[], || {
        fs::write(groups.join("file"), "").expect("all may");
        fs::create_dir(groups.join("folder")).expect("all may");
    });
    for name in ["file", "folder"] {
        assert_eq!(fs::metadata(groups.join(name)).expect("it is there").gid(), 4999, "{name}");
    }
    assert_eq!(mode(&groups.join("folder")) & 0o2000, 0o2000);
}

/// A way to change a file, with its name.
type Change = (&'static str, fn(&Path));

pub fn set_user_id_is_cleared(at: &Path) {
    if !can_be_others("set_user_id_is_cleared") {
        return;
    }
    let file = at.join("file");
    fs::write(&file, "bytes").expect("a file");
    let changes: [Change; 5] = [
        ("write", |file| {
            OpenOptions::new()
                .write(true)
                .open(file)
                .and_then(|mut file| file.write_all(b"x"))
                .expect("all may")
        }),
        ("truncate", |file| {
            OpenOptions::new().write(true).open(file).and_then(|file| file.set_len(3)).expect("all may")
        }),
        ("open and truncate", |file| drop(fs::File::create(file).expect("all may"))),
        ("append", |file| {
            OpenOptions::new()
                .append(true)
                .open(file)
                .and_then(|mut file| file.write_all(b"x"))
                .expect("all may")
        }),
        ("allocate", |file| {
            let file = OpenOptions::new().write(true).open(file).expect("all may");
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 8192).expect("all may");
        }),
    ];
    for (what, change) in changes {
        set_mode(&file, 0o6777);
        as_user(BOB, BOB, &[], || change(&file));
        assert_eq!(mode(&file), 0o777, "{what}");
    }
    set_mode(&file, 0o6777);
    chown(&file, Some(ALICE), Some(ALICE)).expect("root may");
    assert_eq!(mode(&file), 0o777);
    set_mode(&file, 0o6777);
    chown(&file, None, None).expect("all may");
    assert_eq!(mode(&file), 0o777, "a change of nothing");
    let folder = at.join("folder");
    fs::create_dir(&folder).expect("a folder");
    set_mode(&folder, 0o6777);
    chown(&folder, Some(ALICE), None).expect("root may");
    chown(&folder, None, None).expect("root may");
    assert_eq!(mode(&folder), 0o6777);
    // Root keeps them when it writes.
    set_mode(&file, 0o4777);
    changes[0].1(&file);
    assert_eq!(mode(&file), 0o4777);
}

/// The set-group-id bit is for who is in the group.
pub fn groups_of_owners(at: &Path) {
    if !can_be_others("groups_of_owners") {
        return;
    }
    let file = at.join("file");
    fs::write(&file, "").expect("a file");
    chown(&file, Some(ALICE), Some(4999)).expect("root may");
    as_user(ALICE, ALICE, &[], || set_mode(&file, 0o2755));
    assert_eq!(mode(&file), 0o755);
    as_user(ALICE, ALICE, &[4999], || set_mode(&file, 0o2755));
    assert_eq!(mode(&file), 0o2755);
}
