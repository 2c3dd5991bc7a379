//! What can go wrong, and what to do then.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use aquifer_base::units::format_size;
use thiserror::Error;

use crate::reply::ReplyError;

/// Why nothing could be asked or shown.
#[derive(Debug, Error)]
pub enum Error {
    /// Neither argument nor environment names a heap.
    #[error(
        "which program? Give --pid PID or --socket PATH, or set AQUIFER_SOCKET to the path of its socket"
    )]
    NoTarget,
    /// The process does not exist.
    #[error("there is no process {0}; pgrep NAME finds the number of a running program")]
    NoProcess(u32),
    /// The kernel does not let us look at the process.
    #[error(
        "this user may not look into process {0}; run the command as the user who started it or as root, or name the socket with --socket PATH"
    )]
    ForeignProcess(u32),
    /// The process listens nowhere, and nobody told it to.
    #[error(
        "process {0} has no socket; start it with AQUIFER_SOCKET=/path in its environment, or set options.socket_path (C), Options::socket (Rust) or socket= (Python) to a path"
    )]
    NoSocket(u32),
    /// The process was told to listen, but does not.
    #[error("process {pid} has AQUIFER_SOCKET={} in its environment but no heap at it: it has not opened one yet, has closed it, or does not use Aquifer", path.display())]
    NoHeap {
        /// The process.
        pid: u32,
        /// Its setting.
        path: PathBuf,
    },
    /// The process listens at several sockets.
    #[error("process {pid} listens at several sockets; choose one: {}", choices(paths))]
    SeveralSockets {
        /// The process.
        pid: u32,
        /// Where it listens.
        paths: Vec<PathBuf>,
    },
    /// Nothing is at the path.
    #[error(
        "there is no socket at {0}; start the program, or `aquifer volume mount`, with AQUIFER_SOCKET={0} in its environment, or set options.socket_path to it"
    )]
    NothingThere(String),
    /// A socket or another file is there, and nobody listens.
    #[error(
        "nobody answers at {0}: it is no socket, or the program has ended or closed its heap; start it again with AQUIFER_SOCKET={0} in its environment"
    )]
    NobodyThere(String),
    /// The socket belongs to somebody else.
    #[error(
        "{0} may not be used by this user; run the command as the user who started the program, or as root"
    )]
    Denied(String),
    /// Something else is wrong with the socket.
    #[error("cannot talk to {path}: {error}")]
    Talk {
        /// The socket.
        path: String,
        /// The system's answer.
        error: io::Error,
    },
    /// No answer in time.
    #[error(
        "no answer from {path} within {seconds} s; the program may be stopped or busy with another question: try again, or with a larger --timeout"
    )]
    Silent {
        /// The socket.
        path: String,
        /// How long we waited.
        seconds: f64,
    },
    /// The connection ended before the answer did.
    #[error("{0} broke off without an answer; is it the socket of an Aquifer heap?")]
    BrokeOff(String),
    /// More bytes than any answer has.
    #[error("{path} sent more than {limit} bytes without an end; is it the socket of an Aquifer heap?")]
    TooLong {
        /// The socket.
        path: String,
        /// What is read at most.
        limit: usize,
    },
    /// The answer makes no sense, or is an error.
    #[error("{path}: {error}")]
    Reply {
        /// The socket.
        path: String,
        /// What is wrong with it.
        error: ReplyError,
    },
    /// The socket belongs to another process than the one that was named.
    #[error("process {asked} was asked for, but its socket is answered by process {answered}; ask that one")]
    OtherProcess {
        /// Named on the command line.
        asked: u32,
        /// Says the answer.
        answered: u32,
    },
    /// The program cannot run on managed memory.
    #[error(transparent)]
    Unfit(#[from] crate::program::Unfit),
    /// This machine or the settings do not allow managed memory.
    #[error("{error}{}", crate::remedy::behind(error))]
    Machine {
        /// Why.
        error: aquifer::Error,
    },
    /// More RAM is to stay than there is to be.
    #[error("--ram-min {} is more than --ram {}; give a larger --ram, or a smaller --ram-min: `--ram-min {}M`", format_size(*least), format_size(*ram), ram >> 22)]
    RamMin {
        /// What is to stay.
        least: u64,
        /// All of it.
        ram: u64,
    },
    /// A library that comes with the command is missing.
    #[error(
        "{name} is neither in {} nor in ../lib beside it; `make lib` in the source folder makes build/bin/aquifer with build/lib beside it, `make install` and the Debian package aquifer install both, `cargo install` the command alone{}", beside.display(), other_library(name)
    )]
    NoLibrary {
        /// Its file name.
        name: &'static str,
        /// Where this command is.
        beside: PathBuf,
    },
    /// Another library was named, and is missing.
    #[error("AQUIFER_PRELOAD names {}, which is no file; unset it, or name the library that `make lib` puts into build/lib", path.display())]
    NamedLibrary {
        /// As it is named.
        path: PathBuf,
    },
    /// The system did not start the program.
    #[error("{} cannot be run: {error}; give the path of a program that this user may run", path.display())]
    Exec {
        /// The program.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// A profile was asked for with faults that no signal reports.
    #[error(
        "a profile is taken in the thread that touches absent memory, which --faults thread does not interrupt; leave one of --profile and --faults thread out"
    )]
    ProfileByThread,
    /// There is no room for samples.
    #[error("no file for samples can be made in {}: {error}; name another directory in TMPDIR", folder.display())]
    SampleFile {
        /// Where it was to be.
        folder: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// The picture cannot be written.
    #[error("no flame graph can be written to {}: {error}; name another path", path.display())]
    Picture {
        /// Its name.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// The file of a durable heap cannot be looked at.
    #[error(transparent)]
    Durable(#[from] aquifer_durable::Error),
    /// Damage without which nothing can be told of a durable heap's file.
    #[error("{0}; no more can be told of the file")]
    NotSalvaged(aquifer_durable::Error),
    /// Somebody changes the file meanwhile.
    #[error("{} is in use by another process; end that first, and try again", path.display())]
    DurableInUse {
        /// The file.
        path: PathBuf,
    },
    /// The volume cannot be mounted.
    #[error(transparent)]
    Mount(#[from] aquifer_mount::MountError),
    /// The process that would serve a mount does not run.
    #[error("the process that serves the folder could not be started: {0}")]
    Background(io::Error),
    /// There is no report to advise from.
    #[error("no advice from {}: {problem}", path.display())]
    NoAdvice {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The settings cannot be written.
    #[error("no profile can be written to {}: {error}", path.display())]
    Profile {
        /// Its name.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// A target cannot be measured.
    #[error(transparent)]
    Probe(#[from] aquifer_probe::error::ProbeError),
    /// A report cannot be read.
    #[error("{}: {error}", path.display())]
    Report {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: aquifer_probe::report::ReportError,
    },
    /// A report or a socket cannot be made.
    #[error("{} cannot be written: {error}; name another path", path.display())]
    ReportFile {
        /// Its name.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// Ctrl-C could not be caught.
    #[error("cannot catch Ctrl-C: {0}")]
    Signal(String),
    /// RAM of other machines cannot be lent or borrowed.
    #[error("{0}")]
    Remote(String),
    /// A volume, or a file in it, does not do what it is asked.
    #[error("{}: {error}{}", shortened(what), volume_advice(error))]
    Volume {
        /// The volume, or the file in it.
        what: PathBuf,
        /// Why.
        error: aquifer_volume::VolumeError,
    },
    /// A new volume or a block device in a file needs a size.
    #[error("how large? Give --size SIZE, as in --size 10G")]
    NoSize,
    /// A folder cannot be a volume.
    #[error("{} is a folder; name a file in it, or a block device, for the volume", path.display())]
    NewVolumeIsFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A new volume would overwrite something.
    #[error(
        "{} holds data, which a new volume would destroy; name another file, or say --erase {} if nobody needs it", path.display(), path.display()
    )]
    VolumeHoldsData {
        /// The file or block device.
        path: PathBuf,
    },
    /// `--erase` does not name what is to be overwritten.
    #[error(
        "--erase wants the volume's name a second time, so that nothing is erased by a slip: --erase {}{}", path.display(), said_instead(again)
    )]
    EraseOther {
        /// The file or block device.
        path: PathBuf,
        /// What it names.
        again: Option<PathBuf>,
    },
    /// Neither side of a copy is a volume.
    #[error(
        "neither source nor target is in a volume; write VOLUME:/path for one of them, as in data.vol:/a"
    )]
    NoVolumeToCopy,
    /// Two places that must be in one volume are not.
    #[error(
        "{} and {} are two volumes, a file has its names in one; copy it with `aquifer volume cp -rp`", first.display(), second.display()
    )]
    OtherVolume {
        /// One of them.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// Several files cannot have one name.
    #[error(
        "{target} is no folder, so only one file can go there; make it with `aquifer volume mkdir`, or mkdir on the host"
    )]
    SeveralIntoNoFolder {
        /// Where they were to go.
        target: String,
    },
    /// It is a socket, a device or the like.
    #[error(
        "{path} is neither a file, a folder nor a symbolic link, and is left out; `aquifer volume cat VOLUME:PATH` writes to pipes and devices"
    )]
    NotCopied {
        /// What it is.
        path: String,
    },
    /// What salvaging could not bring out.
    #[error("{what}: {loss}")]
    Salvaged {
        /// Of what.
        what: String,
        /// What is lost.
        loss: String,
    },
    /// Ctrl-C.
    #[error("interrupted; what was done until then is whole and stays, do the same again for the rest")]
    Interrupted,
    /// A file of the host cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// The socket for numbers cannot be made.
    #[error("the socket {path} could not be made: {error}; choose another path with --socket")]
    Socket {
        /// Its path.
        path: String,
        /// The system's answer.
        error: io::Error,
    },
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {error}; choose another address with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's answer.
        error: io::Error,
    },
    /// The device that is to be served cannot be opened.
    #[error(transparent)]
    BlockDevice(#[from] aquifer_block::source::SourceError),
    /// Nobody can connect to the device.
    #[error(transparent)]
    BlockListen(#[from] aquifer_block::nbdkit::ListenError),
    /// An address that others reach, and no TLS.
    #[error(
        "{0} can be reached from other machines, whose users could read and write everything: add --tls --cluster FOLDER with this host's folder of `aquifer cluster join`, or say --without-tls for a network of friends"
    )]
    BlockForEverybody(SocketAddr),
    /// No folder shows the device.
    #[error(transparent)]
    BlockFolder(#[from] aquifer_block::fuse::FuseError),
    /// There is no block device.
    #[error(transparent)]
    BlockUblk(#[from] aquifer_block::ublk::UblkError),
    /// nbdkit does not serve it.
    #[error(transparent)]
    BlockNbdkit(#[from] aquifer_block::nbdkit::NbdkitError),
    /// The folder in which nbdkit looks for certificates cannot be made.
    #[error("no folder with certificates for nbdkit can be made: {0}")]
    BlockCertificates(io::Error),
    /// An option that the way of serving does not have.
    #[error("{0}")]
    BlockOption(String),
    /// The terminal cannot be drawn on.
    #[error("cannot use the terminal: {0}; --once prints one snapshot as plain text")]
    Terminal(io::Error),
    /// The output went nowhere.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

impl Error {
    /// The exit status of `aquifer run` that did not run its program, as `env` and `timeout` have it: 127 there is no such program, 126 it cannot be
    /// run, 125 all else.
    pub fn status_of_run(&self) -> u8 {
        use crate::program::Unfit;

        match self {
            Self::Unfit(Unfit::Missing(_)) => 127,
            Self::Exec { error, .. } if error.kind() == io::ErrorKind::NotFound => 127,
            Self::Unfit(_) | Self::Exec { .. } => 126,
            _ => 125,
        }
    }

    /// Whether other files than the one that this is about may fare better.
    pub fn is_of_one_file(&self) -> bool {
        use aquifer_volume::VolumeError as V;

        match self {
            Self::File { error, .. } => error.kind() != io::ErrorKind::StorageFull,
            Self::NotCopied { .. } | Self::Salvaged { .. } => true,
            Self::Volume { error, .. } => !matches!(
                error,
                V::NoSpace
                    | V::ReadOnly
                    | V::Stopped(_)
                    | V::NotAVolume(_)
                    | V::OtherVersion { .. }
                    | V::Open(_)
            ),
            _ => false,
        }
    }

    /// Whether a heap that answered before has been closed meanwhile.
    pub fn means_closed(&self) -> bool {
        match self {
            Self::NobodyThere(_) | Self::NothingThere(_) | Self::BrokeOff(_) => true,
            // All that the library reports to a question which it answered before is that it is closing.
            Self::Reply { error, .. } => matches!(error, ReplyError::Reported(_)),
            _ => false,
        }
    }
}

/// The end of a path that is so long that nothing else would be seen.
fn shortened(path: &std::path::Path) -> String {
    const SHOWN_CHARS: usize = 1000;
    let shown = path.display().to_string();
    match shown.char_indices().rev().nth(SHOWN_CHARS) {
        Some((at, _)) => format!("...{}", &shown[at..]),
        None => shown,
    }
}

/// What to do about an error of a volume that does not say so itself.
fn volume_advice(error: &aquifer_volume::VolumeError) -> &'static str {
    use aquifer_volume::VolumeError as V;

    match error {
        V::NotAVolume(_) => "; `aquifer volume create VOLUME --size SIZE` makes one",
        V::Damaged { .. } => {
            "; `aquifer volume scrub VOLUME` finds all that is damaged, what is whole can still be copied out"
        }
        V::Corrupt(_) => "; copy the file or device away before anything else, then take the last good copy",
        V::Stopped(_) => "; the device may be broken: copy out what can be read",
        V::Device(_) => "; the kernel's log may say more",
        _ => "",
    }
}

/// How another library is named in place of one that is missing.
fn other_library(name: &str) -> &'static str {
    if name == crate::library::PRELOAD { "; or name another in AQUIFER_PRELOAD" } else { "" }
}

/// What stands behind `--erase`.
fn said_instead(again: &Option<PathBuf>) -> String {
    again.as_ref().map_or_else(String::new, |again| format!(", and not {}", again.display()))
}

fn choices(paths: &[PathBuf]) -> String {
    let options: Vec<String> = paths.iter().map(|path| format!("--socket {}", path.display())).collect();
    options.join(", ")
}

/// Longest text of a peer that is shown.
const SHOWN_CHARS_MAX: usize = 2000;

/// `text` without characters that a terminal would obey, and not longer than a screen.
pub fn printable(text: &str) -> String {
    let shown = text.chars().take(SHOWN_CHARS_MAX);
    shown.map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_not_commanded_by_a_peer() {
        assert_eq!(printable("a\x1b[2Jb\u{9b}c\n"), "a\u{FFFD}[2Jb\u{FFFD}c\u{FFFD}");
        assert_eq!(printable(&"x".repeat(9999)).len(), SHOWN_CHARS_MAX);
    }
}
