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

/// What a child wrote to a log.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Said(String);

impl Said {
    /// All of it so far.
    pub fn in_log(log: &mut File) -> Self {
        let mut text = Vec::new();
        match log.rewind().and_then(|()| log.read_to_end(&mut text)) {
            Ok(_) => Self(String::from_utf8_lossy(&text).into_owned()),
            Err(_) => Self::default(),
        }
    }

    /// The last line, as the end of a sentence.
    pub fn last_line(&self) -> String {
        let line = self.0.lines().rfind(|line| !line.trim().is_empty());
        line.map_or(String::new(), |line| format!(": {}", line.trim()))
    }

    /// The error that any line tells of, if it tells of wrong data: `peer`, and what the child says of it.
    pub fn wrong_data(&self, peer: &str) -> Option<Error> {
        let (_, what) = self.0.lines().find_map(|line| line.split_once(WRONG_DATA))?;
        let what = what.trim_start().trim_start_matches("from ").trim_end().to_owned();
        Some(Error::WrongData { peer: peer.to_owned(), what })
    }
}

/// Makes an error of the end of a child, with what it `said` before: [`Error::Killed`] if the kernel killed it, as it does
/// when memory is short; else [`Error::Child`].
pub fn end_of(peer: &str, status: Option<ExitStatus>, said: &str) -> Error {
    let (peer, what) = (peer.to_owned(), format!("{}{said}", describe_end(status)));
    match status.and_then(|status| status.signal()) {
        Some(libc::SIGKILL) => Error::Killed { peer, what },
        _ => Error::Child { peer, what },
    }
}

/// What the end of a child says about a peer, as the end of a sentence.
fn describe_end(status: Option<ExitStatus>) -> String {
    match status.and_then(|status| status.signal()) {
        Some(libc::SIGKILL) => "was killed, probably because it needed more than its memory limit".to_owned(),
        Some(signal) => format!("died of signal {signal}"),
        None => "ended early".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_kill_is_one() {
        let end =
            |script: &str| end_of("x", Command::new("/bin/sh").args(["-c", script]).status().ok(), ": so");
        assert!(matches!(end("kill -9 $$"), Error::Killed { what, .. } if what.contains("memory limit: so")));
        assert!(
            matches!(end("kill -6 $$"), Error::Child { what, .. } if what.starts_with("died of signal 6"))
        );
        assert!(matches!(end("exit 1"), Error::Child { what, .. } if what == "ended early: so"));
    }

    #[test]
    fn wrong_data_is_found_in_any_line() {
        let said = Said("begins\nx: WRONG DATA from y: object 7 \n3 MiB used\n\n".to_owned());
        assert_eq!(said.last_line(), ": 3 MiB used");
        let error = said.wrong_data("peer").expect("it says so");
        assert_eq!(error.to_string(), "WRONG DATA from peer: y: object 7");
        assert!(Said::default().wrong_data("peer").is_none() && Said::default().last_line().is_empty());
    }
}
