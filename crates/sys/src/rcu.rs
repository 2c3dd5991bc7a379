//! Memory that the kernel frees later.

use crate::errno::{Errno, Result};

/// Waits until the kernel has passed a grace period of its read-copy-update: what it let go of before the call
/// is free then, or about to be.
///
/// # Errors
/// `ENOSYS` or `EINVAL` where the kernel offers no such wait (`membarrier`).
///
/// # Context
/// Blocks for some ten milliseconds, longer when the machine is busy.
pub fn wait_for_grace_period() -> Result<()> {
    // SAFETY: plain numbers.
    let returned = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) };
    Errno::check(returned).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grace_period_ends() {
        match wait_for_grace_period() {
            Ok(()) => {}
            Err(error) => eprintln!("skipped: membarrier: {error}"),
        }
    }
}
