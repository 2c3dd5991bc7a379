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

/// Why a record could not be appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum AppendError {
    /// An earlier write failed; the log accepts no more, what it holds can still be read.
    #[error("the log stopped writing after a device error: {0}")]
    Stopped(DeviceError),
    /// Every segment is in use and none can be cleaned.
    #[error("the log is full")]
    Full,
    /// The log is being closed.
    #[error("the log is closing")]
    Closing,
}
