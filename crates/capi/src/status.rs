//! Sockets at which other processes ask for numbers.

use std::ffi::c_int;
use std::io;
use std::path::{Path, PathBuf};

use aquifer_status::Server;

use crate::message;

/// Answers at `socket`, if there is to be one.
pub(crate) fn answer_at(
    socket: Option<PathBuf>,
    start: impl FnOnce(&Path) -> io::Result<Server>,
) -> Result<Option<Server>, c_int> {
    let Some(path) = socket else { return Ok(None) };
    start(&path).map(Some).map_err(|error| {
        let what = format!("the socket {} could not be made", path.display());
        message::fail(&aquifer::Error::System { what, error })
    })
}
