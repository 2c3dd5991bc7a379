//! The directory for the files of stores, of which one is there at a time.

use std::fs;
use std::path::{Path, PathBuf};

use aquifer_base::units::format_size;
use aquifer_durable::persist::is_memory;

use super::store::failed;
use crate::cleanup::{self, Guard};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::workdir::free_bytes;

/// Below the directory of the command line; ours alone, because that one is locked.
const DIR: &str = "aquifer-bench-durable";

/// The directory for the stores; removed when dropped, and by an interrupt.
pub struct Directory {
    path: PathBuf,
    /// Whether what is there is in memory.
    is_memory: bool,
    _removed: Guard,
}

impl Directory {
    /// An empty one below `parent`.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create(parent: &Path) -> Result<Self> {
        let path = parent.join(DIR);
        let removed = path.clone();
        let removed = cleanup::register(move || {
            if let Err(error) = fs::remove_dir_all(&removed) {
                eprintln!("removing {}: {error}", removed.display());
            }
        });
        let mut directory = Self { path, is_memory: false, _removed: removed };
        fs::create_dir_all(&directory.path).map_err(Error::io("creating", &directory.path))?;
        directory.make_empty()?;
        directory.is_memory = directory.probe()?;
        Ok(directory)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its files are in memory.
    pub fn is_memory(&self) -> bool {
        self.is_memory
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

    /// Refuses a store that would not fit.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with both numbers.
    pub fn check_room(&self, needed: u64) -> Result<()> {
        let free = free_bytes(&self.path)?;
        if needed <= free {
            return Ok(());
        }
        let (needed, free, dir) = (format_size(needed), format_size(free), self.path.display());
        Err(Error::Unavailable(format!("{needed} are needed in {dir}, which has {free} left")))
    }

    /// What the files are on, for the record.
    pub fn device_name(&self) -> String {
        match Device::holding(&self.path) {
            Ok(device) => device.name().to_owned(),
            Err(_) if self.is_memory => "tmpfs".to_owned(),
            Err(_) => "unknown".to_owned(),
        }
    }

    fn probe(&self) -> Result<bool> {
        let probe = self.path.join("probe");
        let found = is_memory(&probe).map_err(|error| failed("looking at", &probe, error))?;
        fs::remove_file(&probe).map_err(Error::io("removing", &probe))?;
        Ok(found)
    }
}
