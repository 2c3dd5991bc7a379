//! RAM of other machines before a heap's flash.

use std::sync::Arc;

use aquifer_device::Device;
use aquifer_remote::borrower::{Borrower, BorrowerOptions};
use aquifer_remote::control::{Identity, Security};
use aquifer_remote::events::Entry;
use aquifer_remote::far::{Code, DonorId, FarDevice, FarOptions, SlabEvent, Slabs};
use aquifer_remote::transport::LinkOptions;

use serde_json::json;

use crate::error::Error;
use crate::options::{Copies, Options, RAM_BYTES_DEFAULT};

/// Part of the budget in which pages wait for flash.
const BEHIND_PART: u64 = 64;
/// Part of the budget for what is on the way to and from all donors.
const LINKS_PART: u64 = 64;
/// Donors that a heap is connected to beside those that are named: as many as have a link of this size within that part.
const LINK_BYTES: u64 = 512 << 10;
const DONORS_MIN: u64 = 2;
const DONORS_MAX: u64 = 8;
/// The most and the least for pages that wait.
const BEHIND_BYTES_MAX: u64 = 16 << 20;
const BEHIND_BYTES_MIN: u64 = 512 << 10;

/// A device whose pages lie in the RAM of donors as well.
pub(crate) struct Remote {
    pub(crate) device: Arc<FarDevice>,
    pub(crate) borrower: Arc<Borrower>,
    /// RAM of this process that it takes.
    pub(crate) ram_bytes: u64,
}

impl Remote {
    /// Puts the donors that the options name before a device.
    ///
    /// # Errors
    /// [`Error::Donors`] with what to do: none can be reached, or this machine has no certificate.
    pub(crate) fn before(local: Arc<dyn Device>, options: &Options, ram: u64) -> Result<Remote, Error> {
        let borrower = Arc::new(
            Borrower::start(borrower_options(options, ram)?)
                .map_err(|error| Error::Donors(error.to_string()))?,
        );
        let (slab_bytes, seals) = (borrower.slab_bytes(), options.seals);
        let behind_bytes = (ram / BEHIND_PART).clamp(BEHIND_BYTES_MIN, BEHIND_BYTES_MAX) as usize;
        let slabs = Arc::clone(&borrower) as Arc<dyn Slabs>;
        let code = match options.copies {
            Copies::Flash => Code::FLASH,
            Copies::Donor => Code::COPY,
            Copies::Coded(code) => code,
        };
        // What the heap has written to flash means nothing to the next process.
        let options = FarOptions { slab_bytes, behind_bytes, code, seals, outlives: false };
        let device = FarDevice::new(local, slabs, &options).map(Arc::new);
        let device = device.map_err(|error| Error::System {
            what: "the threads of remote memory could not be started".into(),
            error,
        })?;
        let ram_bytes = device.ram_bytes() + borrower.ram_bytes();
        Ok(Remote { device, borrower, ram_bytes })
    }
}

impl Remote {
    /// Donors, parts of the device with and without slabs, and pages that went where: for those who look into the heap.
    pub(crate) fn shown(&self) -> serde_json::Value {
        let (parts, placed) = self.device.placed();
        json!({ "donors": self.borrower.donors(), "parts": parts, "placed": placed, "pages": self.device.counters() })
    }
}

impl Remote {
    /// What became of slabs and donors of late, the oldest first, and how many events there were in all.
    pub(crate) fn events(&self) -> serde_json::Value {
        let donors = self.borrower.donors();
        let address = |donor: DonorId| donors.get(donor.0 as usize).map(|donor| &donor.address);
        let kept = self.device.events().since(0);
        let shown = |entry: &Entry<SlabEvent>| {
            let Entry { number, after, unix, event } = entry;
            json!({
                "number": number,
                "after_ms": after.as_millis() as u64,
                "unix_ms": unix.as_millis() as u64,
                "what": event.what,
                "donor": address(event.donor),
                "part": event.part,
                "why": event.why,
            })
        };
        json!({ "noted": kept.last().map_or(0, |last| last.number + 1), "kept": kept.iter().map(shown).collect::<Vec<_>>() })
    }
}

/// Whether one of the donors lends to this machine.
///
/// # Errors
/// [`Error::Donors`] with what each of them says.
pub(crate) fn check(options: &Options) -> Result<(), Error> {
    let options = BorrowerOptions { donors_only: true, ..borrower_options(options, RAM_BYTES_DEFAULT)? };
    let borrower = Borrower::start(options);
    borrower.map(drop).map_err(|error| Error::Donors(error.to_string()))
}

/// What a borrower needs to know.
///
/// # Errors
/// This machine has no certificate.
pub(crate) fn borrower_options(options: &Options, ram: u64) -> Result<BorrowerOptions, Error> {
    let security = match &options.cluster {
        None => Security::Loopback,
        Some(folder) => Security::Cluster(Arc::new(
            Identity::load(folder).map_err(|error| Error::Donors(error.to_string()))?,
        )),
    };
    // A part of the budget for all donors together.
    let links_bytes = ram / LINKS_PART;
    let default = BorrowerOptions::default();
    let mut borrower = BorrowerOptions {
        donors: options.donors.clone(),
        donors_only: options.donors_only,
        donors_max: (links_bytes / LINK_BYTES).clamp(DONORS_MIN, DONORS_MAX) as usize,
        security,
        weight: options.weight.unwrap_or(default.weight),
        ..default
    };
    let link_bytes = links_bytes / borrower.connections_max().max(1) as u64;
    borrower.link = LinkOptions::within(link_bytes as usize);
    Ok(borrower)
}
