//! Filled databases, the copy that a cell works on, and a connection with its settings.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use aquifer_base::units::format_size;
use aquifer_bench::cleanup::{self, Guard};
use aquifer_bench::error::{Error, Result};
use aquifer_bench::sqlite::connection::Connection;
use aquifer_bench::sqlite::{CACHE_HIT, CACHE_MISS, CACHE_USED, Journal, Kind};
use aquifer_bench::workdir::free_bytes;
use serde::{Deserialize, Serialize};

/// What databases may have.
pub const PAGE_BYTES_MIN: u64 = 512;
/// As above.
pub const PAGE_BYTES_MAX: u64 = 64 << 10;
/// Buffer while a database is filled.
const FILL_BUFFER_BYTES: u64 = 64 << 20;

/// What a cell sets.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// The database's file.
    pub path: PathBuf,
    /// Its pages.
    pub page_bytes: u64,
    /// SQLite's own buffer.
    pub buffer_bytes: u64,
    /// How transactions survive.
    pub journal: Journal,
    /// The write-ahead log is copied into the database when it is as long.
    pub log_bytes: u64,
}

/// An empty database with pages of that size, to be filled: nothing is durable before [`sync`].
///
/// # Errors
/// Those of [`Connection`].
pub fn create(path: &Path, page_bytes: u64) -> Result<Connection> {
    let connection = Connection::open(path)?;
    connection.execute(&format!(
        "PRAGMA page_size = {page_bytes}; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -{}",
        FILL_BUFFER_BYTES >> 10
    ))?;
    Ok(connection)
}

/// The database as the cell wants it, but with commits that do not wait until [`make_durable`].
///
/// # Errors
/// Those of [`Connection`]; [`Error::WrongData`] if the pages have another size.
pub fn open(settings: &Settings) -> Result<Connection> {
    let connection = Connection::open(&settings.path)?;
    let log_pages = (settings.log_bytes / settings.page_bytes).max(1);
    connection.execute(&format!(
        "PRAGMA cache_size = -{}; PRAGMA mmap_size = 0; PRAGMA journal_mode = {}; PRAGMA wal_autocheckpoint = {log_pages}; \
         PRAGMA synchronous = OFF; PRAGMA temp_store = MEMORY",
        settings.buffer_bytes >> 10,
        settings.journal,
    ))?;
    let page_bytes = connection.number("PRAGMA page_size")?;
    if page_bytes as u64 != settings.page_bytes {
        let what = format!("pages of {page_bytes} bytes, expected {}", settings.page_bytes);
        return Err(Error::WrongData { peer: "SQLite".to_owned(), what });
    }
    Ok(connection)
}

/// Brings everything so far to the device; from now on every commit waits until it is there.
///
/// # Errors
/// Those of [`Connection`], [`Error::Io`].
pub fn make_durable(connection: &Connection, settings: &Settings) -> Result<()> {
    // The log's file stays as long as it is: making it grow again would be measured else.
    connection.execute("PRAGMA wal_checkpoint(RESTART); PRAGMA synchronous = FULL")?;
    sync(&settings.path)
}

/// Waits until the file at `path` is on the device.
///
/// # Errors
/// [`Error::Io`].
pub fn sync(path: &Path) -> Result<()> {
    let file = File::open(path).map_err(Error::io("opening", path))?;
    file.sync_all().map_err(Error::io("syncing", path))
}

/// What SQLite counts of its buffer since the connection was opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Buffer {
    /// Bytes in use now.
    pub used_bytes: u64,
    /// Pages found.
    pub hits: u64,
    /// Pages read.
    pub misses: u64,
}

impl Buffer {
    /// That of `connection` now.
    ///
    /// # Errors
    /// Those of [`Connection`].
    pub fn now(connection: &Connection) -> Result<Self> {
        Ok(Self {
            used_bytes: connection.status(CACHE_USED)?,
            hits: connection.status(CACHE_HIT)?,
            misses: connection.status(CACHE_MISS)?,
        })
    }

    /// What happened since `before`. The counters are of 32 bits and wrap.
    pub fn since(self, before: Self) -> Self {
        let wrapped = |now: u64, before: u64| u64::from((now as u32).wrapping_sub(before as u32));
        Self {
            used_bytes: self.used_bytes,
            hits: wrapped(self.hits, before.hits),
            misses: wrapped(self.misses, before.misses),
        }
    }
}

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
