//! What may stand behind `aquifer volume`.

use std::path::PathBuf;

use aquifer_base::units::parse_size;
use clap::{Args, Subcommand};

use super::place::Place;

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  aquifer volume create data.vol --size 10G      a volume in a file
  aquifer volume ls -l data.vol:/results
  aquifer volume df data.vol

VOLUME is an ordinary file or a block device. A path in it stands behind a colon, as in
data.vol:/a/b; without a path it is the volume's first folder. One process at a time has a
volume open.

Exit status: 0 fine, 1 something is damaged or was left undone, 2 nothing could be done.";

/// Arguments of `aquifer volume`.
#[derive(Args, Debug)]
pub struct VolumeArguments {
    /// What to do.
    #[command(subcommand)]
    pub action: VolumeAction,
}

/// What `aquifer volume` can do.
#[derive(Subcommand, Debug)]
pub enum VolumeAction {
    /// Makes an empty volume in a file or on a block device
    #[command(after_help = EXAMPLES)]
    Create(CreateArguments),
    /// Lists names in a folder
    #[command(after_help = EXAMPLES)]
    Ls(ListArguments),
    /// Shows how much room there is
    #[command(after_help = EXAMPLES)]
    Df(SpaceArguments),
    /// Makes a volume a folder of the system, which any program can use
    #[command(after_help = super::mount::EXAMPLES)]
    Mount(super::mount::MountArguments),
}

/// Arguments of `aquifer volume create`.
#[derive(Args, Debug)]
pub struct CreateArguments {
    /// The file or block device
    #[arg(value_name = "VOLUME")]
    pub path: PathBuf,
    /// Bytes that it takes [default: all of a block device]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    /// What is cleaned at once: 32K to 64M, a power of two [default: by the size]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub segment: Option<u64>,
    /// Allows to overwrite what holds data: the volume's name, again
    #[arg(long, value_name = "VOLUME")]
    pub erase: Option<PathBuf>,
}

/// Arguments of `aquifer volume ls`.
#[derive(Args, Debug)]
pub struct ListArguments {
    /// Which folder or file
    #[arg(value_name = "VOLUME:PATH")]
    pub place: Place,
    /// Kind, permissions, links, owner, group, bytes and time of each
    #[arg(short)]
    pub long: bool,
    /// Folders in folders as well
    #[arg(short = 'R')]
    pub recursive: bool,
}

/// Arguments of `aquifer volume df`.
#[derive(Args, Debug)]
pub struct SpaceArguments {
    /// The volume
    #[arg(value_name = "VOLUME")]
    pub volume: PathBuf,
    /// One line of JSON in place of the table
    #[arg(long)]
    pub json: bool,
}
