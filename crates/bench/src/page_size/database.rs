//! A connection with the settings of a cell.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::connection::Connection;
use super::sqlite_abi::{CACHE_HIT, CACHE_MISS, CACHE_USED};
use crate::error::{Error, Result};

/// What databases may have.
pub const PAGE_BYTES_MIN: u64 = 512;
/// As above.
pub const PAGE_BYTES_MAX: u64 = 64 << 10;
/// Buffer while a database is filled.
const FILL_BUFFER_BYTES: u64 = 64 << 20;

/// How a transaction survives a crash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Journal {
    /// New pages are appended to a log, one sync for each commit.
    Wal,
    /// Old pages are saved in a file that the commit deletes, several syncs for each commit.
    Delete,
}

impl fmt::Display for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wal => "wal",
            Self::Delete => "delete",
        })
    }
}

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
    /// The write-ahead log is copied into the database when it has so many bytes.
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
