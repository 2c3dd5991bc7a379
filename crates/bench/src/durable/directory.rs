//! The directory for the files of stores, of which one is there at a time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aquifer_base::units::format_size;
use aquifer_durable::persist::Medium;
use serde::{Deserialize, Serialize};

use super::cell::{LoadOptions, Task};
use crate::cleanup::{self, Guard};
use crate::error::{Error, Result};
use crate::payload::Payload;
use crate::study::Session;
use crate::workdir::free_bytes;

/// Below the directory of the command line; ours alone, because that one is locked.
const DIR: &str = "aquifer-bench-durable";
/// A file's length is a multiple of this.
const CAPACITY_STEP_BYTES: u64 = 1 << 20;
const COUNT_MAX: u64 = 1_000_000_000;

/// What every store is given.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// Directory for its files, which somebody else removes.
    pub dir: PathBuf,
    /// Whether what is stored in a mapped file there needs no system call to be durable (DAX), or is in RAM (tmpfs).
    pub is_memory: bool,
    /// How large its file may become.
    pub capacity_bytes: u64,
    /// Least time of a persist to emulated memory.
    pub latency_ns: u64,
    /// Bytes that emulated memory persists in a second.
    pub bandwidth_bytes_per_s: u64,
    /// What the values look like.
    pub payload: Payload,
    /// Measured transactions of all threads.
    pub transactions: u64,
    /// They end after this time.
    pub limit: Duration,
    /// The transactions before them end after this time.
    pub warmup: Duration,
}

impl Setup {
    /// The store's file.
    pub fn path(&self) -> PathBuf {
        self.dir.join("heap")
    }

    /// An error that a library reports of that file.
    pub fn failed(&self, doing: &'static str, error: impl std::fmt::Display) -> Error {
        failed(doing, &self.path(), error)
    }
}

/// An error that a library reports of a file.
pub fn failed(doing: &'static str, path: &Path, error: impl std::fmt::Display) -> Error {
    Error::io(doing, path)(io::Error::other(error.to_string()))
}

/// The directory for the stores; removed when dropped, and by an interrupt.
pub struct Directory {
    path: PathBuf,
    _removed: Guard,
}

impl Directory {
    /// An empty one below the folder of `session`.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create(session: &Session) -> Result<Self> {
        let path = session.common.dir.join(DIR);
        let removed = path.clone();
        let removed = cleanup::register(move || {
            if let Err(error) = fs::remove_dir_all(&removed) {
                eprintln!("removing {}: {error}", removed.display());
            }
        });
        let directory = Self { path, _removed: removed };
        fs::create_dir_all(&directory.path).map_err(Error::io("creating", &directory.path))?;
        directory.make_empty()?;
        Ok(directory)
    }

    /// Removes the files of the last store, or what a benchmark left that was killed. The directory stays: an interrupt may be
    /// removing it, and must not find it made again.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn make_empty(&self) -> Result<()> {
        cleanup::stop_if_interrupted();
        for entry in fs::read_dir(&self.path).map_err(Error::io("reading", &self.path))? {
            let file = entry.map_err(Error::io("reading", &self.path))?.path();
            fs::remove_file(&file).map_err(Error::io("removing", &file))?;
        }
        Ok(())
    }

    /// What every store of a study is given, whose files may become as large as `capacity_bytes`.
    ///
    /// # Errors
    /// [`Error::Input`] for a count that makes no sense; [`Error::Unavailable`] without room; [`Error::Io`].
    pub fn setup(&self, session: &Session, options: &LoadOptions, capacity_bytes: u64) -> Result<Setup> {
        if !(1..=COUNT_MAX).contains(&options.count) {
            return Err(Error::Input("--count is from 1 to 1000M".to_owned()));
        }
        Ok(Setup {
            latency_ns: options.latency_ns,
            bandwidth_bytes_per_s: options.bandwidth,
            transactions: options.count,
            ..self.files(session, capacity_bytes)?
        })
    }

    /// [`Directory::setup`] for a study that counts no transactions.
    ///
    /// # Errors
    /// As [`Directory::setup`].
    pub fn files(&self, session: &Session, capacity_bytes: u64) -> Result<Setup> {
        let capacity_bytes = capacity_bytes.next_multiple_of(CAPACITY_STEP_BYTES);
        let free = free_bytes(&self.path)?;
        if capacity_bytes > free {
            let [needed, free] = [capacity_bytes, free].map(format_size);
            let dir = self.path.display();
            return Err(Error::Unavailable(format!("{needed} are needed in {dir}, which has {free} left")));
        }
        let probe = self.path.join("probe");
        let medium = Medium::of(&probe).map_err(|error| failed("looking at", &probe, error))?;
        let is_memory = medium != Medium::Disk;
        let (limit, warmup) = (session.common.seconds, session.common.warmup);
        Ok(Setup {
            dir: self.path.clone(),
            is_memory,
            capacity_bytes,
            latency_ns: 0,
            bandwidth_bytes_per_s: 0,
            payload: session.payload,
            transactions: 0,
            limit: Duration::from_secs_f64(limit),
            warmup: Duration::from_secs_f64(warmup),
        })
    }

    /// Measures all systems at all points, each run in new files and by a process of its own.
    ///
    /// # Errors
    /// Those of [`Session::turns`].
    pub fn turns<S: Copy + ToString + Serialize, P: Clone + Serialize>(
        &self,
        session: &mut Session,
        systems: &[S],
        points: Vec<P>,
        setup: &Setup,
    ) -> Result<()> {
        session.turns(systems, points, |session, cell, run| {
            self.make_empty()?;
            let (system, point) = (cell.peer, cell.point.clone());
            let task = Task { system, point, run, setup: setup.clone() };
            session.child(&system.to_string(), &task, None)
        })
    }
}
