//! What can go wrong when a page is needed.

use aquifer_base::{LogAddress, PageId};
use aquifer_device::DeviceError;
use aquifer_log::{ReadError, StopError};
use aquifer_sys::Errno;
use thiserror::Error;

/// What somebody waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Another thread holds the page's entry: it brings the page in, or takes it away.
    Moving,
    /// The page is used in its slot, by a reference or a batch.
    Used,
    /// All RAM for pages of this size is held, or not written back yet.
    Room,
}

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
    /// The page cannot be brought in now; trying again is right.
    #[error("page {page:?} cannot be had now ({reason:?}); try again")]
    Again {
        /// Which page.
        page: PageId,
        /// What was waited for.
        reason: Reason,
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
    Fault(FaultError),
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
    /// The page is used where it is in RAM by somebody, who did not end that in time.
    #[error("page {0:?} is used in its slot, so it cannot be pinned at its address; end the reference first")]
    InUse(PageId),
    /// All RAM that the page could be in is held.
    #[error("no RAM for page {0:?}: all of it is in use by references and pins; end some")]
    Crowded(PageId),
    /// The page is not pinned.
    #[error("page {0:?} is not pinned")]
    NotPinned(PageId),
}

impl From<FaultError> for PinError {
    fn from(error: FaultError) -> Self {
        match error {
            FaultError::Again { page, reason: Reason::Used } => Self::InUse(page),
            FaultError::Again { page, reason: Reason::Room } => Self::Crowded(page),
            error => Self::Fault(error),
        }
    }
}
