//! What can go wrong inside of flash.

use std::io;
use std::path::PathBuf;

use super::{BlockId, GeometryError, PageId};

/// A rule of NAND that its user broke. Real flash would lose data in silence.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Violation {
    /// No such page or block.
    #[error("{0} does not exist")]
    OutOfRange(PageId),
    /// Already programmed since the last erase.
    #[error("{page} was programmed since its block was erased; the next to program is number {next}")]
    ProgramTwice {
        /// The page.
        page: PageId,
        /// The page of its block that may be programmed.
        next: u32,
    },
    /// Not the next page of its block.
    #[error("{page} is out of order; the next to program in its block is number {next}")]
    OutOfOrder {
        /// The page.
        page: PageId,
        /// The page of its block that may be programmed.
        next: u32,
    },
    /// The block is marked bad.
    #[error("{0} is bad")]
    BadBlock(BlockId),
    /// The buffer is not as long as a page.
    #[error("{got} bytes were given for a page of {page_bytes}")]
    WrongLength {
        /// Bytes of a page.
        page_bytes: u32,
        /// Bytes given.
        got: usize,
    },
}

/// An operation that did not succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NandError {
    /// Against the rules. Nothing was done.
    #[error("rule broken: {0}")]
    Violation(#[from] Violation),
    /// More bits were wrong than the error correction mends.
    #[error("{page} cannot be read: {bits} bits are wrong")]
    Uncorrectable {
        /// The page.
        page: PageId,
        /// Wrong bits.
        bits: u32,
    },
    /// The page could not be programmed. It is used up, and its block should be retired.
    #[error("{0} could not be programmed")]
    ProgramFailed(PageId),
    /// The block could not be erased. It is bad now.
    #[error("{0} could not be erased")]
    EraseFailed(BlockId),
    /// The power is off.
    #[error("the power is off")]
    PowerLost,
    /// The file that holds the pages failed.
    #[error("the file behind the emulated flash failed: {}", io::Error::from_raw_os_error(*errno))]
    Backing {
        /// The system's error number.
        errno: i32,
    },
}

impl NandError {
    pub(super) fn backing(error: &io::Error) -> Self {
        NandError::Backing { errno: error.raw_os_error().unwrap_or(libc::EIO) }
    }
}

/// Why an emulated device could not be made or opened.
#[derive(Debug, thiserror::Error)]
pub enum NandOpenError {
    /// There can be no such device.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The new file could not be written.
    #[error(transparent)]
    New(#[from] NandError),
    /// The file is not one of an emulated device.
    #[error("{} is not the file of an emulated flash device; name another path, or remove it if nobody needs it", path.display())]
    NotNand {
        /// The file.
        path: PathBuf,
    },
    /// Written by another version.
    #[error("{} is of version {version}; use the program that made it", path.display())]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// The file has another geometry than was asked for, or is shorter than its own says.
    #[error("{} does not fit: {what}", path.display())]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        what: &'static str,
    },
    /// The system refused.
    #[error("{step} {} failed: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was being done.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
}
