//! Two donors on this machine.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use aquifer_base::units::format_size;

use crate::error::{Error, Result};
use crate::machine::available_ram_bytes;
use crate::service::Service;

/// Donors, so that there is a choice, and a second domain.
const COUNT: u64 = 2;
/// Bytes of a slab.
pub const SLAB_BYTES: u64 = 16 << 20;
/// What stays available here. Little: the machine has what is lent, or the whole comparison is too large for it.
const HEADROOM_BYTES: u64 = 64 << 20;
/// What programs may take before a donor that keeps nearly everything for them asks slabs back: the borrower with its tables, and what else goes on here.
const SPARE_BYTES: u64 = 512 << 20;
/// With less to keep, a program that takes the rest could be killed.
const KEPT_BYTES_MIN: u64 = 2 << 30;
/// How long a borrower has to move a slab that is asked back.
pub const LEAVE_WITHIN: Duration = Duration::from_secs(5);

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
    first_headroom_bytes: u64,
}

/// What a donor has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slabs {
    /// In RAM.
    pub all: u64,
    /// Slabs that borrowers have.
    pub lent: u64,
    /// Slabs that the donor took back because their borrower did not return them in time.
    pub forced: u64,
}

impl Donors {
    /// Starts donors that lend `bytes` together, or a little more, over a provider; its name may be followed by further arguments.
    ///
    /// # Errors
    /// [`crate::Error::Unavailable`] if they cannot: without libfabric, or without that memory.
    pub fn start(aquifer: &Path, provider: &[&str], bytes: u64) -> Result<Self> {
        Self::start_with(aquifer, provider, bytes, HEADROOM_BYTES)
    }

    /// The same, but the first one keeps nearly all that is available for other programs of this machine: when they take a little more, it must give back what
    /// it lends.
    ///
    /// # Errors
    /// As [`Donors::start`].
    pub fn start_short(aquifer: &Path, provider: &[&str], bytes: u64) -> Result<Self> {
        let needed_bytes = COUNT * slabs_of_each(bytes) * SLAB_BYTES + SPARE_BYTES;
        let kept_bytes = available_ram_bytes().checked_sub(needed_bytes);
        let Some(kept_bytes) = kept_bytes.filter(|bytes| *bytes >= KEPT_BYTES_MIN) else {
            let all = format_size(needed_bytes + KEPT_BYTES_MIN);
            return Err(Error::Unavailable(format!("{all} of RAM must be available for a shortage of it")));
        };
        Self::start_with(aquifer, provider, bytes, kept_bytes)
    }

    fn start_with(aquifer: &Path, provider: &[&str], bytes: u64, first_headroom_bytes: u64) -> Result<Self> {
        let slabs = slabs_of_each(bytes);
        let mut donors = Self { services: Vec::new(), addresses: Vec::new(), first_headroom_bytes };
        for nth in 0..COUNT {
            let headroom_bytes = if nth == 0 { first_headroom_bytes } else { HEADROOM_BYTES };
            let mut command = Command::new(aquifer);
            command.args(["donate", "--listen", "127.0.0.1:0", "--lend-to-own-machine", "--look", LOOK]);
            command.args(["--lend", &(slabs * SLAB_BYTES).to_string(), "--slab", &SLAB_BYTES.to_string()]);
            command.args(["--headroom", &headroom_bytes.to_string(), "--provider"]).args(provider);
            command.args(["--leave-within", &LEAVE_WITHIN.as_secs().to_string()]);
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

    /// What must be available before the first one lends.
    pub fn first_headroom_bytes(&self) -> u64 {
        self.first_headroom_bytes
    }

    /// The first of those that are left, for who wants it to fail. Its address stays in the list.
    pub fn take_first(&mut self) -> Option<Service> {
        (!self.services.is_empty()).then(|| self.services.remove(0))
    }
}

/// Flash of `aquifer run` for `memory_bytes`, all of which can lie on donors.
pub fn flash_bytes(memory_bytes: u64) -> u64 {
    (FLASH_FACTOR * memory_bytes).next_multiple_of(1 << 20) + FLASH_EXTRA_BYTES
}

/// Each one has a slab more than its half: the two need not be asked equally often.
fn slabs_of_each(bytes: u64) -> u64 {
    bytes.div_ceil(COUNT).div_ceil(SLAB_BYTES) + 1
}

impl Slabs {
    /// What a line tells that a donor says when something has changed.
    pub fn told_by(line: &str) -> Option<Self> {
        let (all, rest) = line.split_once(" slabs, ")?;
        let (lent, rest) = rest.split_once(" lent to ")?;
        let forced = rest.split_once(", by force ").map_or(Some(0), |(_, forced)| forced.parse().ok());
        Some(Self { all: all.parse().ok()?, lent: lent.parse().ok()?, forced: forced? })
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
        assert_eq!(Slabs::told_by(line), None);
    }

    #[test]
    fn what_is_lent_is_found() {
        let slabs = |all, lent, forced| Some(Slabs { all, lent, forced });
        assert_eq!(Slabs::told_by("16 slabs, 7 lent to 1 borrowers"), slabs(16, 7, 0));
        assert_eq!(Slabs::told_by("16 slabs, 15 lent to 2 borrowers, 1 asked back"), slabs(16, 15, 0));
        let line = "3 slabs, 1 lent to 1 borrowers, 1 asked back; taken back so far: 4, by force 2";
        assert_eq!(Slabs::told_by(line), slabs(3, 1, 2));
        assert_eq!(Slabs::told_by("ends; borrowers go on with their own flash"), None);
    }

    #[test]
    fn each_has_more_than_its_half() {
        assert_eq!(slabs_of_each(2 * SLAB_BYTES), 2);
        assert_eq!(slabs_of_each(2 * SLAB_BYTES + 1), 3);
    }
}
