//! Processes that never outlive the benchmark.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use crate::error::Error;

/// How [`Error::WrongData`] begins, in the last words of a child.
pub const WRONG_DATA: &str = "WRONG DATA";

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

/// Whether the child `pid` has ended. It is left to be reaped by its owner, so that its number stays its own.
pub fn has_ended(pid: u32) -> bool {
    // SAFETY: a plain question about a child that has not been reaped; a zeroed siginfo is valid.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOWAIT | libc::WNOHANG;
        libc::waitid(libc::P_PID, pid, &mut info, flags) != 0 || info.si_pid() != 0
    }
}

/// The last line that a child wrote to `log`, as the end of a sentence.
pub fn last_line(log: &mut File) -> String {
    let mut text = Vec::new();
    let read = log.rewind().and_then(|()| log.read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().rfind(|line| !line.trim().is_empty());
    line.filter(|_| read.is_ok()).map_or(String::new(), |line| format!(": {}", line.trim()))
}

/// The error that the last words of a child tell of, if they tell of wrong data.
pub fn wrong_data(peer: &str, said: &str) -> Option<Error> {
    let what = || said.trim_start_matches(": ").to_owned();
    said.contains(WRONG_DATA).then(|| Error::WrongData { peer: peer.to_owned(), what: what() })
}

/// What the end of a child says about a peer, as the end of a sentence.
pub fn describe_end(status: Option<ExitStatus>) -> String {
    match status.and_then(|status| status.signal()) {
        Some(libc::SIGKILL) => "was killed, probably because it needed more than its memory limit".to_owned(),
        Some(signal) => format!("died of signal {signal}"),
        None => "ended early".to_owned(),
    }
}
