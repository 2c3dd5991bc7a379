//! `aquifer volume serve`: one process owns a volume, others map its files.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use aquifer_base::units::parse_size;
use aquifer_volume::serve::{listen_at, serve as serve_clients, stop_listening};
use aquifer_volume::{OpenOptions, Volume, image};
use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::arguments::values::{long_duration, unix_socket};
use crate::error::{Error, printable};
use crate::volume::opened::answer_at;
use crate::volume::opened::failed;

/// What the help shows at its end.
pub const EXAMPLES: &str = "\
Examples:
  aquifer volume serve files.vol --listen /run/files.sock
  aquifer volume serve /dev/nvme0n1p3 --listen /run/files.sock --ram 4G

Programs connect to the socket, open files with the rights of their user, and map them:
pages that several of them use are in RAM once. Whoever opens a file for reading alone
gets memory that it cannot write. Any user may connect; owners and modes of the files
say what for.

It serves until SIGINT or SIGTERM, and closes the volume then. If it is killed, its
clients' mappings raise SIGBUS, and the next opening comes back to the last moment that
was made durable.

Exit status: 0 ended, 2 not served.";

/// Arguments of `aquifer volume serve`.
#[derive(Args, Debug)]
pub struct ServeArguments {
    /// The volume: a file or block device
    #[arg(value_name = "VOLUME")]
    pub path: PathBuf,
    /// The socket at which programs connect; it must not exist
    #[arg(long, value_name = "PATH", value_parser = unix_socket)]
    pub listen: PathBuf,
    /// RAM for its pages and table, shared by all programs
    #[arg(short = 'm', long, value_name = "SIZE", default_value = "256M", value_parser = parse_size)]
    pub ram: u64,
    /// Nothing can be changed, and nothing is written to the device
    #[arg(long)]
    pub read_only: bool,
    /// Another socket, at which `aquifer top`, `stats` and `export` find the volume
    #[arg(long, value_name = "PATH", value_parser = unix_socket)]
    pub socket: Option<PathBuf>,
    /// Time after which changes are made durable without being asked
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = long_duration)]
    pub sync: Duration,
}

/// Serves a volume until a signal.
///
/// # Errors
/// The volume cannot be opened, or the socket not be made.
pub fn serve(arguments: &ServeArguments) -> Result<ExitCode, Error> {
    // Each program takes three descriptors, each file that programs have mapped one. What is refused is fewer of these.
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let options = OpenOptions { ram_bytes: arguments.ram, is_read_only: arguments.read_only };
    let opened = image::open_medium(&arguments.path).and_then(|medium| Volume::open(medium, options));
    let volume = Arc::new(opened.map_err(failed(&arguments.path))?);
    let _answers = arguments.socket.as_ref().map(|path| answer_at(&volume, path)).transpose()?;
    let background = volume.start_background(arguments.sync).map_err(failed(&arguments.path))?;
    let listening = Arc::new(listen_at(&arguments.listen).map_err(failed(&arguments.listen))?);
    let ending = Arc::clone(&listening);
    ctrlc::set_handler(move || stop_listening(&ending)).map_err(|error| Error::Signal(error.to_string()))?;
    writeln!(
        io::stdout(),
        "{} is served at {}",
        printable(&arguments.path.display().to_string()),
        printable(&arguments.listen.display().to_string())
    )?;
    let served = serve_clients(&volume, &listening);
    // A client that connects from now on is refused.
    std::fs::remove_file(&arguments.listen)?;
    drop(background);
    served.map_err(failed(&arguments.path))?;
    match Arc::try_unwrap(volume) {
        Ok(volume) => volume.close().map_err(failed(&arguments.path))?,
        // Nobody has it any more but who is leaving: what was changed is made durable.
        Err(volume) => volume.sync().map_err(failed(&arguments.path))?,
    }
    Ok(ExitCode::SUCCESS)
}
