//! `aquifer volume`: volumes, and the files in them, without a program that has them open.
//!
//! | file | noun |
//! |---|---|
//! | `arguments` | what may stand behind it |
//! | `place` | `VOLUME:/path` |
//! | `opened` | a volume that this command has open |
//! | `outcome` | what was left undone, while the rest was done |
//! | `show` | names, permissions and times as people read them |
//! | `create` | a new volume |
//! | `list` | names in folders |
//! | `space` | how much there is of everything |
//! | `mount` | a volume as a folder of the system |
//! | `background` | the process that serves that folder |

pub mod arguments;
mod background;
mod create;
mod list;
mod mount;
mod opened;
mod outcome;
mod place;
mod show;
mod space;

use std::io::{self, ErrorKind};
use std::process::ExitCode;

use crate::error::Error;
use arguments::VolumeAction;

/// Does something with a volume.
///
/// # Errors
/// [`Error`] if nothing could be done.
pub fn volume(action: &VolumeAction) -> Result<ExitCode, Error> {
    let outcome = match action {
        VolumeAction::Create(arguments) => create::create(arguments),
        VolumeAction::Ls(arguments) => list::list(arguments),
        VolumeAction::Df(arguments) => space::space(arguments),
        VolumeAction::Mount(arguments) => mount::mount(arguments),
    };
    match outcome {
        // Whoever reads has seen enough.
        Err(Error::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        other => other,
    }
}

/// A line of JSON on standard output.
fn print_json(value: &impl serde::Serialize) -> Result<(), Error> {
    use std::io::Write;

    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value).map_err(io::Error::from)?;
    Ok(writeln!(out)?)
}
