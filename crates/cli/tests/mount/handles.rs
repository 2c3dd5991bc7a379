//! Handles of files, which NFS servers give to their clients: they are good for as long as the file has a name.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::ground::{Mount, VOLUME_BYTES, cannot_mount, is_root, skipped};

/// A `struct file_handle` with the most bytes that there may be.
#[repr(C)]
struct Handle {
    len_bytes: u32,
    kind: i32,
    bytes: [u8; 128],
}

impl Handle {
    fn of(path: &Path) -> Handle {
        let name = CString::new(path.as_os_str().as_bytes()).expect("no NUL");
        let mut handle = Handle { len_bytes: 128, kind: 0, bytes: [0; 128] };
        let (at, flags, mut mount) = (libc::AT_FDCWD, 0, 0);
        // SAFETY: the path ends with a NUL, and the handle has the room that it says.
        let outcome = unsafe {
            let (handle, mount): (*mut Handle, *mut i32) = (&raw mut handle, &raw mut mount);
            libc::syscall(libc::SYS_name_to_handle_at, at, name.as_ptr(), handle, mount, flags)
        };
        assert_eq!(outcome, 0, "{}", io::Error::last_os_error());
        handle
    }

    fn open(&self, folder: &Path) -> io::Result<File> {
        let folder = File::open(folder)?;
        // SAFETY: the kernel reads the handle, and no more of it than it says.
        let opened = unsafe {
            libc::syscall(libc::SYS_open_by_handle_at, folder.as_raw_fd(), &raw const *self, libc::O_RDONLY)
        };
        if opened < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened it for this.
        Ok(unsafe { File::from_raw_fd(opened as i32) })
    }
}

/// With this nothing of the volume is in the kernel any more.
fn remount(mount: &mut Mount) {
    mount.stop();
    mount.start(&[]);
}

#[test]
fn handles_are_good_while_the_file_has_a_name() {
    let test = "handles_are_good_while_the_file_has_a_name";
    if let Some(reason) = cannot_mount() {
        return skipped(test, &reason);
    }
    if !is_root() {
        return skipped(test, "only root may open by a handle");
    }
    let mut mount = Mount::new(VOLUME_BYTES);
    let outer = mount.folder.join("outer");
    let inner = outer.join("inner");
    fs::create_dir_all(&inner).expect("folders");
    fs::write(inner.join("file"), "bytes").expect("a file");
    let (of_file, of_folder) = (Handle::of(&inner.join("file")), Handle::of(&inner));
    remount(&mut mount);
    let mut text = String::new();
    of_file.open(&mount.folder).expect("it opens").read_to_string(&mut text).expect("it reads");
    assert_eq!(text, "bytes");
    let folder = of_folder.open(&mount.folder).expect("it opens");
    let path = fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd())).expect("it has a path");
    assert_eq!(path, inner);
    drop(folder);
    fs::rename(inner.join("file"), outer.join("moved")).expect("it moves");
    remount(&mut mount);
    let moved = of_file.open(&mount.folder).and_then(|file| file.metadata()).expect("it opens");
    assert_eq!(moved.len(), 5);
    fs::remove_file(outer.join("moved")).expect("it goes");
    // Another file may get its number.
    (0..4).for_each(|n| fs::write(outer.join(n.to_string()), "other bytes").expect("a file"));
    remount(&mut mount);
    let gone = of_file.open(&mount.folder).expect_err("the file is gone");
    assert_eq!(gone.raw_os_error(), Some(libc::ESTALE));
    mount.end();
}
