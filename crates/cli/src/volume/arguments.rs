//! What may stand behind `aquifer volume`.

use std::path::PathBuf;

use aquifer_base::units::parse_size;
use clap::{Args, Subcommand};

use super::examples;
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
    #[command(before_help = "It takes its whole size at once, so that writes cannot fail for want of room later.", after_help = examples::CREATE)]
    Create(CreateArguments),
    /// Lists names in a folder
    #[command(before_help = "With -l what is known of each; with -R folders in folders, too.", after_help = examples::LS)]
    Ls(ListArguments),
    /// Writes files to standard output
    #[command(before_help = "Several files follow each other; holes are zeros.", after_help = examples::CAT)]
    Cat(PlacesArguments),
    /// Copies files into a volume, out of it, or in it
    #[command(before_help = "A copy appears when it is whole; holes stay holes.", after_help = examples::CP)]
    Cp(CopyArguments),
    /// Removes files, and with -r folders
    #[command(before_help = "Their room is free when the command ends.", after_help = examples::RM)]
    Rm(RemoveArguments),
    /// Moves or renames atomically
    #[command(before_help = "A crash leaves the old name or the new one, never both and never none.", after_help = examples::MV)]
    Mv(MoveArguments),
    /// Makes folders
    #[command(before_help = "With -p missing folders above as well.", after_help = examples::MKDIR)]
    Mkdir(FolderArguments),
    /// Gives a file another name, or with -s makes a symbolic link
    #[command(before_help = "Both names are one file; a symbolic link says where another is.", after_help = examples::LN)]
    Ln(LinkArguments),
    /// Changes permissions
    #[command(before_help = "Owners and modes count for programs that mount or map the volume.", after_help = examples::CHMOD)]
    Chmod(ModeArguments),
    /// Changes owner and group
    #[command(before_help = "Users and groups are numbers: a volume may come from another machine.", after_help = examples::CHOWN)]
    Chown(OwnerArguments),
    /// Shows what is known of a file
    #[command(before_help = "Kind, bytes, room on flash, mode, owner and times of each.", after_help = examples::STAT)]
    Stat(StatArguments),
    /// Shows how much room there is
    #[command(before_help = "Bytes, files and segments: in use, free, and what cleaning would free.", after_help = examples::DF)]
    Df(SpaceArguments),
    /// Makes a volume a folder of the system, which any program can use
    #[command(before_help = "Any program uses it as it uses other folders; a process in the background serves it.", after_help = super::mount::EXAMPLES)]
    Mount(super::mount::MountArguments),
    /// Owns a volume for several programs, which map its files
    #[command(before_help = "One process has the volume open; others connect to its socket and map its files.", after_help = super::serve::EXAMPLES)]
    Serve(super::serve::ServeArguments),
    /// Proves that tables, names and counts agree; changes nothing
    #[command(before_help = "Bytes of files are not read: `aquifer volume scrub` does that, too.", after_help = examples::CHECK)]
    Check(VerifyArguments),
    /// The same, and reads and verifies every byte of every file
    #[command(before_help = "Each damaged file is named with the bytes that cannot be read.", after_help = examples::SCRUB)]
    Scrub(VerifyArguments),
    /// Copies all that can be read out of a damaged volume, and names what cannot
    #[command(before_help = "The volume stays as it is; what cannot be read is named.", after_help = examples::SALVAGE)]
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
    #[arg(long, value_name = "PATH", num_args = 0..=1)]
    pub erase: Option<Option<PathBuf>>,
}

/// Arguments of `aquifer volume ls`.
#[derive(Args, Debug)]
pub struct ListArguments {
    /// Which folder or file
    #[arg(value_name = "VOLUME:PATH")]
    pub place: Place,
    /// Kind, permissions, names, owner, group, bytes and time (UTC) of each
    #[arg(short, long)]
    pub long: bool,
    /// Folders in folders as well
    #[arg(short = 'R', long, visible_short_alias = 'r')]
    pub recursive: bool,
    /// One line of JSON for each, with all that is known of it
    #[arg(short, long, conflicts_with = "long")]
    pub json: bool,
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
    #[arg(short, long, visible_short_alias = 'R')]
    pub recursive: bool,
    /// Keeps permissions, owner, group and times
    #[arg(short, long)]
    pub preserve: bool,
}

/// Arguments of `aquifer volume rm`.
#[derive(Args, Debug)]
pub struct RemoveArguments {
    /// What to remove.
    #[command(flatten)]
    pub files: PlacesArguments,
    /// Folders with all that is in them
    #[arg(short, long, visible_short_alias = 'R')]
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
    #[arg(short, long)]
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
    #[arg(short, long)]
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
    #[arg(short, long)]
    pub json: bool,
}

/// Arguments of `aquifer volume df`.
#[derive(Args, Debug)]
pub struct SpaceArguments {
    /// The volume
    #[arg(value_name = "VOLUME")]
    pub volume: PathBuf,
    /// One line of JSON in place of the table
    #[arg(short, long)]
    pub json: bool,
}

/// Arguments of `aquifer volume check` and `scrub`.
#[derive(Args, Debug)]
pub struct VerifyArguments {
    /// The volume
    #[arg(value_name = "VOLUME")]
    pub volume: PathBuf,
    /// One line of JSON in place of sentences
    #[arg(short, long)]
    pub json: bool,
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
