//! The directory that holds the files of a run.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Keeps a second benchmark out of `dir` until dropped or until the process ends.
#[derive(Debug)]
pub struct WorkDir {
    path: PathBuf,
    _file: File,
}

impl WorkDir {
    /// Locks `dir`, which must exist.
    ///
    /// # Errors
    /// [`Error::Io`] if it does not exist, [`Error::Input`] if another benchmark runs there.
    pub fn acquire(dir: &Path) -> Result<Self> {
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

/// Reserves disk space for the first `bytes` of `file`.
///
/// # Errors
/// [`Error::Unavailable`] when the disk is full or the file system cannot reserve.
pub fn reserve(file: &File, path: &Path, bytes: u64) -> Result<()> {
    let length = libc::off_t::try_from(bytes).map_err(|_| Error::Input(format!("{bytes} bytes is no file size")))?;
    // SAFETY: the descriptor is open for the whole call.
    if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length) } == 0 {
        return Ok(());
    }
    let size = aquifer_base::units::format_size(bytes);
    let reason = Error::last_os("reserving", path);
    Err(Error::Unavailable(format!("{size} of disk are needed: {reason}")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_directory_is_locked_once() {
        let dir = std::env::temp_dir().join(format!("aquifer-bench-lock-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a temporary directory");
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
