//! A device that is a sparse file: only what was written takes room on the disk.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use aquifer_device::{Device, DeviceError, Operation};

use crate::cleanup::{self, Guard};
use crate::error::{Error, Result};

const BLOCK_BYTES: usize = 4096;

/// Through the page cache, and slow; gone when dropped.
pub struct SparseFile {
    file: File,
    len_bytes: u64,
    _removed: Guard,
}

impl SparseFile {
    /// An empty one.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the file system has no files of that size, [`Error::Io`].
    pub fn create(path: &Path, len_bytes: u64) -> Result<Self> {
        let owned = path.to_owned();
        let removed = cleanup::register(move || drop(fs::remove_file(owned)));
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path);
        let file = file.map_err(Error::io("creating", path))?;
        file.set_len(len_bytes).map_err(|error| {
            Error::Unavailable(format!(
                "{} cannot be so long ({error}); give a smaller --size",
                path.display()
            ))
        })?;
        Ok(Self { file, len_bytes, _removed: removed })
    }
}

fn failure(operation: Operation, offset: u64, len_bytes: usize) -> impl Fn(io::Error) -> DeviceError {
    move |error| {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        DeviceError::Io { operation, offset, len_bytes, errno }
    }
}

impl Device for SparseFile {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn block_bytes(&self) -> usize {
        BLOCK_BYTES
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::result::Result<(), DeviceError> {
        let len_bytes = buf.len();
        self.file.read_exact_at(buf, offset).map_err(failure(Operation::Read, offset, len_bytes))
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> std::result::Result<(), DeviceError> {
        self.file.write_all_at(buf, offset).map_err(failure(Operation::Write, offset, buf.len()))
    }

    fn sync(&self) -> std::result::Result<(), DeviceError> {
        self.file.sync_data().map_err(failure(Operation::Sync, 0, 0))
    }

    fn discard(&self, _offset: u64, _len_bytes: u64) -> std::result::Result<(), DeviceError> {
        Ok(())
    }
}
