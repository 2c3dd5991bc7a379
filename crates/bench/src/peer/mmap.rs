//! A preallocated file mapped into memory.

use std::fs::{self, OpenOptions};

use crate::error::{Error, Result};
use crate::objects::Objects;
use crate::peer::mapping::Mapping;
use crate::peer::{Peer, Setup};
use crate::workdir::reserve;

/// A shared mapping of an unlinked file.
#[derive(Debug)]
pub struct Mmap {
    memory: Mapping,
    object_bytes: usize,
    count: u64,
}

impl Mmap {
    /// Creates and maps the file. With `random` the kernel is told that accesses are random.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Unavailable`] if the disk has no room.
    pub fn open(setup: &Setup, random: bool) -> Result<Self> {
        let path = setup.dir.join(format!("aquifer-bench.mmap.{}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(Error::io("creating", &path))?;
        // Without a name it is gone with the process, however that ends.
        fs::remove_file(&path).map_err(Error::io("removing", &path))?;
        reserve(&file, &path, setup.data_bytes)?;
        let memory = Mapping::shared(&file, setup.data_bytes as usize)?;
        if random {
            memory.advise(libc::MADV_RANDOM)?;
        }
        Ok(Self { memory, object_bytes: setup.object_bytes as usize, count: setup.objects() })
    }
}

impl Peer for Mmap {
    fn objects(&self) -> Objects<'_> {
        // SAFETY: the mapping holds `count` objects and lives as long as the view; its file has no
        // name by which others could reach or shorten it.
        unsafe { Objects::new(self.memory.base(), self.object_bytes, self.object_bytes, self.count) }
    }

    fn quiesce(&self) {
        self.memory.sync();
    }
}
