//! A running server with a UNIX socket: started, watched, and gone when dropped.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::cgroup::Cgroup;
use crate::cleanup::{self, Guard};
use crate::error::{Error, Result};
use crate::process::{Memory, cpu_s_of};
use crate::spawn::{Said, dies_with_parent, end_of, kill};
use crate::workdir::unnamed_file;

/// Longest wait for a server to listen: making a flash file takes a while.
const START_MAX: Duration = Duration::from_secs(60);
const START_STEP: Duration = Duration::from_millis(20);
/// The connections of a process that is being killed close up to this long before it ends.
const END_MAX: Duration = Duration::from_secs(1);
/// Longest path of a UNIX socket, with its zero byte.
const SOCKET_PATH_BYTES_MAX: usize = 108;

/// A server with its socket and its control group.
#[derive(Debug)]
pub struct Server {
    name: String,
    child: Child,
    socket: PathBuf,
    log: File,
    // Dropped in this order, after the process was killed and has been reaped.
    killed_on_drop: Option<Guard>,
    _files_removed_on_drop: Guard,
    cgroup: Option<Cgroup>,
}

impl Server {
    /// Starts `command`, which takes the path of its socket in `dir` after `socket_option`, limited by `cgroup`, and waits until it
    /// listens. `files` are removed with the server. Errors call it `name`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with what the program says if it does not start.
    pub fn start(
        name: &str,
        mut command: Command,
        socket_option: &str,
        dir: &Path,
        cgroup: Option<Cgroup>,
        mut files: Vec<PathBuf>,
    ) -> Result<Self> {
        let socket = dir.join(format!("aquifer-bench-{}-{name}.sock", std::process::id()));
        if socket.as_os_str().as_bytes().len() >= SOCKET_PATH_BYTES_MAX {
            let what = format!("{} is too long for a socket; use a shorter --dir", socket.display());
            return Err(Error::Input(what));
        }
        files.push(socket.clone());
        remove(&files);
        let log = unnamed_file(&dir.join(format!("aquifer-bench-{}-{name}.log", std::process::id())))?;
        let output = || log.try_clone().map_err(Error::io("copying the descriptor of", "a log"));
        command.arg(socket_option).arg(&socket);
        command.stdin(Stdio::null()).stdout(output()?).stderr(output()?);
        if let Some(cgroup) = &cgroup {
            cgroup.joined_by(&mut command);
        }
        let files_guard = cleanup::register(move || remove(&files));
        let child = dies_with_parent(&mut command).spawn();
        let child = child.map_err(Error::io("starting", command.get_program()))?;
        let pid = child.id();
        let mut server = Self {
            name: name.to_owned(),
            child,
            socket,
            log,
            killed_on_drop: Some(cleanup::register(move || kill(pid))),
            _files_removed_on_drop: files_guard,
            cgroup,
        };
        server.wait_until_it_listens()?;
        Ok(server)
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// RSS and page tables of the process.
    ///
    /// # Errors
    /// [`Error::Io`] if it is gone.
    pub fn memory(&self) -> Result<Memory> {
        Memory::of(self.child.id())
    }

    /// Wakes it if it waits for memory of its control group.
    pub fn nudge(&self) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.nudge();
        }
    }

    /// The most that it had so far.
    ///
    /// # Errors
    /// As [`Server::memory`].
    pub fn peak(&self) -> Result<Memory> {
        Memory::peak_of(self.child.id())
    }

    /// Seconds of processor time so far.
    ///
    /// # Errors
    /// As [`Server::memory`].
    pub fn cpu_s(&self) -> Result<f64> {
        cpu_s_of(self.child.id())
    }

    /// What its control group is charged for, where it has one.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn charged_bytes(&self) -> Result<Option<u64>> {
        self.cgroup.as_ref().map(Cgroup::used_bytes).transpose()
    }

    /// An error that says `what` happened to a connection, or what happened to the process if it
    /// has ended.
    pub fn broken(&mut self, what: String) -> Error {
        cleanup::stop_if_interrupted();
        let started = Instant::now();
        while started.elapsed() < END_MAX {
            if let Ok(Some(status)) = self.child.try_wait() {
                let said = Said::in_log(&mut self.log).last_line();
                return end_of(&self.name, Some(status), &said);
            }
            thread::sleep(START_STEP);
        }
        self.error(what)
    }

    fn wait_until_it_listens(&mut self) -> Result<()> {
        let started = Instant::now();
        while UnixStream::connect(&self.socket).is_err() {
            if let Ok(Some(_)) = self.child.try_wait() {
                cleanup::stop_if_interrupted();
                let said = Said::in_log(&mut self.log).last_line();
                return Err(Error::Unavailable(format!("{} does not start{said}", self.name)));
            }
            if started.elapsed() > START_MAX {
                let seconds = START_MAX.as_secs();
                let what = format!("{} does not listen after {seconds} s", self.name);
                return Err(Error::Unavailable(what));
            }
            thread::sleep(START_STEP);
        }
        Ok(())
    }

    /// An error that says `what` it does.
    pub fn error(&self, what: String) -> Error {
        Error::Child { peer: self.name.clone(), what }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // First the kill, so that the process number still belongs to our child.
        drop(self.killed_on_drop.take());
        if let Err(error) = self.child.wait() {
            eprintln!("waiting for the {} process: {error}", self.name);
        }
    }
}

fn remove(files: &[PathBuf]) {
    for file in files.iter().filter(|file| file.exists()) {
        if let Err(error) = fs::remove_file(file) {
            eprintln!("removing {}: {error}", file.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_start_says_why() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo no memory today >&2; exit 3"]);
        let refused = Server::start("sh", command, "-s", &std::env::temp_dir(), None, Vec::new());
        let refused = refused.map_err(|error| error.to_string());
        assert!(refused.is_err_and(|error| error.contains("sh does not start: no memory today")));
    }
}
