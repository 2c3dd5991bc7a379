//! Room, and none.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::Command;

use rustix::fs::statvfs;

use crate::ground::{Mount, cannot_mount, folder, is_root, skipped};

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

#[test]
fn native_is_filled() {
    if !is_root() {
        return skipped("native_is_filled", "only root can mount a tmpfs");
    }
    let at = folder();
    let size = format!("size={SMALL_BYTES}");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at.path()).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return skipped("native_is_filled", "a tmpfs could not be mounted");
    }
    let outcome = std::panic::catch_unwind(|| filled(at.path()));
    assert!(Command::new("umount").arg(at.path()).status().expect("it runs").success());
    outcome.expect("the check holds");
}

#[test]
fn mounted_is_filled() {
    if let Some(reason) = cannot_mount() {
        return skipped("mounted_is_filled", &reason);
    }
    let mount = Mount::new(SMALL_BYTES);
    filled(&mount.folder);
    mount.end();
}
