//! The process that serves a mount in the background.
//!
//! It is this program once more: a process that has threads cannot be divided safely. It says that the folder is mounted with a line on its standard
//! output, and what is wrong on the standard error that it shares with its caller until then.

use std::env;
use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Write, stdout};
use std::process::{Command, ExitCode, Stdio};

use rustix::process::setsid;
use rustix::stdio::{dup2_stderr, dup2_stdout};

use crate::error::Error;
use crate::volume::mount::MountArguments;

/// Starts it; returns when the folder is mounted.
///
/// # Errors
/// The process could not be started. What it complains of is its own, and so is the exit status then.
pub fn start(arguments: &MountArguments) -> Result<ExitCode, Error> {
    let mut command = Command::new(env::current_exe().map_err(Error::Background)?);
    command.args(["volume", "mount", "--in-background"]);
    command.arg(format!("--ram={}", arguments.ram)).arg(format!("--sync={}", arguments.sync));
    if arguments.read_only {
        command.arg("--read-only");
    }
    if arguments.allow_other {
        command.arg("--allow-other");
    }
    if arguments.nonempty {
        command.arg("--nonempty");
    }
    if arguments.write_back {
        command.arg("--write-back");
    }
    if arguments.no_xattrs {
        command.arg("--no-xattrs");
    }
    if let Some(path) = &arguments.socket {
        command.arg("--socket").arg(path);
    }
    command.arg("--").arg(&arguments.path).arg(&arguments.folder);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(Error::Background)?;
    let mut said = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut said).map_err(Error::Background)?;
    }
    if said.ends_with('\n') {
        write!(stdout(), "{said}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let status = child.wait().map_err(Error::Background)?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::from(2), ExitCode::from))
}

/// Keeps nothing of the caller's: its terminal, its pipes, its current folder.
///
/// # Errors
/// The system's.
pub fn let_go_of_caller() -> io::Result<()> {
    // Fails only for who leads a session already.
    let _ = setsid();
    env::set_current_dir("/")?;
    let nowhere = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    stdout().flush()?;
    dup2_stdout(&nowhere)?;
    dup2_stderr(&nowhere)?;
    Ok(())
}
