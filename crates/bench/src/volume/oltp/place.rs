//! Where databases are, filled ones and the copies that runs work on, and the library with the volume's VFS.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use aquifer_volume::{Volume, image};
use serde::{Deserialize, Serialize};

use super::super::file::failed;
use super::super::source::{check_room, image_bytes_for, write_once};
use crate::cleanup::{self, Guard};
use crate::error::{Error, Result};

const DIR: &str = "aquifer-bench-oltp";
const LIBRARY: &str = "libaquifer_sqlite.so";
const LIBRARY_FOLDERS: [&str; 2] = ["build/lib", "/usr/local/lib"];
/// What SQLite may have left beside a copy.
const BESIDE: [&str; 3] = ["host.copy-wal", "host.copy-shm", "host.copy-journal"];
const ROOM_BYTES: u64 = 1 << 30;
/// Rows fill pages differently, and databases grow.
const GROWTH: u64 = 2;

/// What holds a database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The host's file system.
    FileSystem,
    /// A volume on it.
    Volume,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FileSystem => "file system",
            Self::Volume => "volume",
        })
    }
}

/// A database, and how to get at it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Database {
    /// The file of the database, or of the volume that it is in.
    pub path: PathBuf,
    /// The library with the VFS, if it is in a volume.
    pub library: Option<PathBuf>,
}

/// Databases of one load; removed when dropped, and by an interrupt.
pub struct Places {
    dir: PathBuf,
    library: Option<PathBuf>,
    _removed: Guard,
}

impl Places {
    /// Nothing on the file system, and an empty volume, if there is a library to use it.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Unavailable`] without room.
    pub fn create(dir: &Path, fill_percent: u32, data_bytes: u64, library: Option<PathBuf>) -> Result<Self> {
        let image_bytes = image_bytes_for(GROWTH * data_bytes, fill_percent);
        check_room(dir, 2 * (GROWTH * data_bytes + image_bytes) + ROOM_BYTES)?;
        let dir = dir.join(DIR);
        // What a benchmark left that was killed.
        remove(&dir);
        let removed = dir.clone();
        let removed = cleanup::register(move || remove(&removed));
        fs::create_dir(&dir).map_err(Error::io("creating", &dir))?;
        let places = Self { dir, library, _removed: removed };
        if places.library.is_some() {
            let path = places.filled(Place::Volume).path;
            write_once(&path, image_bytes).map_err(Error::io("writing", &path))?;
            image::new_medium(&path, image_bytes, 0)
                .and_then(|medium| Volume::create(medium, (0, 0)))
                .map_err(failed("making a volume in", &path))?;
        }
        Ok(places)
    }

    /// The database that is filled once.
    pub fn filled(&self, place: Place) -> Database {
        self.database(place, "filled")
    }

    fn database(&self, place: Place, which: &str) -> Database {
        match place {
            Place::FileSystem => Database { path: self.dir.join(format!("host.{which}")), library: None },
            Place::Volume => {
                Database { path: self.dir.join(format!("volume.{which}")), library: self.library.clone() }
            }
        }
    }

    /// A copy of it, on the device and not in the kernel's page cache.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn restore(&self, place: Place) -> Result<Database> {
        for path in BESIDE.map(|name| self.dir.join(name)) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io("removing", &path)(error));
                }
                _ => {}
            }
        }
        let copied = self.database(place, "copy");
        copy(&self.filled(place).path, &copied.path).map_err(Error::io("copying to", &copied.path))?;
        Ok(copied)
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut from = File::open(from)?;
    let mut to = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(to)?;
    let bytes = io::copy(&mut from, &mut to)?;
    to.set_len(bytes)?;
    to.sync_all()?;
    for file in [&from, &to] {
        // SAFETY: a plain call on an open descriptor; only clean pages leave the cache.
        match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
            0 => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
    Ok(())
}

fn remove(path: &Path) {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            eprintln!("could not remove {}: {error}", path.display());
        }
        _ => {}
    }
}

/// The library that was given, or the first that there is; an absolute path.
pub fn find_library(given: Option<&Path>) -> Option<PathBuf> {
    let program = std::env::current_exe().ok();
    let beside = program.iter().filter_map(|program| Some(program.parent()?.join(LIBRARY)));
    let others = LIBRARY_FOLDERS.iter().map(|folder| Path::new(folder).join(LIBRARY));
    let candidates: Vec<PathBuf> = match given {
        Some(path) => vec![path.to_owned()],
        None => beside.chain(others).collect(),
    };
    candidates.into_iter().find_map(|path| path.canonicalize().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_counts_if_it_is_there() {
        let here = std::env::current_exe().expect("a test is a program");
        assert_eq!(find_library(Some(&here)), here.canonicalize().ok());
        assert_eq!(find_library(Some(Path::new("/nowhere/libaquifer_sqlite.so"))), None);
    }
}
