//! The directory that holds the files of a run.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Keeps a second benchmark out of `dir` until dropped or until the process ends.
#[derive(Debug)]
pub struct WorkDir {
    path: PathBuf,
    _file: File,
}

impl WorkDir {
    /// Locks `dir`, creating it if need be.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be used, [`Error::Input`] if another benchmark runs there.
    pub fn acquire(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir).map_err(Error::io("creating", dir))?;
        let file = File::open(dir).map_err(Error::io("opening", dir))?;
        // SAFETY: the descriptor is open for the whole call.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            return Err(Error::Input(format!("another benchmark is running in {}", dir.display())));
        }
        Ok(Self { path: dir.to_owned(), _file: file })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A file for reading and appending that is gone when the last descriptor is closed; `path` has its name for a moment.
///
/// # Errors
/// [`Error::Io`].
pub fn unnamed_file(path: &Path) -> Result<File> {
    let file = OpenOptions::new().read(true).append(true).create_new(true).open(path);
    let file = file.map_err(Error::io("creating", path))?;
    fs::remove_file(path).map_err(Error::io("removing", path))?;
    Ok(file)
}

/// Reserves disk space for the first `bytes` of `file`.
///
/// # Errors
/// [`Error::Unavailable`] when the disk is full or the file system cannot reserve.
pub fn reserve(file: &File, path: &Path, bytes: u64) -> Result<()> {
    let length =
        libc::off_t::try_from(bytes).map_err(|_| Error::Input(format!("{bytes} bytes is no file size")))?;
    // SAFETY: the descriptor is open for the whole call.
    if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length) } == 0 {
        return Ok(());
    }
    let size = aquifer_base::units::format_size(bytes);
    let reason = Error::last_os("reserving", path);
    Err(Error::Unavailable(format!("{size} of disk are needed: {reason}")))
}

/// Bytes that the file system of `dir` has left.
///
/// # Errors
/// [`Error::Io`].
pub fn free_bytes(dir: &Path) -> Result<u64> {
    let name = c_path(dir);
    // SAFETY: a zeroed statvfs is valid.
    let mut answer: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a terminated string and room for the answer.
    match unsafe { libc::statvfs(name.as_ptr(), &mut answer) } {
        0 => Ok(answer.f_bavail * answer.f_frsize),
        _ => Err(Error::last_os("looking at", dir)),
    }
}

/// `path` for a system call; paths that came from the system have no zero byte, others end there.
pub fn c_path(path: &Path) -> CString {
    let bytes = path.as_os_str().as_bytes().iter().copied();
    CString::new(bytes.take_while(|byte| *byte != 0).collect::<Vec<_>>()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_locked_once() {
        let dir = std::env::temp_dir().join(format!("aquifer-bench-lock-{}", std::process::id()));
        let lock = WorkDir::acquire(&dir).expect("nobody else has it");
        assert!(matches!(WorkDir::acquire(&dir), Err(Error::Input(_))));
        drop(lock);
        WorkDir::acquire(&dir).expect("given back");
        fs::remove_dir(&dir).expect("empty");
    }

    #[test]
    fn reserving_more_than_a_disk_says_so() {
        let path = std::env::temp_dir().join(format!("aquifer-bench-reserve-{}", std::process::id()));
        let file = File::create(&path).expect("a temporary file");
        let refused = reserve(&file, &path, 1 << 60);
        fs::remove_file(&path).expect("was created");
        assert!(matches!(refused, Err(Error::Unavailable(reason)) if reason.contains("1048576 TiB")));
    }
}
