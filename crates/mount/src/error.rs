//! Why a volume is not mounted.

use std::io;
use std::path::PathBuf;

use aquifer_volume::VolumeError;

/// A result of mounting.
pub type Result<T> = std::result::Result<T, MountError>;

/// Why a volume is not mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The kernel has no FUSE, or does not show it here.
    #[error(
        "/dev/fuse cannot be opened ({0}): load the kernel's module with `modprobe fuse`, or give the container the device with `docker run --device /dev/fuse --cap-add SYS_ADMIN`"
    )]
    NoDevice(io::Error),
    /// The device is there, and not for this user.
    #[error(
        "this user may not open /dev/fuse: allow it with `chmod 666 /dev/fuse` as root, or run this as root"
    )]
    Forbidden,
    /// Only root can mount without a helper.
    #[error("this user may not mount: install the helper with `apt-get install fuse3`, or run this as root")]
    NoHelper,
    /// The path does not exist, or is not a folder.
    #[error("{path} cannot be mounted on: {source}; `mkdir -p {path}` makes the folder, if it is not there", path = path.display())]
    NoFolder {
        /// Where to mount.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// What the folder holds would be hidden.
    #[error(
        "{path} is not empty, and its files would be hidden while the volume is mounted there: name an empty folder, or say --nonempty", path = path.display()
    )]
    NotEmpty {
        /// Where to mount.
        path: PathBuf,
    },
    /// The kernel or the helper refused.
    #[error("{path} could not be mounted: {source}", path = path.display())]
    Refused {
        /// Where to mount.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The end of the mount was no ordinary one.
    #[error("the mount ended: {0}")]
    Ended(io::Error),
    /// The volume failed.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}
