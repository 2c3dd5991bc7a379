//! What a donor sees of sealed pages, and what it can do about them.

use std::sync::Arc;

use aquifer_device::Device;
use aquifer_remote::far::{Code, FarDevice, PAGE_BYTES, Slabs};
use aquifer_remote::transport::fake::Behaviour;

use crate::donors::{DEVICE_BYTES, Donors, flash, options, read, wait_until, write};

const PAGES: u64 = DEVICE_BYTES / PAGE_BYTES as u64;

/// A mirror whose pages all lie on donors, sealed or not, and say which they are.
fn written(donors: &Arc<Donors>, seals: bool) -> FarDevice {
    let slabs = Arc::clone(donors) as Arc<dyn Slabs>;
    let mirror = FarDevice::new(flash(), slabs, &options(Code::FLASH, seals)).expect("threads");
    write_all(&mirror, 0);
    wait_until(&mirror, "all parts have slabs", |mirror| mirror.placed().1 == mirror.placed().0);
    mirror
}

fn write_all(mirror: &FarDevice, round: u8) {
    (0..PAGES).for_each(|page| write(mirror, page, page as u8 ^ round));
}

fn is_whole(mirror: &FarDevice, round: u8) {
    (0..PAGES).for_each(|page| assert_eq!(read(mirror, page), page as u8 ^ round, "page {page}"));
}

/// Whether a donor sees pages of one byte.
fn sees_pages(donors: &Donors) -> bool {
    let bytes = donors.donor.bytes();
    bytes.chunks_exact(PAGE_BYTES).any(|page| page[0] != 0 && page.iter().all(|byte| *byte == page[0]))
}

#[test]
fn a_donor_reads_nothing() {
    for seals in [false, true] {
        let donors = Donors::new();
        let mirror = written(&donors, seals);
        is_whole(&mirror, 0);
        let counters = mirror.counters();
        assert!(counters.remote_reads >= PAGES && counters.wrong_pages == 0, "{counters:?}");
        drop(mirror);
        assert_eq!(sees_pages(&donors), !seals, "sealed: {seals}");
    }
}

#[test]
fn older_pages_and_pages_of_other_places_are_noticed() {
    for seals in [false, true] {
        let donors = Donors::new();
        let mirror = written(&donors, seals);
        write_all(&mirror, 1);
        mirror.sync().expect("sync");
        let older = donors.donor.bytes();
        write_all(&mirror, 2);
        mirror.sync().expect("sync");
        donors.donor.replace_bytes(&older);
        is_whole(&mirror, 2);
        assert!(mirror.counters().wrong_pages > 0);
    }
}

#[test]
fn changed_pages_are_noticed() {
    let donors = Donors::new();
    let mirror = written(&donors, true);
    donors.donor.behave(Behaviour::Flipping);
    is_whole(&mirror, 0);
    assert!(mirror.counters().wrong_pages > 0);
}
