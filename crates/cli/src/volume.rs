//! `aquifer volume`: files on flash, translated by one table.
//!
//! | file | noun |
//! |---|---|
//! | `mount` | a volume as a folder of the system |
//! | `background` | the process that serves it |

pub mod background;
pub mod mount;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::error::Error;

/// Arguments of `aquifer volume`.
#[derive(Args, Debug)]
pub struct VolumeArguments {
    /// What to do.
    #[command(subcommand)]
    pub action: VolumeAction,
}

/// What can be done with a volume.
#[derive(Subcommand, Debug)]
pub enum VolumeAction {
    /// Makes a volume a folder of the system, which any program can use
    #[command(after_help = mount::EXAMPLES)]
    Mount(mount::MountArguments),
}

/// Does it.
///
/// # Errors
/// [`Error`] says what to do.
pub fn volume(action: &VolumeAction) -> Result<ExitCode, Error> {
    match action {
        VolumeAction::Mount(arguments) => mount::mount(arguments),
    }
}
