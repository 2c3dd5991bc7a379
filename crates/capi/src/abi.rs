//! The structures of the header.

use std::ffi::{CStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use aquifer::{Compression, Error, Faults, Options, PolicyKind, Stats};

use crate::sized::{self, SizedOptions};

/// `aq_options`
#[repr(C)]
pub struct AqOptions {
    _struct_bytes: usize,
    ram_bytes: u64,
    flash_path: *const c_char,
    flash_bytes: u64,
    faults: c_int,
    policy: c_int,
    socket_path: *const c_char,
    object_bytes: u64,
    device_profile_path: *const c_char,
    compression: c_int,
}

// SAFETY: as the trait wants it; NULL is no string.
unsafe impl SizedOptions for AqOptions {
    const NAME: &'static str = "aq_options";
}

/// `aq_stats`
#[repr(C)]
pub struct AqStats {
    struct_bytes: usize,
    stats: Stats,
}

impl AqOptions {
    /// # Safety
    /// Strings are NULL or end with a zero byte.
    pub(crate) unsafe fn to_options(&self) -> Result<Options, Error> {
        let mut options = Options::new();
        if self.ram_bytes != 0 {
            options = options.ram_bytes(self.ram_bytes);
        }
        if self.flash_bytes != 0 {
            options = options.flash_bytes(self.flash_bytes);
        }
        if self.object_bytes != 0 {
            options = options.object_bytes(self.object_bytes.min(1 << 30) as usize);
        }
        // SAFETY: passed on to the caller.
        if let Some(path) = unsafe { path(self.flash_path) } {
            options = options.flash_path(path);
        }
        // SAFETY: passed on to the caller.
        if let Some(path) = unsafe { path(self.socket_path) } {
            options = options.socket(path);
        }
        // SAFETY: passed on to the caller.
        if let Some(path) = unsafe { path(self.device_profile_path) } {
            options = options.device_profile(path);
        }
        options = options.faults(match self.faults {
            0 => Faults::Signal,
            1 => Faults::Thread,
            2 => Faults::Fence,
            other => return Err(Error::Invalid(format!("options.faults is {other}; see enum aq_faults"))),
        });
        options = options.compression(match self.compression {
            0 => Compression::Never,
            1 => Compression::Always,
            2 => Compression::Auto,
            other => {
                let message = format!("options.compression is {other}; see enum aq_compression");
                return Err(Error::Invalid(message));
            }
        });
        Ok(options.policy(match self.policy {
            0 => PolicyKind::Clock,
            1 => PolicyKind::Lru,
            2 => PolicyKind::S3Fifo,
            3 => PolicyKind::Sieve,
            other => return Err(Error::Invalid(format!("options.policy is {other}; see enum aq_policy"))),
        }))
    }
}

/// # Safety
/// `text` is NULL or ends with a zero byte.
pub(crate) unsafe fn path(text: *const c_char) -> Option<PathBuf> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller says so.
    let text = unsafe { CStr::from_ptr(text) };
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(text.to_bytes())))
        .filter(|path| !path.as_os_str().is_empty())
}

/// Writes the caller's statistics, as far as the caller's structure has room for them.
///
/// # Safety
/// As of [`sized::write`].
pub(crate) unsafe fn write_stats(out: *mut AqStats, stats: Stats) -> Result<(), Error> {
    // SAFETY: passed on to the caller.
    unsafe { sized::write(out, "aq_stats", |struct_bytes| AqStats { struct_bytes, stats }) }
}
