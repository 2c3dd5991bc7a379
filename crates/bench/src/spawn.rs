//! Processes that never outlive the benchmark.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Asks the kernel to kill the process when the thread that starts it ends, however that happens.
pub fn dies_with_parent(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only prctl is called, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        })
    }
}
