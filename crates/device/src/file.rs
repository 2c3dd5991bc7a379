//! Files and block devices.

mod direct;
mod foreign;
mod kernel;
mod open;
mod reserve;

pub(crate) use kernel::{lock_exclusive, punch_hole};

pub use open::Site;

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use aquifer_sys::descriptors;

use crate::batch::{self, Concurrency};
use crate::bounds::Bounds;
use crate::device::{Device, ReadRequest, WriteRequest};
use crate::error::{DeviceError, Operation};
use crate::positional;
use crate::{uring, workers};

/// Most transfers that a batch may have in flight.
const DEPTH_MAX: usize = 1024;

/// A regular file or a block device, owned by this process alone.
///
/// Single transfers are plain system calls and may run in fault handlers. Batches go through io_uring where
/// the system has it, else the calls of a batch are shared by a few threads of the device. See `open.rs` for the
/// ways to get one.
#[derive(Debug)]
pub struct FileDevice {
    file: File,
    path: PathBuf,
    kind: Kind,
    bounds: Bounds,
    direct: bool,
    remove_on_drop: bool,
    /// A forked child has a copy of the device but owns neither the file nor the lock on it.
    owner_pid: u32,
    concurrency: Concurrency,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// A file with a name, which this device made.
    Created,
    /// A file with a name, which was there before.
    Reused,
    /// A file that goes when it is closed.
    Unnamed,
    /// A block device.
    Block,
}

impl FileDevice {
    /// Whether transfers bypass the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Whether batches go through io_uring.
    pub fn is_uring(&self) -> bool {
        matches!(self.concurrency, Concurrency::Rings(_))
    }

    /// Threads that a device starts where this process is refused io_uring; 0 where it is not.
    ///
    /// # Context
    /// One system call, which makes nothing.
    pub fn threads() -> usize {
        if uring::is_refused() { workers::THREADS } else { 0 }
    }

    /// Makes batches go one by one from now on, without io_uring or threads: to compare, or where rings misbehave.
    pub fn disable_uring(&mut self) {
        self.concurrency = Concurrency::OneByOne;
    }

    /// Makes batches keep at most `depth` transfers in flight, 1 to 1024; without io_uring, at most as many as there are threads
    /// and one more. Where batches go one by one, nothing changes.
    pub fn set_depth(&mut self, depth: usize) {
        self.concurrency.set_depth(depth.clamp(1, DEPTH_MAX));
    }

    /// Transfers that a batch has in flight at most; `None` where batches go one by one.
    pub fn depth(&self) -> Option<usize> {
        self.concurrency.depth()
    }

    /// The most transfers that a batch ever had in flight; `None` where batches go one by one.
    pub fn in_flight_max(&self) -> Option<usize> {
        self.concurrency.in_flight_max()
    }

    /// Where the device is; for an unnamed file, its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that the file system under the device could still give; 0 when it does not say.
    pub fn available_bytes(&self) -> u64 {
        kernel::available_bytes(&self.file)
    }

    /// Another descriptor of the file, for a queue that lives as long as the device.
    pub(crate) fn file_for_queue(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Whether [`create`](Self::create) made the file, rather than found it.
    pub fn is_new(&self) -> bool {
        self.kind == Kind::Created
    }

    /// Whether to delete the file when the device is dropped. Only a file that this device made is ever
    /// deleted: one that was there before belongs to somebody.
    pub fn remove_on_drop(&mut self, remove: bool) {
        self.remove_on_drop = remove;
    }
}

impl Drop for FileDevice {
    fn drop(&mut self) {
        descriptors::forget(self.file.as_raw_fd());
        if std::process::id() != self.owner_pid {
            return;
        }
        // The name may have come to mean another file meanwhile. Nobody is left to hear that a deletion
        // failed.
        if self.remove_on_drop && self.kind == Kind::Created && is_same_file(&self.path, &self.file) {
            let _ = fs::remove_file(&self.path);
        }
        // Closing would do, but not while a child that is about to `exec` still has a copy of the descriptor.
        kernel::unlock(&self.file);
    }
}

/// Whether `path` leads to the open file.
fn is_same_file(path: &Path, file: &File) -> bool {
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match (fs::metadata(path), file.metadata()) {
        (Ok(named), Ok(open)) => identity(named) == identity(open),
        _ => false,
    }
}

impl Device for FileDevice {
    fn len_bytes(&self) -> u64 {
        self.bounds.device_bytes
    }

    fn block_bytes(&self) -> usize {
        self.bounds.block_bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.bounds.check_transfer(offset, buf)?;
        positional::read(&self.file, offset, buf, 0, self.bounds.block_bytes)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        self.bounds.check_transfer(offset, buf)?;
        positional::write(&self.file, offset, buf, 0, self.bounds.block_bytes)
    }

    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        batch::run(&self.file, self.bounds, &self.concurrency, requests);
    }

    fn write_batch(&self, requests: &mut [WriteRequest<'_>]) {
        batch::run(&self.file, self.bounds, &self.concurrency, requests);
    }

    /// By `fdatasync`: the size of the file does not change after it was opened.
    fn sync(&self) -> Result<(), DeviceError> {
        self.file.sync_data().map_err(|error| failure(Operation::Sync, 0, 0, &error))
    }

    /// Passed to block devices that can use it. Nothing happens to a file: a punched hole would give back the
    /// space that was reserved when it was opened, and the next write of the range could find the disk full.
    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), DeviceError> {
        self.bounds.check_range(offset, len_bytes)?;
        if self.kind != Kind::Block || len_bytes == 0 {
            return Ok(());
        }
        match kernel::discard_blocks(&self.file, offset, len_bytes) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
            result => result.map_err(|error| failure(Operation::Discard, offset, len_bytes as usize, &error)),
        }
    }
}

fn failure(operation: Operation, offset: u64, len_bytes: usize, error: &io::Error) -> DeviceError {
    positional::failure(operation, offset, len_bytes, positional::errno_of(error))
}

/// As [`descriptors::own`], for a type that owns its descriptor. The owner calls [`descriptors::forget`]
/// before it drops the file.
#[must_use]
pub fn own<T: Into<OwnedFd> + From<OwnedFd>>(file: T) -> T {
    let fd: OwnedFd = file.into();
    // SAFETY: the descriptor that is given back is open, and this function's alone, as the one that it was before.
    T::from(unsafe { OwnedFd::from_raw_fd(descriptors::own(fd.into_raw_fd())) })
}
