//! The kernel's compressed RAM in front of swap areas.

use std::fs;

use crate::cleanup::{self, Guard};
use crate::controller::{Controller, Version};
use crate::error::{Error, Result};

const ENABLED: &str = "/sys/module/zswap/parameters/enabled";
const MEMINFO: &str = "/proc/meminfo";

/// Compression is on, or off, until this is dropped, which sets back what it was before.
#[derive(Debug)]
pub struct Zswap {
    _set_back_on_drop: Guard,
}

impl Zswap {
    /// Compresses what is swapped out from here on.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the kernel has no zswap, or does not let us; or if it charges the pool to no control group, so
    /// that a peer would have all RAM of the machine beside its limit.
    pub fn switch_on() -> Result<Self> {
        if Controller::Memory.parents()?.0 == Version::V1 {
            return Err(Error::Unavailable(
                "control groups of version 1 do not limit zswap's pool, which would have more RAM than the other peers; \
                 boot with version 2 (`programs` takes the pool off the limit)"
                    .to_owned(),
            ));
        }
        Self::set("Y").map_err(|what| Error::Unavailable(format!("zswap cannot be switched on: {what}")))
    }

    /// Swaps out to the areas alone, for the peers beside zswap; nothing to do if it is off.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if zswap is on and the kernel does not let us.
    pub fn switch_off() -> Result<Option<Self>> {
        if fs::read_to_string(ENABLED).is_ok_and(|enabled| enabled.trim() == "Y") {
            let off = Self::set("N");
            return off
                .map(Some)
                .map_err(|what| Error::Unavailable(format!("zswap cannot be switched off: {what}")));
        }
        Ok(None)
    }

    fn set(value: &str) -> Result<Self> {
        let before = fs::read_to_string(ENABLED).map_err(Error::io("reading", ENABLED))?;
        let guard = cleanup::register(move || {
            if let Err(error) = fs::write(ENABLED, &before) {
                eprintln!("{ENABLED} could not be set back to {}: {error}", before.trim());
            }
        });
        fs::write(ENABLED, value).map_err(Error::io("writing", ENABLED))?;
        Ok(Self { _set_back_on_drop: guard })
    }
}

/// RAM that holds compressed pages now, of the whole machine; 0 if the kernel does not say.
pub fn pool_bytes() -> u64 {
    let meminfo = fs::read_to_string(MEMINFO).unwrap_or_default();
    let kib = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("Zswap:")?.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.map_or(0, |kib: u64| kib << 10)
}
