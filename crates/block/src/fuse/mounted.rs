//! The folder, from its mounting to its end.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use aquifer_device::{Device, DeviceError};
use fuser::{Config, MountOption, Session, SessionACL};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use super::file::DeviceFile;

/// How a device is shown.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the table of mounts names as the source.
    pub source: String,
    /// Requests that are done at once. Each thread has 17 MiB of memory, which is there when the process's memory is locked.
    pub threads: usize,
}

/// Why a folder does not show the device.
#[derive(Debug, thiserror::Error)]
pub enum FuseError {
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
    /// The path does not exist, is not a folder, or cannot be mounted on.
    #[error("{path} cannot show the device: {source}; name an empty folder, and be root or install the helper with `apt-get install fuse3`", path = path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system or the helper said.
        source: io::Error,
    },
    /// Something uses the file.
    #[error(
        "{path} is in use, and stays: end that first (swapoff, losetup -d). A second signal does not wait, and whoever uses it gets errors",
        path = path.display()
    )]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The end of the mount was no ordinary one.
    #[error("the mount ended: {0}")]
    Ended(io::Error),
    /// The device failed at the end.
    #[error("what was written is not durable: {0}")]
    Device(#[from] DeviceError),
}

/// What a thread of fuser 0.18 allocates: 16 MiB, a page, and what comes beside.
const THREAD_BYTES: usize = (16 << 20) + (64 << 10);

/// A device at a folder. A process that opens the file waits until [`Mounted::serve`] runs.
pub struct Mounted {
    session: Session<DeviceFile>,
    device: Arc<dyn Device>,
    folder: PathBuf,
}

/// Ends a mount from another thread, such as that of a signal.
pub struct Unmounter {
    device: Arc<dyn Device>,
    folder: PathBuf,
}

impl Mounted {
    /// Shows `device` as the file [`FILE_NAME`](super::FILE_NAME) of `folder`, for this user only.
    ///
    /// # Errors
    /// [`FuseError::NoDevice`], [`FuseError::Forbidden`], [`FuseError::Folder`].
    pub fn new(device: Arc<dyn Device>, folder: &Path, options: &Options) -> Result<Self, FuseError> {
        let fuse = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
        drop(fuse.map_err(unopened)?);
        let failed = |source: io::Error| FuseError::Folder { path: folder.to_owned(), source };
        let folder_found = folder.canonicalize().map_err(failed)?;
        let threads = options.threads.max(1);
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(options.source.replace(',', "_")),
            MountOption::Subtype("aquifer".into()),
            MountOption::DefaultPermissions,
            MountOption::NoAtime,
        ];
        config.acl = SessionACL::Owner;
        config.n_threads = Some(threads);
        let file = DeviceFile::new(Arc::clone(&device), threads);
        let session = Session::new(file, &folder_found, &config).map_err(failed)?;
        Ok(Mounted { session, device, folder: folder_found })
    }

    /// What [`Mounted::serve`] allocates when it begins: each thread a buffer for the longest request that there is.
    #[must_use]
    pub fn later_bytes(options: &Options) -> usize {
        options.threads.max(1) * THREAD_BYTES
    }

    /// The file that shows the device.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.folder.join(super::FILE_NAME)
    }

    /// What can end this mount while it is served.
    #[must_use]
    pub fn unmounter(&self) -> Unmounter {
        Unmounter { device: Arc::clone(&self.device), folder: self.folder.clone() }
    }

    /// Answers the kernel until the folder is unmounted.
    ///
    /// # Errors
    /// [`FuseError::Ended`], [`FuseError::Device`].
    ///
    /// # Durability
    /// Everything is durable when this returns without an error.
    pub fn serve(self) -> Result<(), FuseError> {
        let Mounted { session, device, .. } = self;
        let ended = session.run();
        device.sync()?;
        match ended {
            // Some thread was between two requests when it was unmounted.
            Err(error) if error.raw_os_error() != Some(libc::ECONNABORTED) => Err(FuseError::Ended(error)),
            _ => Ok(()),
        }
    }
}

impl Unmounter {
    /// Ends the mount, if nothing uses the file: a swap area that loses its device takes programs with it.
    ///
    /// # Errors
    /// [`FuseError::InUse`], [`FuseError::Folder`]: it goes on.
    pub fn unmount(&self) -> Result<(), FuseError> {
        match unmount(&self.folder, UnmountFlags::empty()) {
            Ok(()) => Ok(()),
            // Unmounted by somebody else a moment ago.
            Err(Errno::INVAL) => Ok(()),
            Err(Errno::BUSY) => Err(self.in_use()),
            Err(Errno::PERM) => self.unmount_by_helper(&[]),
            Err(error) => Err(FuseError::Folder { path: self.folder.clone(), source: error.into() }),
        }
    }

    /// Takes the folder away although the file is used, for a process that ends now. What was written is durable.
    ///
    /// # Errors
    /// [`FuseError::Device`], [`FuseError::Folder`].
    pub fn leave(&self) -> Result<(), FuseError> {
        self.device.sync()?;
        match unmount(&self.folder, UnmountFlags::DETACH) {
            Err(Errno::PERM) => self.unmount_by_helper(&["-z"]),
            Err(error) if error != Errno::INVAL => {
                Err(FuseError::Folder { path: self.folder.clone(), source: error.into() })
            }
            _ => Ok(()),
        }
    }

    fn unmount_by_helper(&self, options: &[&str]) -> Result<(), FuseError> {
        let helper = Command::new("fusermount3").arg("-u").args(options).arg("--").arg(&self.folder).status();
        match helper {
            Ok(status) if status.success() => Ok(()),
            // It said why.
            Ok(_) => Err(self.in_use()),
            Err(source) => Err(FuseError::Folder { path: self.folder.clone(), source }),
        }
    }

    fn in_use(&self) -> FuseError {
        FuseError::InUse { path: self.folder.clone() }
    }
}

/// What it means that the device is not opened. A container without the device may answer EPERM.
fn unopened(error: io::Error) -> FuseError {
    if error.raw_os_error() == Some(libc::EACCES) { FuseError::Forbidden } else { FuseError::NoDevice(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_for_others_is_told_from_a_missing_one() {
        let said = |number| unopened(io::Error::from_raw_os_error(number)).to_string();
        assert!(said(libc::EACCES).contains("chmod 666 /dev/fuse"));
        for number in [libc::ENOENT, libc::ENODEV, libc::EPERM] {
            assert!(said(number).contains("modprobe fuse"), "{number}");
        }
    }
}
