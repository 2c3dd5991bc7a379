//! The program that is profiled: started by this command once more, which becomes the program.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use aquifer_sys::signal::{Forwarding, hold_for_program};

use crate::error::Error;

/// Runs the program with its samples in `samples`; returns its status, or 128 and the number of the signal that ended it.
///
/// # Errors
/// [`Error`] if nothing could be started.
pub fn run(samples: &File) -> Result<u8, Error> {
    // A process that may inspect this one opens the file by this name; the program inherits no descriptor.
    let path = format!("/proc/{}/fd/{}", std::process::id(), samples.as_raw_fd());
    let own = std::env::current_exe()?;
    let mut command = Command::new(&own);
    command.args(once_more(std::env::args_os().skip(1), path.into()));
    hold_for_program().map_err(|errno| Error::Output(std::io::Error::from_raw_os_error(errno.0)))?;
    let mut program = command.spawn().map_err(|error| Error::Exec { path: own, error })?;
    let status = {
        let _forwarding = Forwarding::begin(program.id());
        program.wait()?
    };
    let by_signal = || status.signal().map_or(1, |signal| 128 + signal);
    Ok(status.code().unwrap_or_else(by_signal) as u8)
}

/// The arguments of this command, with those of a program that takes samples behind the word `run`.
fn once_more(arguments: impl Iterator<Item = OsString>, samples: OsString) -> Vec<OsString> {
    let mut again: Vec<OsString> = arguments.collect();
    let behind = again.iter().position(|argument| argument == "run").map_or(0, |at| at + 1);
    again.splice(behind..behind, ["--profile-into".into(), samples]);
    again
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_run_counts() {
        let again = once_more(["run", "--", "run"].map(Into::into).into_iter(), "/f".into());
        assert_eq!(again, ["run", "--profile-into", "/f", "--", "run"].map(OsString::from));
    }
}
