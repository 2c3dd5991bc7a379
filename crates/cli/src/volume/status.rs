//! Numbers of a volume that is mounted or served.

use std::env;
use std::path::{Path, absolute};

use aquifer_status::Server;
use aquifer_volume::Volume;

use crate::error::Error;

/// Answers `aquifer stats`, `top` and `export` at the socket that was given or that the environment names, until what is returned is dropped.
///
/// # Errors
/// [`Error::Socket`].
pub fn answer(volume: &Volume, given: Option<&Path>) -> Result<Option<Server>, Error> {
    let of_environment = || env::var_os("AQUIFER_SOCKET").filter(|path| !path.is_empty()).map(Into::into);
    let Some(path) = given.map(Path::to_owned).or_else(of_environment) else { return Ok(None) };
    // Not relative to a folder that is left.
    let answers = absolute(&path).and_then(|path| volume.answer_at(&path));
    answers.map(Some).map_err(|error| Error::Socket { path: path.display().to_string(), error })
}
