//! Whether this machine and this user can mount.

use std::env;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::geteuid;

use crate::error::{MountError, Result};

/// The helper of fuse3, with set-user-id root.
const HELPER: &str = "fusermount3";

/// Whether mounting can work: the kernel has FUSE, and this user is root or has the helper.
///
/// # Errors
/// [`MountError::NoDevice`], [`MountError::Forbidden`], [`MountError::NoHelper`], which say what to do.
pub fn possible() -> Result<()> {
    OpenOptions::new().read(true).write(true).open("/dev/fuse").map_err(unopened)?;
    if geteuid().is_root() || has_helper() { Ok(()) } else { Err(MountError::NoHelper) }
}

/// What it means that the device is not opened. A module that is missing is no matter of rights; a container without the device may answer EPERM.
fn unopened(error: io::Error) -> MountError {
    match error.raw_os_error() {
        Some(errno) if errno == Errno::ACCESS.raw_os_error() => MountError::Forbidden,
        _ => MountError::NoDevice(error),
    }
}

/// Whether the helper is in the path.
pub fn has_helper() -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(HELPER).exists())
        || Path::new("/bin").join(HELPER).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_for_others_is_told_from_a_missing_one() {
        let said = |errno: Errno| unopened(errno.into()).to_string();
        assert!(said(Errno::ACCESS).contains("chmod 666 /dev/fuse"));
        for errno in [Errno::NOENT, Errno::NODEV, Errno::PERM] {
            assert!(said(errno).contains("modprobe fuse"), "{errno}");
        }
    }
}
