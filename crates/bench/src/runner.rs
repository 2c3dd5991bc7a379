//! The orchestrator's end of a child process.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Serialize;
use serde_json::Value;

use crate::cgroup::Cgroup;
use crate::child::{Assignment, Event};
use crate::cleanup::{self, Guard};
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::spawn::{dies_with_parent, end_of, kill};
use crate::study::Fields;

/// Hidden subcommand that a child is started with.
pub const CHILD_COMMAND: &str = "child";

/// A running child; killed when dropped, and its control group removed after it.
#[derive(Debug)]
pub struct Runner {
    name: String,
    killed_on_drop: Option<Guard>,
    child: Child,
    requests: Option<ChildStdin>,
    events: Lines<BufReader<ChildStdout>>,
    _cgroup: Option<Cgroup>,
}

impl Runner {
    /// Starts a child on `task` of `study`, limited by `cgroup`, with `environment` beside that of this process.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Child`].
    pub fn start(
        name: &str,
        study: &str,
        task: Value,
        cgroup: Option<Cgroup>,
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        let program = std::env::current_exe().map_err(Error::io("finding", "this program"))?;
        let mut command = Command::new(&program);
        command
            .arg(CHILD_COMMAND)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = dies_with_parent(&mut command).spawn().map_err(Error::io("starting", &program))?;
        let pid = child.id();
        let guard = cleanup::register(move || kill(pid));
        let requests = child.stdin.take();
        let events = BufReader::new(child.stdout.take().expect("was piped")).lines();
        let path = cgroup.as_ref().map(|cgroup| cgroup.path().to_owned());
        let killed_on_drop = Some(guard);
        let name = name.to_owned();
        let mut runner = Self { name, killed_on_drop, child, requests, events, _cgroup: cgroup };
        runner.send(&Assignment { study: study.to_owned(), task, cgroup: path })?;
        Ok(runner)
    }

    /// Sends a request.
    ///
    /// # Errors
    /// [`Error::Child`] if the child is gone.
    pub fn send(&mut self, request: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(request).expect("requests have only plain fields") + "\n";
        let requests = self.requests.as_mut().expect("requests are not closed before the last");
        requests.write_all(line.as_bytes()).map_err(|_| self.ended())
    }

    /// Tells the child that no request comes any more.
    pub fn close_requests(&mut self) {
        self.requests = None;
    }

    /// The next event that is not progress, which is shown.
    ///
    /// # Errors
    /// [`Error::Unavailable`] and [`Error::WrongData`] as the child has them, [`Error::Child`] if it failed or died,
    /// [`Error::Killed`] if the kernel killed it.
    pub fn next(&mut self, progress: &Progress) -> Result<Event> {
        while let Some(Ok(line)) = self.events.next() {
            match serde_json::from_str(&line) {
                Ok(Event::Progress { what, percent }) => {
                    progress.doing(format!("{}: {what} {percent} %", self.name));
                }
                Ok(event) => return event.or_error(&self.name),
                // A library that prints to standard output must not end the run.
                Err(_) => progress.note(&line),
            }
        }
        Err(self.ended())
    }

    /// Waits until the child can take a request.
    ///
    /// # Errors
    /// As [`Runner::next`].
    pub fn expect_ready(&mut self, progress: &Progress) -> Result<()> {
        match self.next(progress)? {
            Event::Ready => Ok(()),
            event => Err(self.error(format!("answered {event:?}"))),
        }
    }

    /// The figures of the child's run.
    ///
    /// # Errors
    /// As [`Runner::next`].
    pub fn figures(&mut self, progress: &Progress) -> Result<Fields> {
        match self.next(progress)? {
            Event::Figures(figures) => Ok(figures),
            event => Err(self.error(format!("answered {event:?}"))),
        }
    }

    fn ended(&mut self) -> Error {
        cleanup::stop_if_interrupted();
        end_of(&self.name, self.child.wait().ok(), "")
    }

    fn error(&self, what: String) -> Error {
        Error::Child { peer: self.name.clone(), what }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // First the kill, so that the process number still belongs to our child.
        drop(self.killed_on_drop.take());
        if let Err(error) = self.child.wait() {
            eprintln!("waiting for the {} process: {error}", self.name);
        }
    }
}
