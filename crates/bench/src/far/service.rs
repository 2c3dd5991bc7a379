//! A process that serves the programs, from when it says that it does until it is dropped.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::cleanup::{self, Guard};
use crate::error::{Error, Result};
use crate::spawn::{has_ended, last_line};
use crate::workdir::unnamed_file;

/// Longest wait until it serves: locking and wiping memory takes a while.
const START_MAX: Duration = Duration::from_secs(60);
/// Longest wait for its end after each signal.
const END_MAX: [(libc::c_int, Duration); 3] = [
    (libc::SIGTERM, Duration::from_secs(10)),
    (libc::SIGTERM, Duration::from_secs(5)),
    (libc::SIGKILL, Duration::from_secs(5)),
];
const STEP: Duration = Duration::from_millis(20);

/// A running service.
///
/// It is a process group of its own, so that Ctrl-C at the terminal reaches this program alone, which ends things in the right order; and it
/// does not die with this program, because the kernel may swap to it.
#[derive(Debug)]
pub struct Service {
    name: &'static str,
    child: Child,
    ended_on_drop: Option<Guard>,
    lines: Receiver<String>,
    errors: File,
}

impl Service {
    /// Starts `command`.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn start(name: &'static str, mut command: Command) -> Result<Self> {
        let log = format!("aquifer-bench-{}-{name}.log", std::process::id());
        let errors = unnamed_file(&std::env::temp_dir().join(log))?;
        let copy = errors.try_clone().map_err(Error::io("copying the descriptor of", "a log"))?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(copy).process_group(0);
        let mut child = command.spawn().map_err(Error::io("starting", command.get_program()))?;
        let pid = child.id();
        let ended_on_drop = Some(cleanup::register(move || end(pid)));
        let stdout = BufReader::new(child.stdout.take().expect("was piped"));
        let (sender, lines) = channel();
        thread::spawn(move || {
            // Also when nobody wants them any more: it must not wait for us to read.
            stdout.lines().map_while(std::io::Result::ok).for_each(|line| drop(sender.send(line)));
        });
        Ok(Self { name, child, ended_on_drop, lines, errors })
    }

    /// What `look` finds in the first line in which it finds something.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with its last words if it ends before, or says nothing for too long.
    pub fn wait_for<T>(&mut self, look: impl Fn(&str) -> Option<T>) -> Result<T> {
        let started = Instant::now();
        while let Some(left) = START_MAX.checked_sub(started.elapsed()) {
            let Ok(line) = self.lines.recv_timeout(left) else { break };
            if let Some(found) = look(&line) {
                return Ok(found);
            }
        }
        cleanup::stop_if_interrupted();
        let said = last_line(&mut self.errors);
        Err(Error::Unavailable(format!("the {} does not start{said}", self.name)))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // First its end, so that the process number still belongs to our child.
        drop(self.ended_on_drop.take());
        if let Err(error) = self.child.wait() {
            eprintln!("waiting for the {}: {error}", self.name);
        }
    }
}

/// Ends the child `pid` and leaves it to be reaped by its owner.
fn end(pid: u32) {
    for (signal, limit) in END_MAX {
        // SAFETY: a plain system call on a child that has not been reaped.
        unsafe { libc::kill(pid as libc::pid_t, signal) };
        let started = Instant::now();
        while started.elapsed() < limit {
            if has_ended(pid) {
                return;
            }
            thread::sleep(STEP);
        }
    }
    eprintln!("process {pid} does not end");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_service_is_awaited_and_ended() {
        let mut service =
            Service::start("test", shell("echo a; echo port 7; exec sleep 600")).expect("a shell");
        let port =
            service.wait_for(|line| line.strip_prefix("port ").map(str::to_owned)).expect("it says so");
        assert_eq!(port, "7");
        let pid = service.child.id();
        drop(service);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn its_last_words_are_told() {
        let mut service = Service::start("mute", shell("echo no luck >&2; exit 2")).expect("a shell");
        let refused = service.wait_for(|_| Some(())).expect_err("it says nothing");
        assert!(refused.to_string().contains("no luck"), "{refused}");
    }
}
