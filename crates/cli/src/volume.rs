//! `aquifer volume`: volumes, and the files in them, without a program that has them open.
//!
//! | file | noun |
//! |---|---|
//! | `arguments` | what may stand behind it |
//! | `examples` | what the helps show of each |
//! | `place` | `VOLUME:/path` |
//! | `opened` | a volume that this command has open, and its numbers for `top` |
//! | `show` | names, permissions and times as people read them |
//! | `work` | work that may take a while, and what of it was left undone |
//! | `create` | a new volume |
//! | `list`, `cat` | names in folders; files on standard output |
//! | `copy`, `tree` | copies between host and volumes; files wherever they are |
//! | `names` | makes, moves and removes names |
//! | `attributes`, `mode`, `owner` | what is known of a file besides its bytes |
//! | `space` | how much there is of everything |
//! | `mount` | a volume as a folder of the system |
//! | `background` | the process that serves that folder |
//! | `serve`, `status` | one process owns a volume, others map its files; its numbers for `top` |
//! | `verify` | whether all of it is in order |

pub mod arguments;
mod attributes;
mod background;
mod cat;
mod copy;
mod create;
mod examples;
mod list;
pub mod mode;
mod mount;
mod names;
mod opened;
pub mod owner;
pub mod place;
mod serve;
pub(crate) mod show;
mod space;
mod status;
mod tree;
mod verify;
pub(crate) mod work;

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
        VolumeAction::Cat(arguments) => cat::cat(arguments),
        VolumeAction::Cp(arguments) => copy::copy(arguments),
        VolumeAction::Rm(arguments) => names::remove(arguments),
        VolumeAction::Mv(arguments) => names::move_all(arguments),
        VolumeAction::Mkdir(arguments) => names::make_folders(arguments),
        VolumeAction::Ln(arguments) => names::link(arguments),
        VolumeAction::Chmod(arguments) => attributes::change_mode(arguments),
        VolumeAction::Chown(arguments) => attributes::change_owner(arguments),
        VolumeAction::Stat(arguments) => attributes::stat(arguments),
        VolumeAction::Df(arguments) => space::space(arguments),
        VolumeAction::Serve(arguments) => serve::serve(arguments),
        VolumeAction::Mount(arguments) => mount::mount(arguments),
        VolumeAction::Check(arguments) => verify::check(arguments),
        VolumeAction::Scrub(arguments) => verify::scrub(arguments),
        VolumeAction::Salvage(arguments) => copy::salvage(arguments),
    };
    match outcome {
        // The reader has closed the pipe: it has seen enough.
        Err(Error::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error @ Error::Interrupted) => {
            eprintln!("aquifer: {error}");
            Ok(ExitCode::FAILURE)
        }
        other => other,
    }
}

/// A line of JSON on standard output.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Error> {
    use std::io::Write;

    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value).map_err(io::Error::from)?;
    Ok(writeln!(out)?)
}
