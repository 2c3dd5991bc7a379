//! What is lost, and what is not.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aquifer_device::{Device, DeviceError, FaultKind, FaultPlan, Faulty, Operation};
use aquifer_remote::far::{FarDevice, PAGE_BYTES};
use aquifer_remote::transport::fake::Behaviour;

use crate::donors::{
    DEVICE_BYTES, Donors, filled, flash, is_whole, mirror, read, twice_written, wait_until, write,
};

const PAGES: u64 = DEVICE_BYTES / PAGE_BYTES as u64;

/// Writes all pages, and waits until donors have all.
fn written(donors: &Arc<Donors>, local: Arc<dyn Device>) -> FarDevice {
    twice_written(mirror(local, donors))
}

#[test]
fn pages_are_read_from_donors() {
    let donors = Donors::new();
    let mirror = written(&donors, flash());
    let before = mirror.counters();
    is_whole(&mirror);
    let after = mirror.counters();
    assert_eq!(after.remote_reads - before.remote_reads, PAGES, "{after:?}");
    assert_eq!(after.flash_reads, before.flash_reads);
}

#[test]
fn a_donor_that_fails_loses_nothing_and_is_used_again() {
    for behaviour in [Behaviour::Failing(-libc::EIO), Behaviour::Stopped, Behaviour::Silent] {
        let donors = Donors::new();
        let mirror = written(&donors, flash());
        donors.donor.behave(behaviour);
        donors.lends.store(false, Ordering::Relaxed);
        is_whole(&mirror);
        assert!(mirror.counters().lost_slabs > 0);
        (0..PAGES).for_each(|page| write(&mirror, page, page as u8 ^ 0x55));
        is_whole(&mirror);
        donors.donor.resume();
        donors.lends.store(true, Ordering::Relaxed);
        let before = mirror.counters().remote_reads;
        wait_until(&mirror, "pages come from donors again", |mirror| {
            is_whole(mirror);
            mirror.counters().remote_reads > before + PAGES
        });
    }
}

#[test]
fn wrong_bytes_of_a_donor_are_noticed() {
    let donors = Donors::new();
    let mirror = written(&donors, flash());
    donors.donor.behave(Behaviour::Flipping);
    is_whole(&mirror);
    assert!(mirror.counters().wrong_pages > 0);
}

#[test]
fn what_flash_has_already_comes_to_donors() {
    let donors = Donors::new();
    let local = flash();
    for page in 0..PAGES {
        local.write_at(page * PAGE_BYTES as u64, &filled(page as u8 ^ 0x55, 1)).expect("write");
    }
    let mirror = mirror(local, &donors);
    is_whole(&mirror);
    for page in (0..PAGES).step_by(32) {
        write(&mirror, page, page as u8 ^ 0x55);
    }
    wait_until(&mirror, "all pages come from donors", |mirror| {
        let before = mirror.counters().flash_reads;
        is_whole(mirror);
        mirror.counters().flash_reads == before
    });
}

#[test]
fn durable_is_what_flash_has() {
    let (donors, local) = (Donors::new(), flash());
    let mirror = written(&donors, Arc::clone(&local) as Arc<dyn Device>);
    mirror.sync().expect("sync");
    for page in 0..PAGES {
        let mut bytes = filled(0, 1);
        local.read_at(page * PAGE_BYTES as u64, &mut bytes).expect("read");
        assert!(bytes.iter().all(|byte| *byte == page as u8 ^ 0x55), "page {page}");
    }
}

#[test]
fn flash_that_fails_stops_writes_and_loses_nothing() {
    let donors = Donors::new();
    let plan = FaultPlan::new(1).from_nth(Operation::Write, 10, FaultKind::Eio);
    let mirror = mirror(Arc::new(Faulty::new(flash(), plan)), &donors);
    let mut taken = 0;
    let error = (0..PAGES)
        .find_map(|page| {
            let outcome = mirror.write_at(page * PAGE_BYTES as u64, &filled(page as u8, 1));
            taken += u64::from(outcome.is_ok());
            std::thread::sleep(Duration::from_micros(100));
            outcome.err()
        })
        .or_else(|| mirror.sync().err());
    assert!(matches!(error, Some(DeviceError::Io { errno: libc::EIO, .. })), "{error:?}");
    assert!(mirror.sync().is_err());
    (0..taken).for_each(|page| assert_eq!(read(&mirror, page), page as u8));
}

#[test]
fn a_request_that_does_not_fit_is_refused() {
    let mirror = mirror(flash(), &Donors::new());
    let page = filled(1, 1);
    assert!(matches!(mirror.write_at(512, &page), Err(DeviceError::Misaligned { .. })));
    assert!(matches!(mirror.write_at(0, &page[..512]), Err(DeviceError::Misaligned { .. })));
    assert!(matches!(mirror.write_at(DEVICE_BYTES, &page), Err(DeviceError::OutOfRange { .. })));
    assert!(matches!(mirror.discard(u64::MAX - 4095, 4096), Err(DeviceError::OutOfRange { .. })));
}
