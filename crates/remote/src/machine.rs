//! Which machine this is.

use std::fs;

/// The same for all processes of one kernel since it began, whatever container they are in; empty if the kernel does not say.
#[must_use]
pub fn id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_string()
}
