//! The kernel's compressed RAM in front of swap areas.

use std::fs;

use crate::cleanup::{self, Guard};
use crate::error::{Error, Result};

const ENABLED: &str = "/sys/module/zswap/parameters/enabled";

/// Compression is on until this is dropped.
#[derive(Debug)]
pub struct Zswap {
    _set_back_on_drop: Guard,
}

impl Zswap {
    /// Switches it on. What it was before comes back in the end.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the kernel has none, or does not let us.
    pub fn enable() -> Result<Self> {
        let missing = |what: Error| Error::Unavailable(format!("zswap cannot be switched on: {what}"));
        let before = fs::read_to_string(ENABLED).map_err(Error::io("reading", ENABLED)).map_err(missing)?;
        let guard = cleanup::register(move || {
            if let Err(error) = fs::write(ENABLED, &before) {
                eprintln!("{ENABLED} could not be set back to {}: {error}", before.trim());
            }
        });
        fs::write(ENABLED, "Y").map_err(Error::io("writing", ENABLED)).map_err(missing)?;
        Ok(Self { _set_back_on_drop: guard })
    }
}
