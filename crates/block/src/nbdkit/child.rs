//! The running nbdkit.

use std::env;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};

use super::listener::Listener;
use super::word::Word;
use super::{LISTENING, PARENT};
use crate::Report;
use crate::source::{Copies, Source};

/// Name of the program.
const PROGRAM: &str = "nbdkit";

/// Moves the sockets from where a child can be given them to where nbdkit and the plugin look for them, and becomes nbdkit. As systemd does,
/// it says which process the socket is for.
const START: &str = "exec 3<&0 4<&1 </dev/null >&2
    LISTEN_FDS=1 LISTEN_PID=$$
    export LISTEN_FDS LISTEN_PID
    exec \"$@\"";

/// How nbdkit serves a device.
#[derive(Clone, Debug)]
pub struct Options {
    /// nbdkit.
    pub program: PathBuf,
    /// Our plugin.
    pub plugin: PathBuf,
    /// What the device is made of.
    pub source: Source,
    /// By which clients ask for it.
    pub name: String,
    /// Requests of a connection at once.
    pub threads: u16,
    /// Clients at once that have begun.
    pub connections: u16,
    /// A folder with certificates by nbdkit's names, and what GnuTLS is to keep to. With it, only clients with a certificate are served.
    pub tls: Option<Tls>,
    /// Filters between nbdkit and the plugin, and their settings.
    pub filters: Vec<String>,
    /// `key=value`, for them or for the plugin.
    pub settings: Vec<String>,
}

/// Where nbdkit finds what TLS needs.
#[derive(Clone, Debug)]
pub struct Tls {
    /// `ca-cert.pem`, `server-cert.pem` and `server-key.pem`.
    pub certificates: PathBuf,
    /// The priority file of GnuTLS.
    pub priorities: PathBuf,
}

/// Why nobody is served.
#[derive(Debug, thiserror::Error)]
pub enum NbdkitError {
    /// It is not installed.
    #[error(
        "NBD needs nbdkit, which is not installed: apt-get install nbdkit; --ublk and --fuse work without"
    )]
    NotInstalled,
    /// The process did not start.
    #[error("nbdkit cannot be started: {0}")]
    Start(io::Error),
    /// It ended before it served, and has said why on standard error if at all.
    #[error("nbdkit ended before it served anybody")]
    Ended,
    /// The plugin's own sentence.
    #[error("{0}")]
    Plugin(String),
    /// It was killed, or ended without a word about the device.
    #[error("nbdkit ended ({0}): what was not flushed may be lost")]
    Killed(String),
}

/// The running nbdkit. It ends when this is dropped, or this process ends.
#[derive(Debug)]
pub struct Child {
    process: std::process::Child,
    words: BufReader<UnixStream>,
    ender: Ender,
    report: Say,
    _listener: Listener,
}

/// Where sentences for people go.
struct Say(Report);

impl std::fmt::Debug for Say {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Say")
    }
}

/// Ends nbdkit from another thread, such as that of a signal.
#[derive(Clone, Debug)]
pub struct Ender {
    socket: Arc<UnixStream>,
    process: Pid,
}

/// nbdkit, if it is installed.
#[must_use]
pub fn program() -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join(PROGRAM)).find(|path| path.is_file())
}

impl Child {
    /// Starts nbdkit, which takes clients of `listener`, and waits until it serves. Returns the size of the device too, in bytes. What nbdkit
    /// and the plugin have to say goes to standard error and to `report`.
    ///
    /// # Errors
    /// [`NbdkitError`].
    pub fn start(listener: Listener, options: &Options, report: Report) -> Result<(Child, u64), NbdkitError> {
        let (own, theirs) = UnixStream::pair().map_err(NbdkitError::Start)?;
        let words = own.try_clone().map_err(NbdkitError::Start)?;
        let socket = listener.descriptor().map_err(NbdkitError::Start)?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", START, PROGRAM]).arg(&options.program).args(arguments(options));
        command.stdin(socket).stdout(Stdio::from(OwnedFd::from(theirs)));
        if let Some(tls) = &options.tls {
            command.env("GNUTLS_SYSTEM_PRIORITY_FILE", &tls.priorities);
            command.env("GNUTLS_SYSTEM_PRIORITY_FAIL_ON_INVALID", "1");
        }
        let process = command.spawn().map_err(NbdkitError::Start)?;
        // The child alone has the other end: when it ends, this one does.
        drop(command);
        let ender = Ender { socket: Arc::new(own), process: Pid::from_child(&process) };
        let mut child =
            Child { process, words: BufReader::new(words), ender, report: Say(report), _listener: listener };
        match child.next_word() {
            Some((Word::Serves, bytes)) => Ok((child, bytes.parse().unwrap_or(0))),
            Some((Word::Error, sentence)) => Err(NbdkitError::Plugin(sentence)),
            _ => Err(NbdkitError::Ended),
        }
    }

    /// What can end it while it serves.
    #[must_use]
    pub fn ender(&self) -> Ender {
        self.ender.clone()
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// [`NbdkitError::Plugin`], [`NbdkitError::Killed`].
    ///
    /// # Durability
    /// What was acknowledged is durable when this returns without an error.
    pub fn wait(mut self) -> Result<(), NbdkitError> {
        let last = self.next_word();
        let status = self.process.wait().map_err(NbdkitError::Start)?;
        match last {
            Some((Word::Durable, _)) if status.success() => Ok(()),
            Some((Word::Error, sentence)) => Err(NbdkitError::Plugin(sentence)),
            _ => Err(NbdkitError::Killed(status.to_string())),
        }
    }

    /// The next word about the server. Sentences for people go to them.
    fn next_word(&mut self) -> Option<(Word, String)> {
        loop {
            let mut line = String::new();
            // An end without a word is one.
            if self.words.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            match Word::of(&line) {
                Some((Word::Note, sentence)) => (self.report.0)(sentence),
                Some((word, more)) => return Some((word, more.to_owned())),
                None => {}
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Ender {
    /// Makes nbdkit end soon: requests that have begun are answered, connections are closed, and the device is flushed.
    pub fn end(&self) {
        // If it has ended already, it hears nothing.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Ends nbdkit at once.
    pub fn kill(&self) {
        // It may have ended.
        let _ = kill_process(self.process, Signal::KILL);
    }
}

fn arguments(options: &Options) -> Vec<OsString> {
    let mut arguments: Vec<OsString> =
        vec!["--foreground".into(), "--threads".into(), options.threads.to_string().into()];
    if let Some(tls) = &options.tls {
        arguments.extend(["--tls=require", "--tls-verify-peer", "--tls-certificates"].map(OsString::from));
        arguments.push(tls.certificates.clone().into());
    }
    arguments.push("--filter=limit".into());
    arguments.extend(options.filters.iter().map(|filter| format!("--filter={filter}").into()));
    arguments.push(options.plugin.clone().into());
    arguments.push(format!("limit={}", options.connections).into());
    arguments.extend(options.settings.iter().map(OsString::from));
    arguments.push(format!("parent-fd={PARENT}").into());
    arguments.push(format!("buffers={}", options.threads).into());
    arguments.push(format!("name={}", options.name).into());
    arguments.extend(of_source(&options.source));
    arguments
}

/// The source as the plugin takes it.
fn of_source(source: &Source) -> Vec<OsString> {
    let path = |key: &str, path: &Path| {
        let mut word = OsString::from(key);
        word.push(path);
        word
    };
    let mut words = vec![path("flash=", &source.flash), format!("size={}", source.size_bytes).into()];
    if source.donors.is_empty() {
        return words;
    }
    words.push(format!("donors={}", source.donors.join(",")).into());
    words.push(format!("donors-only={}", source.donors_only).into());
    words.push(format!("seal={}", source.seals).into());
    words.push(format!("weight={}", source.weight).into());
    words.push(if source.copies == Copies::Donor { "copies=donor" } else { "copies=flash" }.into());
    words.extend(source.cluster.as_deref().map(|folder| path("cluster=", folder)));
    words
}

const _: () = assert!(LISTENING == 3 && PARENT == 4, "where the shell puts them");
