//! Numbers of a volume that is mounted or served.

use std::env;
use std::io::ErrorKind;
use std::path::{Path, absolute};
use std::thread::sleep;
use std::time::Duration;

use aquifer_status::Server;
use aquifer_volume::Volume;

use crate::error::Error;

/// Where another process answers: how often that is looked at again, and when.
const TRIES: usize = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// Answers `aquifer stats`, `top` and `export` at the socket that was given or that the environment names, until what is returned is dropped.
///
/// # Errors
/// [`Error::Socket`].
pub fn answer(volume: &Volume, given: Option<&Path>) -> Result<Option<Server>, Error> {
    let of_environment = || env::var_os("AQUIFER_SOCKET").filter(|path| !path.is_empty()).map(Into::into);
    let Some(path) = given.map(Path::to_owned).or_else(of_environment) else { return Ok(None) };
    let failed = |error| Error::Socket { path: path.display().to_string(), error };
    // Not relative to a folder that is left.
    let path = absolute(&path).map_err(failed)?;
    for _ in 0..TRIES {
        match volume.answer_at(&path) {
            // The process that had the volume before may be about to end.
            Err(error) if error.kind() == ErrorKind::AddrInUse => sleep(BETWEEN_TRIES),
            outcome => return outcome.map(Some).map_err(failed),
        }
    }
    volume.answer_at(&path).map(Some).map_err(failed)
}
