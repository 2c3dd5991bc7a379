//! What can go wrong with a volume.

use std::path::PathBuf;
use std::sync::Arc;

use aquifer_device::{DeviceError, OpenError};

use crate::PageKey;

/// A result of a volume.
pub type Result<T> = std::result::Result<T, VolumeError>;

/// Why a volume did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum VolumeError {
    /// No such file or folder.
    #[error("no such file or folder")]
    NotFound,
    /// There is nothing where a volume should be.
    #[error("there is no {}; `aquifer volume create {} --size SIZE` makes a volume", .0.display(), .0.display())]
    Missing(PathBuf),
    /// The name is taken.
    #[error("a file or folder of this name exists already")]
    Exists,
    /// A folder was needed.
    #[error("not a folder")]
    NotAFolder,
    /// A folder was given where none can be.
    #[error("is a folder")]
    IsAFolder,
    /// The folder has entries.
    #[error("the folder is not empty")]
    NotEmpty,
    /// The name is longer than 255 bytes, or the path longer than 4095.
    #[error("the name is longer than 255 bytes, or the path longer than 4095")]
    NameTooLong,
    /// Empty, or with a byte that no name can have.
    #[error(
        "this is no name of a file; names have 1 to 255 bytes, without '/' and NUL, and are not '.' or '..'"
    )]
    BadName,
    /// The caller may not do this.
    #[error("permission denied")]
    PermissionDenied,
    /// Only the owner, or root, may do this.
    #[error("only the owner may do this")]
    NotOwner,
    /// The arguments make no sense.
    #[error("{0}")]
    Invalid(&'static str),
    /// Past the end of what a file can be.
    #[error("a file has at most 16 TiB")]
    TooLarge,
    /// Too many names for one file.
    #[error("the file has as many names as a file can have")]
    TooManyLinks,
    /// More symbolic links than a path may have.
    #[error("too many symbolic links")]
    TooManySymlinks,
    /// The file has no extended attribute of this name.
    #[error("no extended attribute of this name")]
    NoXattr,
    /// An extended attribute whose name means something to the system.
    #[error("extended attributes other than `user.` are not kept")]
    XattrNotSupported,
    /// The name of an extended attribute is too long.
    #[error("the name of an extended attribute has at most 255 bytes")]
    XattrNameTooLong,
    /// More than a file can have.
    #[error("an extended attribute has at most 64 KiB; all of a file have 128 KiB, and 64 KiB of names")]
    XattrsTooLarge,
    /// No room on the volume.
    #[error("no space is left on the volume; remove something, or make a larger one")]
    NoSpace,
    /// Opened for reading alone.
    #[error("the volume is open for reading alone")]
    ReadOnly,
    /// A write to the device failed earlier: nothing is written any more, what is there can be read.
    #[error("the volume takes no more changes since a write failed: {0}")]
    Stopped(String),
    /// Bytes on flash are not what was written.
    #[error("{key} is damaged on flash: {what}")]
    Damaged {
        /// Whose bytes.
        key: PageKey,
        /// What does not fit.
        what: String,
    },
    /// The volume's own records are damaged.
    #[error("the volume is damaged: {0}")]
    Corrupt(String),
    /// Not a volume.
    #[error("this is not a volume: {0}")]
    NotAVolume(String),
    /// Written by another version.
    #[error("this volume is of version {found}, this program knows {known}; use the program that made it")]
    OtherVersion {
        /// Of the volume.
        found: u32,
        /// Of this program.
        known: u32,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The device could not be opened.
    #[error("{0}")]
    Open(Arc<OpenError>),
    /// The emulated flash failed.
    #[error("flash: {0}")]
    Nand(#[from] aquifer_device::nand::NandError),
    /// The process that owns the volume refused.
    #[error("{text}")]
    Remote {
        /// The system's error number.
        errno: i32,
        /// What it said.
        text: String,
    },
    /// The system refused memory, descriptors or the like.
    #[error("{step}: {}", std::io::Error::from_raw_os_error(*errno))]
    System {
        /// What was being done.
        step: &'static str,
        /// The system's error number.
        errno: i32,
    },
}

impl PartialEq for VolumeError {
    /// Whether both say the same.
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other) && self.to_string() == other.to_string()
    }
}

impl Eq for VolumeError {}

impl From<OpenError> for VolumeError {
    fn from(error: OpenError) -> Self {
        Self::Open(Arc::new(error))
    }
}

impl VolumeError {
    /// The error number by which system calls say this.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::NotFound | Self::Missing(_) => libc::ENOENT,
            Self::Exists => libc::EEXIST,
            Self::NotAFolder => libc::ENOTDIR,
            Self::IsAFolder => libc::EISDIR,
            Self::NotEmpty => libc::ENOTEMPTY,
            Self::NameTooLong => libc::ENAMETOOLONG,
            Self::BadName | Self::Invalid(_) | Self::NotAVolume(_) | Self::OtherVersion { .. } => {
                libc::EINVAL
            }
            Self::PermissionDenied => libc::EACCES,
            Self::NotOwner => libc::EPERM,
            Self::TooLarge => libc::EFBIG,
            Self::TooManyLinks => libc::EMLINK,
            Self::TooManySymlinks => libc::ELOOP,
            Self::NoXattr => libc::ENODATA,
            Self::XattrNotSupported => libc::EOPNOTSUPP,
            Self::XattrNameTooLong => libc::ERANGE,
            Self::NoSpace | Self::XattrsTooLarge => libc::ENOSPC,
            Self::ReadOnly | Self::Stopped(_) => libc::EROFS,
            Self::Damaged { .. } | Self::Corrupt(_) | Self::Device(_) | Self::Nand(_) => libc::EIO,
            Self::Open(error) => match **error {
                OpenError::Busy { .. } => libc::EBUSY,
                OpenError::Missing { .. } => libc::ENOENT,
                OpenError::PermissionDenied { .. } => libc::EACCES,
                _ => libc::EIO,
            },
            Self::System { errno, .. } | Self::Remote { errno, .. } => *errno,
        }
    }
}

/// What was read; `None` if it is damaged, or the medium could not read it.
pub(crate) fn if_readable<T>(outcome: Result<T>) -> Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(VolumeError::Damaged { .. } | VolumeError::Device(_) | VolumeError::Nand(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
