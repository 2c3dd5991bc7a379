//! What can go wrong when a page is needed.

use aquifer_base::{LogAddress, PageId};
use aquifer_device::DeviceError;
use aquifer_log::{ReadError, StopError};
use aquifer_sys::Errno;
use thiserror::Error;

/// Why a page could not be brought into RAM. `Copy`, so that it can be made in a fault handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum FaultError {
    /// The page belongs to no object.
    #[error("page {0:?} is not allocated")]
    NotAllocated(PageId),
    /// The device failed to read.
    #[error("reading page {page:?} failed: {error}")]
    Device {
        /// Which page.
        page: PageId,
        /// What the device said.
        error: DeviceError,
    },
    /// The record is not what was written: flash lost or changed it.
    #[error("the record of page {page:?} at {address:?} does not match its checksum")]
    Damaged {
        /// Which page.
        page: PageId,
        /// Where its record should be.
        address: LogAddress,
    },
    /// This process was forked, and its parent has used the flash that the page was on.
    #[error("page {0:?} of the process that forked this one is no longer on its flash; use more flash")]
    Gone(PageId),
    /// RAM is full of pages that cannot be written back, because the log stopped writing.
    #[error("no RAM can be freed for page {page:?}, because writing stopped: {error}")]
    Stopped {
        /// Which page.
        page: PageId,
        /// The error that stopped the log.
        error: StopError,
    },
    /// The kernel refused to map the page.
    #[error("the kernel refused to map page {page:?}: {errno}")]
    Map {
        /// Which page.
        page: PageId,
        /// The kernel's answer.
        errno: Errno,
    },
}

impl FaultError {
    pub(crate) fn from_read(page: PageId, error: ReadError) -> Self {
        match error {
            ReadError::Device(error) => Self::Device { page, error },
            ReadError::Mismatch { address, .. } => Self::Damaged { page, address },
        }
    }
}

/// Why pages could not be pinned or unpinned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum PinError {
    /// A page could not be brought in.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// More pages would be pinned than may be.
    #[error("{wanted} more pages cannot be pinned: {pinned} of at most {limit} are")]
    TooMany {
        /// Pages asked for.
        wanted: usize,
        /// Pages pinned now.
        pinned: usize,
        /// Most that may be.
        limit: usize,
    },
    /// The page is not pinned.
    #[error("page {0:?} is not pinned")]
    NotPinned(PageId),
}
