//! What can go wrong with the log.

use aquifer_base::LogAddress;
use aquifer_device::DeviceError;
use thiserror::Error;

use crate::record::RecordId;

/// Why a record could not be read. `Copy`, so that it can be made in a fault handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ReadError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The bytes at the address are not the record that was asked for: either it has been moved since
    /// the address was looked up, or the device returned wrong bytes.
    #[error("no record {wanted:?} with a matching checksum at {address:?}")]
    Mismatch {
        /// Where it should be.
        address: LogAddress,
        /// What should be there.
        wanted: RecordId,
    },
}

/// Why the log accepts no more records. What it holds can still be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum StopError {
    /// A write failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Segments that could not be read back are kept as they are, and without them there is no room.
    #[error("{segments} segments of the log could not be read back, and there is no room in the others")]
    Retired {
        /// How many.
        segments: u32,
    },
}

/// Why a record could not be appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum AppendError {
    /// The log accepts no more.
    #[error("the log stopped writing: {0}")]
    Stopped(StopError),
    /// Every segment is in use and none can be cleaned.
    #[error("the log is full")]
    Full,
    /// The log is being closed.
    #[error("the log is closing")]
    Closing,
}
