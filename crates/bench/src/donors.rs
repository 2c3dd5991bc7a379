//! Two donors on this machine.

use std::path::Path;
use std::process::Command;

use crate::error::Result;
use crate::service::Service;

/// Donors, so that there is a choice, and a second domain.
const COUNT: u64 = 2;
const SLAB_BYTES: u64 = 16 << 20;
/// What stays available here. Little: the machine has what is lent, or the whole comparison is too large for it.
const HEADROOM_BYTES: u64 = 64 << 20;

/// With less, the log that `aquifer run` writes would clean all the time; some more is for its tables.
const FLASH_FACTOR: u64 = 2;
const FLASH_EXTRA_BYTES: u64 = 64 << 20;

/// Of donors on the machine of the program: looking for transfers would take the processors that the program needs.
const LOOK: &str = "never";

/// Donors with memory that is ready to be lent; ended when dropped.
#[derive(Debug)]
pub struct Donors {
    services: Vec<Service>,
    addresses: Vec<String>,
}

impl Donors {
    /// Starts donors that lend `bytes` together over this provider, or a little more.
    ///
    /// # Errors
    /// [`crate::Error::Unavailable`] if they cannot: without libfabric, or without so much memory.
    pub fn start(aquifer: &Path, provider: &str, bytes: u64) -> Result<Self> {
        // Each one has a slab more than its half: the two need not be asked equally often.
        let slabs = bytes.div_ceil(COUNT).div_ceil(SLAB_BYTES) + 1;
        let mut donors = Self { services: Vec::new(), addresses: Vec::new() };
        for _ in 0..COUNT {
            let mut command = Command::new(aquifer);
            command.args(["donate", "--listen", "127.0.0.1:0", "--lend-to-own-machine", "--look", LOOK]);
            command.args(["--lend", &(slabs * SLAB_BYTES).to_string(), "--slab", &SLAB_BYTES.to_string()]);
            command.args(["--headroom", &HEADROOM_BYTES.to_string(), "--provider", provider]);
            let mut service = Service::start("donor", command)?;
            donors.addresses.push(service.wait_for(address)?);
            service.wait_for(|line| line.starts_with(&format!("{slabs} slabs")).then_some(()))?;
            donors.services.push(service);
        }
        Ok(donors)
    }

    /// Where they are, as borrowers are told.
    pub fn list(&self) -> String {
        self.addresses.join(",")
    }

    /// The first of those that are left, for who wants it to fail. Its address stays in the list.
    pub fn take_first(&mut self) -> Option<Service> {
        (!self.services.is_empty()).then(|| self.services.remove(0))
    }
}

/// The flash of `aquifer run` for so much memory, all of which can lie on donors.
pub fn flash_bytes(memory_bytes: u64) -> u64 {
    (FLASH_FACTOR * memory_bytes).next_multiple_of(1 << 20) + FLASH_EXTRA_BYTES
}

/// The slabs that borrowers have, in a line that a donor says when something has changed.
pub fn lent_slabs(line: &str) -> Option<u64> {
    line.split_once(" slabs, ")?.1.split_once(" lent to ")?.0.parse().ok()
}

/// The address in the first line that a donor says.
fn address(line: &str) -> Option<String> {
    line.strip_prefix("lends at ")?.split_whitespace().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found() {
        let line =
            "lends at 127.0.0.1:35719 over libfabric 1.17, provider tcp: slabs of 16 MiB, 64 MiB stay here";
        assert_eq!(address(line), Some("127.0.0.1:35719".to_owned()));
        assert_eq!(address("16 slabs, 0 lent to 0 borrowers"), None);
        assert_eq!(lent_slabs(line), None);
    }

    #[test]
    fn what_is_lent_is_found() {
        assert_eq!(lent_slabs("16 slabs, 7 lent to 1 borrowers"), Some(7));
        assert_eq!(lent_slabs("16 slabs, 15 lent to 2 borrowers, 1 asked back"), Some(15));
        assert_eq!(lent_slabs("ends; borrowers go on with their own flash"), None);
    }
}
