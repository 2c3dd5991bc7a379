//! Why nothing could be measured, and what to do about it.

use std::io;
use std::path::PathBuf;

use aquifer_base::units::format_size;
use aquifer_device::OpenError;
use aquifer_device::ftl::FtlOpenError;
use aquifer_device::nand::NandOpenError;

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// Nothing has this name.
    #[error("{} does not exist; name a block device, a directory, a file, or nand: for an emulated device", path.display())]
    NoTarget {
        /// What was named.
        path: PathBuf,
    },
    /// A file with something in it.
    #[error(
        "{} is a file of {} that would be overwritten; name its directory instead, or say --erase {} if nobody needs it",
        path.display(), format_size(*bytes), path.display()
    )]
    FileInUse {
        /// What was named.
        path: PathBuf,
        /// Its length.
        bytes: u64,
    },
    /// A block device that holds something.
    #[error(
        "{} holds data ({what}), which the probe would destroy; choose another device, or say --erase {} if nobody needs it",
        path.display(), path.display()
    )]
    HoldsData {
        /// What was named.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// A block device that is in use. Nothing overrules this.
    #[error("{} is in use ({what}); unmount it, or name a directory on it", path.display())]
    InUse {
        /// What was named.
        path: PathBuf,
        /// By what.
        what: String,
    },
    /// `--erase` names something else.
    #[error("--erase {} was said, but the target is {}; name the same twice if it may be overwritten", erase.display(), target.display())]
    EraseOther {
        /// What may be overwritten.
        erase: PathBuf,
        /// What was to be measured.
        target: PathBuf,
    },
    /// Not enough room for anything that means something.
    #[error("{} has room for {}, and at least {} are needed; free some space, or name another target", path.display(), format_size(*available), format_size(*needed))]
    NoRoom {
        /// What was named.
        path: PathBuf,
        /// Bytes that could be used.
        available: u64,
        /// Bytes that are needed.
        needed: u64,
    },
    /// The parameters of an emulated device make no sense.
    #[error("nand: {what}; `aquifer probe --help` lists the parameters")]
    BadParameter {
        /// What is wrong.
        what: String,
    },
    /// There can be no such emulated device.
    #[error("nand: {0}")]
    Nand(#[from] NandOpenError),
    /// There can be no such translation layer.
    #[error("nand: {0}")]
    Ftl(#[from] FtlOpenError),
    /// The target could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The target could not be read.
    #[error(transparent)]
    Device(#[from] aquifer_device::DeviceError),
    /// There is no io_uring.
    #[error(
        "io_uring is not available ({source}); it is needed to keep many transfers under way: allow it (sysctl kernel.io_uring_disabled=0, or the container's seccomp profile)"
    )]
    NoRings {
        /// What the system said.
        source: io::Error,
    },
    /// Several targets, of which one cannot stand beside others.
    #[error("{0}")]
    BadStripe(String),
}
