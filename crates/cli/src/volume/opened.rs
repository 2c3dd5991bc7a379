//! A volume that this command has open.

use std::path::{Path, PathBuf};

use aquifer_status::Server;
use aquifer_volume::access::Credentials;
use aquifer_volume::{OpenOptions, Session, Volume, VolumeError, image};

use crate::error::Error;

/// A volume with the rights of the user who runs this command. Nothing is refused: that user can change the
/// volume's bytes anyway.
pub type Access<'a> = Session<&'a Volume>;

/// The user who runs this command, and the group.
pub fn user() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// The permissions that nobody gets on what this process makes. No other thread makes anything meanwhile.
pub fn umask() -> u16 {
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(umask);
    (umask.bits() & 0o777) as u16
}

/// What the command does at a volume.
pub fn access(volume: &Volume) -> Access<'_> {
    let (uid, gid) = user();
    Session::new(volume, Credentials::owner_of_medium(uid, gid))
}

/// An error of a volume or of a file in it, with its name.
pub fn failed(what: impl Into<PathBuf>) -> impl FnOnce(VolumeError) -> Error {
    move |error| Error::Volume { what: what.into(), error }
}

/// Opens a volume whose bytes stay as they are.
///
/// # Errors
/// Why it cannot be opened.
pub fn to_read(path: &Path) -> Result<Volume, Error> {
    open(path, true)
}

/// As [`to_read`], also if nobody knows what damage has lost.
///
/// # Errors
/// Why it cannot be opened.
pub fn damaged(path: &Path) -> Result<Volume, Error> {
    let ram_bytes = OpenOptions::default().ram_bytes;
    image::open_medium(path).and_then(|medium| Volume::open_damaged(medium, ram_bytes)).map_err(failed(path))
}

/// Opens a volume, has it changed, and closes it also if that went wrong half-way: what was done until then is durable.
///
/// # Errors
/// Why it cannot be opened, changed or closed.
pub fn change<T>(path: &Path, work: impl FnOnce(&Access<'_>) -> Result<T, Error>) -> Result<T, Error> {
    let volume = open(path, false)?;
    let outcome = work(&access(&volume));
    let closed = volume.close().map_err(failed(path));
    let value = outcome?;
    closed?;
    Ok(value)
}

fn open(path: &Path, is_read_only: bool) -> Result<Volume, Error> {
    let options = OpenOptions { is_read_only, ..OpenOptions::default() };
    image::open_medium(path).and_then(|medium| Volume::open(medium, options)).map_err(failed(path))
}

/// Answers `aquifer stats`, `top` and `export` at a socket until what is returned is dropped.
///
/// # Errors
/// [`Error::Socket`].
pub fn answer_at(volume: &Volume, path: &Path) -> Result<Server, Error> {
    volume.answer_at(path).map_err(|error| Error::Socket { path: path.display().to_string(), error })
}
