//! What may stand behind `aquifer volume`.

use std::path::PathBuf;

use aquifer_base::units::parse_size;
use clap::{Args, Subcommand};

use super::mode::ModeChange;
use super::owner::Owner;
use super::place::{HostOrVolume, Place};

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  aquifer volume create data.vol --size 10G      a volume in a file
  aquifer volume create data.vol --size 10G --erase data.vol   another in its place
  aquifer volume cp -rp results data.vol:/       a folder of the host into it
  aquifer volume ls -lR data.vol:/results
  aquifer volume cat data.vol:/results/a.txt | head
  aquifer volume mv data.vol:/results data.vol:/old
  aquifer volume chmod go-w data.vol:/old
  aquifer volume rm -r data.vol:/old
  aquifer volume df data.vol --json | jq .free_bytes
  aquifer volume scrub data.vol && echo fine     reads and verifies every byte
  aquifer volume salvage data.vol saved          what can be read of a damaged one

VOLUME is an ordinary file or a block device. A path in it stands behind a colon, as in
data.vol:/a/b; without a path it is the volume's first folder. One process at a time has a
volume open. Whoever may write to VOLUME may do everything in it. What a command changes is
durable when it ends; if it does not end, the volume is as it was at one moment before.

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
    /// Writes files to standard output
    #[command(after_help = EXAMPLES)]
    Cat(PlacesArguments),
    /// Copies files into a volume, out of it, or in it
    #[command(after_help = EXAMPLES)]
    Cp(CopyArguments),
    /// Removes files, and with -r folders
    #[command(after_help = EXAMPLES)]
    Rm(RemoveArguments),
    /// Moves or renames atomically
    #[command(after_help = EXAMPLES)]
    Mv(MoveArguments),
    /// Makes folders
    #[command(after_help = EXAMPLES)]
    Mkdir(FolderArguments),
    /// Gives a file another name, or with -s makes a symbolic link
    #[command(after_help = EXAMPLES)]
    Ln(LinkArguments),
    /// Changes permissions
    #[command(after_help = EXAMPLES)]
    Chmod(ModeArguments),
    /// Changes owner and group
    #[command(after_help = EXAMPLES)]
    Chown(OwnerArguments),
    /// Shows what is known of a file
    #[command(after_help = EXAMPLES)]
    Stat(StatArguments),
    /// Shows how much room there is
    #[command(after_help = EXAMPLES)]
    Df(SpaceArguments),
    /// Makes a volume a folder of the system, which any program can use
    #[command(after_help = super::mount::EXAMPLES)]
    Mount(super::mount::MountArguments),
    /// Own a volume for several programs, which map its files
    #[command(after_help = super::serve::EXAMPLES)]
    Serve(super::serve::ServeArguments),
    /// Proves that tables, names and counts agree; changes nothing
    #[command(after_help = EXAMPLES)]
    Check(VerifyArguments),
    /// The same, and reads and verifies every byte of every file
    #[command(after_help = EXAMPLES)]
    Scrub(VerifyArguments),
    /// Copies all that can be read out of a damaged volume, and names what cannot
    #[command(after_help = EXAMPLES)]
    Salvage(SalvageArguments),
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
    #[arg(long, value_name = "VOLUME", num_args = 0..=1)]
    pub erase: Option<Option<PathBuf>>,
}

/// Arguments of `aquifer volume ls`.
#[derive(Args, Debug)]
pub struct ListArguments {
    /// Which folder or file
    #[arg(value_name = "VOLUME:PATH")]
    pub place: Place,
    /// Kind, permissions, names, owner, group, bytes and time (UTC) of each
    #[arg(short)]
    pub long: bool,
    /// Folders in folders as well
    #[arg(short = 'R')]
    pub recursive: bool,
}

/// Files or folders.
#[derive(Args, Debug)]
pub struct PlacesArguments {
    /// Which files
    #[arg(value_name = "VOLUME:PATH", required = true)]
    pub places: Vec<Place>,
}

/// Arguments of `aquifer volume cp`.
#[derive(Args, Debug)]
pub struct CopyArguments {
    /// What to copy: VOLUME:PATH, or a path of the host
    #[arg(value_name = "SOURCE", required = true)]
    pub sources: Vec<HostOrVolume>,
    /// Where to: a new name, or a folder
    #[arg(value_name = "TARGET", required = true)]
    pub target: HostOrVolume,
    /// Folders with all that is in them; symbolic links stay links
    #[arg(short)]
    pub recursive: bool,
    /// Keeps permissions, owner, group and times
    #[arg(short)]
    pub preserve: bool,
}

/// Arguments of `aquifer volume rm`.
#[derive(Args, Debug)]
pub struct RemoveArguments {
    /// What to remove.
    #[command(flatten)]
    pub files: PlacesArguments,
    /// Folders with all that is in them
    #[arg(short)]
    pub recursive: bool,
}

/// Arguments of `aquifer volume mv`.
#[derive(Args, Debug)]
pub struct MoveArguments {
    /// What to move
    #[arg(value_name = "VOLUME:PATH", required = true)]
    pub sources: Vec<Place>,
    /// Where to: a new name, or a folder, in the same volume
    #[arg(value_name = "VOLUME:TARGET", required = true)]
    pub target: Place,
}

/// Arguments of `aquifer volume mkdir`.
#[derive(Args, Debug)]
pub struct FolderArguments {
    /// Which folders.
    #[command(flatten)]
    pub folders: PlacesArguments,
    /// Missing folders above as well; what is there already is fine
    #[arg(short)]
    pub parents: bool,
}

/// Arguments of `aquifer volume ln`.
#[derive(Args, Debug)]
pub struct LinkArguments {
    /// VOLUME:PATH of the file; with -s what the link says, as it stands
    #[arg(value_name = "TARGET")]
    pub target: std::ffi::OsString,
    /// The new name
    #[arg(value_name = "VOLUME:PATH")]
    pub link: Place,
    /// A symbolic link
    #[arg(short)]
    pub symbolic: bool,
}

/// Arguments of `aquifer volume chmod`.
#[derive(Args, Debug)]
pub struct ModeArguments {
    /// Octal as in 640, or changes as in u=rw,go-w
    #[arg(value_name = "MODE", allow_hyphen_values = true)]
    pub mode: ModeChange,
    /// Of what.
    #[command(flatten)]
    pub files: PlacesArguments,
}

/// Arguments of `aquifer volume chown`.
#[derive(Args, Debug)]
pub struct OwnerArguments {
    /// USER, USER:GROUP or :GROUP, as numbers
    #[arg(value_name = "OWNER")]
    pub owner: Owner,
    /// Of what.
    #[command(flatten)]
    pub files: PlacesArguments,
}

/// Arguments of `aquifer volume stat`.
#[derive(Args, Debug)]
pub struct StatArguments {
    /// Of what; a symbolic link itself is shown.
    #[command(flatten)]
    pub files: PlacesArguments,
    /// One line of JSON for each in place of the table
    #[arg(long)]
    pub json: bool,
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

/// Arguments of `aquifer volume check` and `scrub`.
#[derive(Args, Debug)]
pub struct VerifyArguments {
    /// The volume
    #[arg(value_name = "VOLUME")]
    pub volume: PathBuf,
}

/// Arguments of `aquifer volume salvage`.
#[derive(Args, Debug)]
pub struct SalvageArguments {
    /// The volume
    #[arg(value_name = "VOLUME")]
    pub volume: PathBuf,
    /// A folder of the host that is made for what can be read
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
}
