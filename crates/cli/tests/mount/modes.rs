//! Modes.

use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::Mode;
use rustix::thread::UnshareFlags;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").mode() & 0o7777
}

/// What `work` makes with a file mode creation mask of its own.
fn with_umask(mask: u32, work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: only the mask and the current folder are this thread's own from now on; no descriptor is.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }.expect("it is allowed");
            rustix::process::umask(Mode::from_raw_mode(mask));
            work();
        });
    });
}

pub fn of_new_files(at: &Path) {
    with_umask(0, || {
        for asked in [0o000, 0o400, 0o644, 0o755, 0o777] {
            let (file, folder) = (at.join(format!("file-{asked:o}")), at.join(format!("folder-{asked:o}")));
            OpenOptions::new().write(true).create_new(true).mode(asked).open(&file).expect("it is made");
            fs::DirBuilder::new().mode(asked).create(&folder).expect("it is made");
            assert_eq!((mode(&file), mode(&folder)), (asked, asked));
        }
    });
}

pub fn umask_takes_bits_away(at: &Path) {
    for (mask, expected) in [(0o022, 0o755), (0o077, 0o700), (0o777, 0)] {
        with_umask(mask, || {
            let (file, folder) = (at.join(format!("file-{mask:o}")), at.join(format!("folder-{mask:o}")));
            OpenOptions::new().write(true).create_new(true).mode(0o777).open(&file).expect("it is made");
            fs::DirBuilder::new().mode(0o777).create(&folder).expect("it is made");
            assert_eq!((mode(&file), mode(&folder)), (expected, expected));
        });
    }
}

pub fn are_changed(at: &Path) {
    let file = at.join("file");
    fs::write(&file, "").expect("a file");
    for asked in [0o600, 0o444, 0o000, 0o777, 0o640] {
        fs::set_permissions(&file, Permissions::from_mode(asked)).expect("it changes");
        assert_eq!(mode(&file), asked);
    }
    let link = at.join("link");
    std::os::unix::fs::symlink("file", &link).expect("a link");
    fs::set_permissions(&link, Permissions::from_mode(0o604)).expect("it changes what it leads to");
    assert_eq!(mode(&file), 0o604);
}

pub fn special_bits(at: &Path) {
    let (file, folder) = (at.join("file"), at.join("folder"));
    fs::write(&file, "").expect("a file");
    fs::create_dir(&folder).expect("a folder");
    for asked in [0o4755, 0o1777, 0o7777] {
        fs::set_permissions(&file, Permissions::from_mode(asked)).expect("it changes");
        fs::set_permissions(&folder, Permissions::from_mode(asked)).expect("it changes");
        assert_eq!((mode(&file), mode(&folder)), (asked, asked));
    }
}
