//! What can go wrong with a device: during a transfer, and when it is opened.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What a device was asked to do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// Device to memory.
    Read,
    /// Memory to device.
    Write,
    /// Make earlier writes durable.
    Sync,
    /// Tell the device that a range is no longer needed.
    Discard,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Sync => "sync",
            Operation::Discard => "discard",
        })
    }
}

/// A transfer that did not happen, or not wholly. `Copy` and without heap memory, so that a fault handler can
/// make one; the text is made only where it is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DeviceError {
    /// The kernel or the hardware refused.
    #[error("{operation} of {len_bytes} bytes at offset {offset} failed: {}", ErrnoText(*.errno))]
    Io {
        /// What was asked.
        operation: Operation,
        /// First byte of the request.
        offset: u64,
        /// Length of the request.
        len_bytes: usize,
        /// The system's error number.
        errno: i32,
    },
    /// The device ended the transfer early without saying why, as a file cut short behind our back does.
    #[error(
        "{operation} at offset {offset} moved {got} of {wanted} bytes; was the file cut by someone else?"
    )]
    ShortTransfer {
        /// What was asked.
        operation: Operation,
        /// First byte of the request.
        offset: u64,
        /// Bytes asked for.
        wanted: usize,
        /// Bytes that moved.
        got: usize,
    },
    /// No space is left where the device keeps its bytes.
    #[error("no space left for a write of {len_bytes} bytes at offset {offset}")]
    Full {
        /// First byte of the request.
        offset: u64,
        /// Length of the request.
        len_bytes: usize,
    },
    /// The flash has too few good blocks left.
    #[error(
        "the flash is worn out and refuses a write of {len_bytes} bytes at offset {offset}; what it holds can still be read"
    )]
    WornOut {
        /// First byte of the request.
        offset: u64,
        /// Length of the request.
        len_bytes: usize,
    },
    /// The request does not lie inside the device.
    #[error("{len_bytes} bytes at offset {offset} do not lie inside a device of {device_bytes} bytes")]
    OutOfRange {
        /// First byte of the request.
        offset: u64,
        /// Length of the request.
        len_bytes: u64,
        /// Size of the device.
        device_bytes: u64,
    },
    /// Offset, length or memory is not a multiple of the block.
    #[error(
        "offset {offset}, length {len_bytes} or the memory's address is not a multiple of {block_bytes} bytes"
    )]
    Misaligned {
        /// First byte of the request.
        offset: u64,
        /// Length of the request.
        len_bytes: u64,
        /// The multiple that all three must be.
        block_bytes: usize,
    },
}

/// An error number with the system's own words for it.
struct ErrnoText(i32);

impl fmt::Display for ErrnoText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        io::Error::from_raw_os_error(self.0).fmt(f)
    }
}

/// Why a device could not be opened, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Nothing is there, nor the folder that it would be made in.
    #[error(
        "{} or its folder does not exist; create the folder, or name another path",
        path.display()
    )]
    Missing {
        /// What was to be opened.
        path: PathBuf,
    },
    /// The system does not let this process read and write it.
    #[error(
        "no permission to read and write {}; name another path, or run as a user who may",
        path.display()
    )]
    PermissionDenied {
        /// What was to be opened.
        path: PathBuf,
    },
    /// It would be overwritten.
    #[error(
        "{} holds data, which would be overwritten; name another path, or empty it with `truncate -s 0 {}` if nobody needs them", path.display(), path.display()
    )]
    HoldsData {
        /// What was to be opened.
        path: PathBuf,
    },
    /// The block device is smaller than was asked, or smaller than one block.
    #[error(
        "{} has {actual} bytes, {needed} are needed; use a larger device or ask for less",
        path.display()
    )]
    TooSmall {
        /// What was to be opened.
        path: PathBuf,
        /// Bytes asked for.
        needed: u64,
        /// Bytes there.
        actual: u64,
    },
    /// Another process, or this one, has it open or mounted.
    #[error(
        "{} is in use; unmount it, stop the process that has it open, or name another path",
        path.display()
    )]
    Busy {
        /// What was to be opened.
        path: PathBuf,
    },
    /// The file system cannot hold a file of this size.
    #[error(
        "{} cannot have {wanted} bytes, {available} are available; free some space or ask for less",
        path.display()
    )]
    NoSpace {
        /// What was to be opened.
        path: PathBuf,
        /// Bytes asked for.
        wanted: u64,
        /// Bytes that the file system could still give.
        available: u64,
    },
    /// No file may have this size, as the limit on this process or the file system says.
    #[error(
        "no file in {} may have {wanted} bytes; raise the limit on the size of files (`ulimit -f unlimited`), or ask for less",
        path.display()
    )]
    FileLimit {
        /// What was to be opened.
        path: PathBuf,
        /// Bytes asked for.
        wanted: u64,
    },
    /// This process may have no more files open.
    #[error(
        "{} cannot be opened beside the files that are open; raise the limit on open files (`ulimit -n 1024`)",
        path.display()
    )]
    TooManyFiles {
        /// What was to be opened.
        path: PathBuf,
    },
    /// The length asked for cannot be a device: zero, or not a whole number of blocks.
    #[error(
        "{len_bytes} bytes cannot be the size of {}; ask for a positive multiple of {block_bytes}",
        path.display()
    )]
    BadLength {
        /// What was to be opened.
        path: PathBuf,
        /// Bytes asked for.
        len_bytes: u64,
        /// The multiple that the length must be.
        block_bytes: usize,
    },
    /// It is a socket, a pipe, a character device or the like.
    #[error(
        "{} is neither a regular file nor a block device; name one of these, or a folder",
        path.display()
    )]
    NotAFileOrBlockDevice {
        /// What was to be opened.
        path: PathBuf,
    },
    /// The file system or device cannot be written.
    #[error(
        "{} cannot be written; remount its file system writable, or name another path",
        path.display()
    )]
    ReadOnly {
        /// What was to be opened.
        path: PathBuf,
    },
    /// The system refused for another reason.
    #[error(
        "{step} {} failed: {source}; the kernel's log may say more, or name another path",
        path.display()
    )]
    Io {
        /// What was to be opened.
        path: PathBuf,
        /// What was being done with it.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl OpenError {
    /// What an error of the system means for somebody who was `step` (as in "opening") the device at `path`.
    #[must_use]
    pub fn from_io(path: &Path, step: &'static str, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.raw_os_error() {
            Some(libc::ENOENT) => OpenError::Missing { path },
            Some(libc::EACCES | libc::EPERM) => OpenError::PermissionDenied { path },
            Some(libc::EBUSY | libc::EWOULDBLOCK | libc::ETXTBSY) => OpenError::Busy { path },
            Some(libc::EISDIR | libc::ENXIO) => OpenError::NotAFileOrBlockDevice { path },
            Some(libc::EROFS) => OpenError::ReadOnly { path },
            Some(libc::EMFILE) => OpenError::TooManyFiles { path },
            _ => OpenError::Io { path, step, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_carry_the_values() {
        let error =
            DeviceError::Io { operation: Operation::Write, offset: 8192, len_bytes: 512, errno: libc::EIO };
        let text = error.to_string();
        for part in ["write", "8192", "512", "os error 5"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn system_errors_become_advice() {
        let text = |errno| {
            OpenError::from_io(Path::new("/x/y"), "opening", io::Error::from_raw_os_error(errno)).to_string()
        };
        assert!(text(libc::ENOENT).contains("create the folder"));
        assert!(text(libc::EACCES).contains("another path"));
        assert!(text(libc::EWOULDBLOCK).contains("stop the process"));
        assert!(text(libc::EROFS).contains("remount"));
        assert!(text(libc::EMFILE).contains("ulimit -n"));
        assert!(text(libc::EIO).starts_with("opening /x/y failed"));
    }
}
