//! What is given on the command line.

use clap::Subcommand;

use super::layered::{self, LayeredOptions};
use crate::error::Result;

/// The benchmarks of the volume.
#[derive(Clone, Debug, Subcommand)]
pub enum VolumeCommand {
    /// One table against three: the volume beside a file system over a flash translation layer, on the same emulated flash
    Layered(LayeredOptions),
}

/// Runs one of them.
///
/// # Errors
/// [`crate::Error`] of the benchmark.
pub fn run(command: &VolumeCommand) -> Result<()> {
    match command {
        VolumeCommand::Layered(options) => layered::run(options),
    }
}
