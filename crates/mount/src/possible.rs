//! Whether this machine and this user can mount.

use std::env;
use std::fs::OpenOptions;
use std::path::Path;

use rustix::process::geteuid;

use crate::error::{MountError, Result};

/// The helper of fuse3, with set-user-id root.
const HELPER: &str = "fusermount3";

/// Whether mounting can work: the kernel has FUSE, and this user is root or has the helper.
///
/// # Errors
/// [`MountError::NoDevice`], [`MountError::NoHelper`], which say what to do.
pub fn possible() -> Result<()> {
    OpenOptions::new().read(true).write(true).open("/dev/fuse").map_err(MountError::NoDevice)?;
    if geteuid().is_root() || has_helper() { Ok(()) } else { Err(MountError::NoHelper) }
}

/// Whether the helper is in the path.
pub fn has_helper() -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(HELPER).exists())
        || Path::new("/bin").join(HELPER).exists()
}
