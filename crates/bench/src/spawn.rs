//! Processes that never outlive the benchmark.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

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

/// Kills the child `pid` and waits until its memory is gone, but leaves it to be reaped by its owner.
pub fn kill(pid: u32) {
    // SAFETY: plain system calls on a child that has not been reaped; a zeroed siginfo is valid.
    unsafe {
        libc::kill(pid as libc::pid_t, libc::SIGKILL);
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_PID, pid, &mut info, libc::WEXITED | libc::WNOWAIT);
    }
}

/// What the end of a child says about a peer, as the end of a sentence.
pub fn describe_end(status: Option<ExitStatus>) -> String {
    match status.and_then(|status| status.signal()) {
        Some(libc::SIGKILL) => "was killed, probably because it needed more than its memory limit".to_owned(),
        Some(signal) => format!("died of signal {signal}"),
        None => "ended early".to_owned(),
    }
}
