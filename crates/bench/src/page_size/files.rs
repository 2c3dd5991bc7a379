//! Filled databases, and the copy that a cell works on.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use aquifer_base::units::format_size;

use super::load::Kind;
use crate::cleanup::{self, Guard};
use crate::error::{Error, Result};
use crate::workdir::free_bytes;

/// Below the directory of the command line; ours alone, because that one is locked.
const DIR: &str = "aquifer-bench-page-size";
const COPY: &str = "copy.db";
/// What SQLite may have left beside the copy.
const BESIDE: [&str; 3] = ["copy.db-wal", "copy.db-shm", "copy.db-journal"];
/// A file may be made while an interrupt removes the directory.
const REMOVE_TRIES: u32 = 5;

/// The directory with all databases; removed when dropped, and by an interrupt.
pub struct Files {
    path: PathBuf,
    _removed: Guard,
}

impl Files {
    /// An empty one below `parent`, where `needed_bytes` have room.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Unavailable`] without room.
    pub fn create(parent: &Path, needed_bytes: u64) -> Result<Self> {
        let path = parent.join(DIR);
        // What a benchmark left that was killed.
        remove(&path);
        let free = free_bytes(parent)?;
        if needed_bytes > free {
            let (needed, free, dir) = (format_size(needed_bytes), format_size(free), parent.display());
            return Err(Error::Unavailable(format!("{needed} are needed in {dir}, which has {free} left")));
        }
        let removed = path.clone();
        let removed = cleanup::register(move || remove(&removed));
        fs::create_dir(&path).map_err(Error::io("creating", &path))?;
        Ok(Self { path, _removed: removed })
    }

    /// The filled database of a load with pages of that size.
    pub fn filled(&self, load: Kind, page_bytes: u64) -> PathBuf {
        self.path.join(format!("{load}-{page_bytes}.db"))
    }

    /// Makes the copy equal to a filled database, on the device and not in the kernel's page cache. The same blocks of the disk are used
    /// again and again.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn restore(&self, load: Kind, page_bytes: u64) -> Result<PathBuf> {
        cleanup::stop_if_interrupted();
        for name in BESIDE {
            let path = self.path.join(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io("removing", &path)(error));
                }
                _ => {}
            }
        }
        let (from, to) = (self.filled(load, page_bytes), self.path.join(COPY));
        copy(&from, &to).map_err(Error::io("copying to", &to))?;
        Ok(to)
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut from = File::open(from)?;
    let mut to = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(to)?;
    let bytes = io::copy(&mut from, &mut to)?;
    to.set_len(bytes)?;
    to.sync_all()?;
    // SAFETY: a plain call on an open descriptor; only clean pages leave the cache.
    match unsafe { libc::posix_fadvise(to.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

fn remove(path: &Path) {
    for _ in 0..REMOVE_TRIES {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {}
            _ => return,
        }
    }
    eprintln!("could not remove {}", path.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_equal_and_everything_goes() {
        let parent = std::env::temp_dir().join(format!("aquifer-bench-files-{}", std::process::id()));
        fs::create_dir(&parent).expect("a temporary directory");
        assert!(matches!(Files::create(&parent, u64::MAX), Err(Error::Unavailable(_))));
        let files = Files::create(&parent, 1).expect("room for a byte");
        for (load, bytes) in [(Kind::TpcB, 3 << 20), (Kind::TpcC, 5000)] {
            let content: Vec<u8> = (0..bytes).map(|n| (n % 251) as u8).collect();
            fs::write(files.filled(load, 4096), &content).expect("room");
            fs::write(parent.join(DIR).join("copy.db-wal"), "old").expect("room");
            let copy = files.restore(load, 4096).expect("it is filled");
            assert_eq!(fs::read(copy).expect("just copied"), content);
            assert!(!parent.join(DIR).join("copy.db-wal").exists());
        }
        drop(files);
        fs::remove_dir(&parent).expect("nothing is left in it");
    }
}
