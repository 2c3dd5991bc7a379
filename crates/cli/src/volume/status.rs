//! Numbers of a volume that is mounted or served.

use std::path::Path;

use aquifer_status::Server;
use aquifer_volume::Volume;

use crate::error::Error;

/// Answers `aquifer stats`, `top` and `export` at a socket until what is returned is dropped.
///
/// # Errors
/// [`Error::Socket`].
pub fn answer_at(volume: &Volume, path: &Path) -> Result<Server, Error> {
    volume.answer_at(path).map_err(|error| Error::Socket { path: path.display().to_string(), error })
}
