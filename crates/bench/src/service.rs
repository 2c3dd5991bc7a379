//! A process that serves the programs, from when it says that it does until it is dropped.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::cleanup::{self, Guard};
use crate::error::{Error, Result};
use crate::spawn::{Said, end_of, has_ended};
use crate::workdir::unnamed_file;

/// Longest wait until it serves: locking and wiping memory takes a while.
const START_MAX: Duration = Duration::from_secs(60);
/// Longest wait for its end after each signal.
const END_MAX: [(libc::c_int, Duration); 3] = [
    (libc::SIGTERM, Duration::from_secs(10)),
    (libc::SIGTERM, Duration::from_secs(5)),
    (libc::SIGKILL, Duration::from_secs(5)),
];
/// Longest wait for the end of one that is about to end.
const FINISH_MAX: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(20);

/// Services that were started, for names of their logs.
static STARTED: AtomicU64 = AtomicU64::new(0);

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
        let nth = STARTED.fetch_add(1, Ordering::Relaxed);
        let log = format!("aquifer-bench-{}-{nth}.log", std::process::id());
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
        let said = Said::in_log(&mut self.errors).last_line();
        Err(Error::Unavailable(format!("the {} does not start{said}", self.name)))
    }

    /// The next line that it says.
    ///
    /// # Errors
    /// Timeout if no line comes within `limit`, disconnected if the program has closed its output.
    pub fn line(&mut self, limit: Duration) -> std::result::Result<String, RecvTimeoutError> {
        self.lines.recv_timeout(limit)
    }

    /// What `look` finds in the last of the lines that have come in which it finds something.
    pub fn last_of<T>(&mut self, look: impl Fn(&str) -> Option<T>) -> Option<T> {
        self.lines.try_iter().filter_map(|line| look(&line)).last()
    }

    /// Its process, which stays the same number until the service is dropped.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: libc::c_int) {
        send(self.child.id(), signal);
    }

    /// Stops it until the guard is dropped, which must be before the service is.
    pub fn stop(&self) -> Guard {
        let pid = self.child.id();
        let goes_on = cleanup::register(move || send(pid, libc::SIGCONT));
        send(pid, libc::SIGSTOP);
        goes_on
    }

    /// Whether it has ended by itself, or by a signal.
    pub fn has_ended(&self) -> bool {
        has_ended(self.child.id())
    }

    /// Waits for its end, and ends it if that does not come soon.
    ///
    /// # Errors
    /// [`Error::WrongData`] if it says so; [`Error::Child`] with its last words if it failed or died, [`Error::Killed`] if the kernel killed it.
    pub fn finish(mut self) -> Result<()> {
        await_end(self.child.id(), FINISH_MAX);
        drop(self.ended_on_drop.take());
        let status = self.child.wait().map_err(Error::io("waiting for the", self.name))?;
        cleanup::stop_if_interrupted();
        if status.success() {
            return Ok(());
        }
        let said = Said::in_log(&mut self.errors);
        let died = || end_of(self.name, Some(status), &said.last_line());
        Err(said.wrong_data(self.name).unwrap_or_else(died))
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
        send(pid, signal);
        if await_end(pid, limit) {
            return;
        }
    }
    eprintln!("process {pid} does not end");
}

fn send(pid: u32, signal: libc::c_int) {
    // SAFETY: a plain system call on a child that has not been reaped.
    unsafe { libc::kill(pid as libc::pid_t, signal) };
}

/// Whether the child `pid` ends within `limit`.
fn await_end(pid: u32, limit: Duration) -> bool {
    let started = Instant::now();
    while started.elapsed() < limit {
        if has_ended(pid) {
            return true;
        }
        thread::sleep(STEP);
    }
    false
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

    #[test]
    fn ends_are_told_apart() {
        let end = |script| Service::start("test", shell(script)).expect("a shell").finish();
        end("exit 0").expect("well");
        assert!(
            matches!(end("echo no luck >&2; exit 1"), Err(Error::Child { what, .. }) if what.contains("no luck"))
        );
        assert!(matches!(end("echo WRONG DATA from x: y >&2; exit 1"), Err(Error::WrongData { .. })));
    }

    #[test]
    fn one_that_is_stopped_goes_on() {
        let mut service =
            Service::start("test", shell("while echo a; do sleep 0.01; done")).expect("a shell");
        service.line(START_MAX).expect("it talks");
        let stopped = service.stop();
        while service.line(Duration::from_millis(200)).is_ok() {}
        assert!(!service.has_ended());
        drop(stopped);
        service.line(START_MAX).expect("it talks again");
        service.signal(libc::SIGKILL);
        assert!(await_end(service.child.id(), START_MAX));
    }

    #[test]
    fn the_last_of_the_lines_counts() {
        let mut service = Service::start("test", shell("echo 1; echo 2; echo x; echo end; exec sleep 600"))
            .expect("a shell");
        let number = |line: &str| line.parse::<u32>().ok();
        assert_eq!(service.wait_for(number).expect("it says so"), 1);
        let started = Instant::now();
        let mut last = None;
        while last.is_none() && started.elapsed() < START_MAX {
            last = service.last_of(number);
        }
        assert_eq!((last, service.last_of(number)), (Some(2), None));
    }
}
