//! Two donors on this machine.

use std::path::Path;
use std::process::Command;

use super::service::Service;
use crate::error::Result;

/// Donors, so that there is a choice, and a second domain.
const COUNT: u64 = 2;
const SLAB_BYTES: u64 = 16 << 20;
/// What stays available here. Little: the machine has what is lent, or the whole comparison is too large for it.
const HEADROOM_BYTES: u64 = 64 << 20;

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
    }
}
