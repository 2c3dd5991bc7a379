//! `aquifer volume mount`: a volume as a folder of the system.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{self, ExitCode};

use aquifer_base::units::parse_size;
use aquifer_mount::{Mounted, Options, Unmounted, Unmounter};
use aquifer_volume::{OpenOptions, Volume, image};
use clap::Args;

use crate::arguments::values::{Every, unix_socket};
use crate::ending;
use crate::error::{Error, printable};
use crate::volume::background;
use crate::volume::opened::failed;
use crate::volume::status;

/// What the help shows at its end.
pub const EXAMPLES: &str = "\
Examples:
  aquifer volume mount files.vol /mnt/files      any program can use /mnt/files now
  aquifer volume mount /dev/nvme0n1p3 /mnt/files --ram 2G --allow-other
  aquifer volume mount files.vol /mnt/files --socket /run/files.sock   then: aquifer top --socket /run/files.sock
  fusermount3 -u /mnt/files                      ends it (as root also: umount /mnt/files)

A process in the background serves the folder; what it is told to end by (SIGTERM,
SIGINT, unmounting) closes the volume. What was written is durable after fsync, and
after --sync without it. If the process is killed, the next mount comes back to
the last moment that was made durable.

It needs /dev/fuse, and root or the package fuse3. --allow-other needs root, or
user_allow_other in /etc/fuse.conf.

Exit status: 0 mounted (with --foreground: ended), 2 not mounted.";

/// Arguments of `aquifer volume mount`.
#[derive(Args, Debug)]
pub struct MountArguments {
    /// The volume: a file or block device
    #[arg(value_name = "VOLUME")]
    pub path: PathBuf,
    /// The folder at which it appears
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// RAM for its pages and table
    #[arg(short = 'm', long, value_name = "SIZE", default_value = "256M", value_parser = parse_size)]
    pub ram: u64,
    /// Nothing can be changed, and nothing is written to the device
    #[arg(long)]
    pub read_only: bool,
    /// Hides the files that the folder holds
    #[arg(long)]
    pub nonempty: bool,
    /// Stays in the foreground until it is unmounted
    #[arg(long)]
    pub foreground: bool,
    /// Other users may use it, as far as owners and modes let them
    #[arg(long)]
    pub allow_other: bool,
    /// Time after which changes are made durable without fsync
    #[arg(long, value_name = "DURATION|never", default_value = "5s")]
    pub sync: Every,
    /// The kernel keeps what programs write until they sync or close, or for half a minute: quick
    /// where they write little at a time. A full volume is then noticed late
    #[arg(long)]
    pub write_back: bool,
    /// A socket at which `aquifer top`, `stats` and `export` find the volume
    /// [default: $AQUIFER_SOCKET]
    #[arg(long, value_name = "PATH", value_parser = unix_socket)]
    pub socket: Option<PathBuf>,
    /// No extended attributes: the kernel does not ask for those of each file that is made, listed
    /// or changed
    #[arg(long)]
    pub no_xattrs: bool,
    /// In the background: given by this command to itself.
    #[arg(long, hide = true, conflicts_with = "foreground")]
    pub in_background: bool,
}

/// Mounts a volume; returns when it is mounted, or with `--foreground` when it ended.
///
/// # Errors
/// The volume cannot be opened, or not mounted.
pub fn mount(arguments: &MountArguments) -> Result<ExitCode, Error> {
    if !arguments.foreground && !arguments.in_background {
        return background::start(arguments);
    }
    let options = OpenOptions { ram_bytes: arguments.ram, is_read_only: arguments.read_only };
    // Before the volume is opened: an opening that recovers is long, and may be in vain.
    aquifer_mount::possible()?;
    let opened = image::open_medium(&arguments.path).and_then(|medium| Volume::open(medium, options));
    let volume = opened.map_err(failed(&arguments.path))?;
    let _answers = status::answer(&volume, arguments.socket.as_deref())?;
    let mut mounted = Mounted::new(volume, &arguments.folder, options_of(arguments))?;
    end_by_signals(mounted.unmounter())?;
    writeln!(
        io::stdout(),
        "{} is mounted at {}",
        printable(&arguments.path.display().to_string()),
        printable(&arguments.folder.display().to_string())
    )?;
    if arguments.in_background {
        background::let_go_of_caller().map_err(Error::Background)?;
    }
    mounted.serve()?;
    Ok(ExitCode::SUCCESS)
}

fn options_of(arguments: &MountArguments) -> Options {
    Options {
        source: arguments.path.display().to_string(),
        is_read_only: arguments.read_only,
        is_for_all_users: arguments.allow_other,
        may_hide_files: arguments.nonempty,
        writes_back: arguments.write_back,
        has_xattrs: !arguments.no_xattrs,
        sync_interval: arguments.sync.0,
        ..Options::default()
    }
}

/// The first signal unmounts. If files are open then, the second does not wait for them.
fn end_by_signals(mut unmounter: Unmounter) -> Result<(), Error> {
    let mut is_first = true;
    ending::on_wish(move || {
        if !is_first {
            let outcome = unmounter.sync();
            if let Err(error) = &outcome {
                complain(&error.to_string());
            }
            process::exit(i32::from(outcome.is_err()) * 2);
        }
        match unmounter.unmount() {
            Ok(Unmounted::Now) => {}
            Ok(Unmounted::WhenClosed) => {
                complain(
                    "programs have files open on it: it ends when they close them, or by another signal",
                );
            }
            Err(error) => complain(&error.to_string()),
        }
        is_first = false;
    })
}

fn complain(what: &str) {
    // Nobody may be there to read it.
    let _ = writeln!(io::stderr(), "aquifer: {}", printable(what));
}
