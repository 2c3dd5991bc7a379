//! Two slabs, and flash for what they have no room for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aquifer_device::{Counted, Device};
use aquifer_remote::far::{Code, FarDevice, FarOptions, PAGE_BYTES, Slabs};
use aquifer_remote::transport::fake::Behaviour;

use crate::donors::{
    DEVICE_BYTES, Donors, SLAB_BYTES, Several, filled, flash, is_whole, mirror_of_two, options, read,
    twice_written, wait_until, write,
};

const PAGES: u64 = DEVICE_BYTES / PAGE_BYTES as u64;

/// Writes all pages twice: the second time to two donors alone.
fn written(donors: &Arc<Several>, local: Arc<dyn Device>) -> FarDevice {
    twice_written(mirror_of_two(local, donors))
}

fn fail(donors: &Several, which: usize) {
    donors.0[which].lends.store(false, Ordering::Relaxed);
    donors.0[which].donor.behave(Behaviour::Failing(-libc::ENOTCONN));
}

#[test]
fn flash_is_not_written_where_two_donors_have_it() {
    let (donors, local) = (Several::new(2), Arc::new(Counted::new(flash())));
    let mirror = mirror_of_two(Arc::clone(&local) as Arc<dyn Device>, &donors);
    (0..PAGES).for_each(|page| write(&mirror, page, 1));
    wait_until(&mirror, "all parts have two slabs", |mirror| mirror.placed().1 == mirror.placed().0);
    mirror.sync().expect("sync");
    let before = local.counters();
    (0..PAGES).for_each(|page| write(&mirror, page, page as u8 ^ 0x55));
    mirror.sync().expect("sync");
    is_whole(&mirror);
    assert_eq!(local.counters().since(&before).writes, 0);
}

/// Flash outlives the process, so what was synced is there when all donors are gone.
#[test]
fn what_was_synced_is_on_flash() {
    for seals in [false, true] {
        let (donors, local) = (Several::new(2), flash());
        let options = FarOptions { outlives: true, ..options(Code::COPY, seals) };
        let slabs = Arc::clone(&donors) as Arc<dyn Slabs>;
        let mirror = FarDevice::new(Arc::clone(&local) as Arc<dyn Device>, slabs, &options).expect("threads");
        let is_settled = |mirror: &FarDevice| mirror.placed().1 == mirror.placed().0;
        (0..PAGES).for_each(|page| write(&mirror, page, page as u8));
        wait_until(&mirror, "all parts have two slabs", is_settled);
        (0..PAGES).step_by(3).for_each(|page| write(&mirror, page, page as u8 ^ 0x55));
        mirror.sync().expect("sync");
        let on_flash = |page: u64| {
            let mut bytes = filled(0, 1);
            local.read_at(page * PAGE_BYTES as u64, &mut bytes).expect("read");
            assert!(bytes.iter().all(|byte| *byte == bytes[0]));
            bytes[0]
        };
        let wanted = |page: u64| page as u8 ^ if page.is_multiple_of(3) { 0x55 } else { 0 };
        (0..PAGES).for_each(|page| assert_eq!(on_flash(page), wanted(page), "page {page}"));
        // Donors go on having it, and what both lose before a sync is told by the sync, once.
        (0..PAGES).for_each(|page| assert_eq!(read(&mirror, page), wanted(page), "page {page}"));
        write(&mirror, 7, 0x99);
        fail(&donors, 0);
        fail(&donors, 1);
        assert!(mirror.sync().is_err());
        mirror.sync().expect("nothing more is lost");
        assert_eq!(mirror.counters().lost_pages, 1);
        write(&mirror, 7, 0x77);
        mirror.sync().expect("sync");
        assert_eq!(on_flash(7), 0x77);
    }
}

#[test]
fn one_of_two_donors_is_lost_and_the_other_copied() {
    for lost in [0, 1] {
        let donors = Several::new(3);
        let mirror = written(&donors, flash());
        fail(&donors, lost);
        is_whole(&mirror);
        // Reads need one of the two; a write of each part notices the other.
        (0..PAGES).step_by(32).for_each(|page| write(&mirror, page, page as u8 ^ 0x55));
        wait_until(&mirror, "copied to the third", |mirror| {
            is_whole(mirror);
            mirror.placed().1 == mirror.placed().0
        });
        // Once more, of the two that are left.
        fail(&donors, 1 - lost);
        is_whole(&mirror);
        (0..PAGES).for_each(|page| write(&mirror, page, page as u8 ^ 0x55));
        is_whole(&mirror);
        assert_eq!(mirror.counters().lost_pages, 0);
    }
}

#[test]
fn what_one_of_two_donors_has_left_goes_to_flash_if_there_is_no_third() {
    let (donors, local) = (Several::new(2), Arc::new(Counted::new(flash())));
    let mirror = written(&donors, Arc::clone(&local) as Arc<dyn Device>);
    mirror.sync().expect("sync");
    let before = local.counters();
    fail(&donors, 0);
    // A write of each part notices.
    (0..PAGES).step_by(32).for_each(|page| write(&mirror, page, page as u8 ^ 0x55));
    wait_until(&mirror, "flash has all", |_| local.counters().since(&before).written_bytes >= DEVICE_BYTES);
    mirror.sync().expect("sync");
    fail(&donors, 1);
    is_whole(&mirror);
    assert_eq!(mirror.counters().lost_pages, 0);
}

#[test]
fn a_part_that_lacks_a_second_donor_keeps_no_other_part_from_the_first() {
    let donors = Several::new(2);
    let mirror = mirror_of_two(flash(), &donors);
    write(&mirror, 0, 1);
    wait_until(&mirror, "the first part has two slabs", |mirror| mirror.placed() == (1, 1));
    donors.0[0].ask_back();
    wait_for_slabs(&mirror, &donors.0[0]);
    write(&mirror, PAGES - 1, 2);
    wait_until(&mirror, "the last part has a slab", |_| donors.0[1].lent().len() == 2);
    assert_eq!((read(&mirror, 0), read(&mirror, PAGES - 1)), (1, 2));
}

/// Runs something while others read and write all pages, and looks whether all is there.
fn beside_others(mirror: &FarDevice, run: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let others = [0, 1].map(|half| {
            let (pages, is_over) = ((0..PAGES).skip(half).step_by(2), &is_over);
            scope.spawn(move || {
                for page in pages.cycle().take_while(|_| !is_over.load(Ordering::Relaxed)) {
                    assert_eq!(read(mirror, page), page as u8 ^ 0x55, "page {page}");
                    write(mirror, page, page as u8 ^ 0x55);
                }
            })
        });
        run();
        is_whole(mirror);
        is_over.store(true, Ordering::Relaxed);
        others.into_iter().for_each(|other| other.join().expect("no panic"));
    });
    is_whole(mirror);
    assert_eq!(mirror.counters().lost_pages, 0, "{:?}", mirror.counters());
}

/// Waits until a donor has back what it lent.
fn wait_for_slabs(mirror: &FarDevice, donors: &Donors) {
    wait_until(mirror, "the donor has its slabs", |_| donors.lent().is_empty());
}

#[test]
fn both_donors_have_their_slabs_back_and_there_is_no_third() {
    let donors = Several::new(2);
    let mirror = written(&donors, flash());
    beside_others(&mirror, || {
        donors.0.iter().for_each(|donors| donors.ask_back());
        donors.0.iter().for_each(|donors| wait_for_slabs(&mirror, donors));
        [0, 1].into_iter().for_each(|which| fail(&donors, which));
    });
}

#[test]
fn one_donor_has_its_slabs_back_and_then_the_other_is_lost() {
    for leaving in [0, 1] {
        let donors = Several::new(2);
        let mirror = written(&donors, flash());
        beside_others(&mirror, || {
            donors.0[leaving].ask_back();
            wait_for_slabs(&mirror, &donors.0[leaving]);
            fail(&donors, 1 - leaving);
        });
    }
}

#[test]
fn one_donor_is_lost_while_the_other_waits_for_its_slabs() {
    for leaving in [0, 1] {
        let donors = Several::new(3);
        let mirror = written(&donors, flash());
        beside_others(&mirror, || {
            donors.0[leaving].ask_back();
            fail(&donors, 1 - leaving);
            wait_for_slabs(&mirror, &donors.0[leaving]);
        });
    }
}

#[test]
fn donors_are_left_for_others() {
    let donors = Several::new(4);
    let mirror = written(&donors, flash());
    beside_others(&mirror, || {
        [0, 1].into_iter().for_each(|which| donors.0[which].ask_back());
        [0, 1].into_iter().for_each(|which| wait_for_slabs(&mirror, &donors.0[which]));
        wait_until(&mirror, "others have all", |mirror| mirror.placed().1 == mirror.placed().0);
    });
}

#[test]
fn what_both_lose_at_once_is_an_error_and_no_wrong_byte() {
    let donors = Several::new(2);
    let mirror = written(&donors, flash());
    fail(&donors, 0);
    fail(&donors, 1);
    let mut page = filled(0, 1);
    for at in 0..PAGES {
        mirror.read_at(at * PAGE_BYTES as u64, &mut page).expect_err("nobody has it");
    }
    assert_eq!(mirror.counters().lost_pages, PAGES);
    // What is written from now on is on flash.
    (0..PAGES).for_each(|page| write(&mirror, page, page as u8 ^ 0x55));
    is_whole(&mirror);
}

#[test]
fn without_donors_it_is_flash() {
    let donors = Several::new(0);
    let mirror = mirror_of_two(flash(), &donors);
    (0..PAGES).for_each(|page| write(&mirror, page, page as u8 ^ 0x55));
    is_whole(&mirror);
    mirror.sync().expect("sync");
    assert_eq!(mirror.counters().remote_writes, 0);
}

/// What both donors have lost keeps no slab from its donor.
#[test]
fn what_both_lost_pins_no_slab() {
    let donors = Several::new(3);
    donors.0[2].lends.store(false, Ordering::Relaxed);
    let mirror = written(&donors, flash());
    fail(&donors, 0);
    fail(&donors, 1);
    // A read of each part notices.
    let mut bytes = filled(0, 1);
    let lost = |page: u64, bytes: &mut [u8]| mirror.read_at(page * PAGE_BYTES as u64, bytes).is_err();
    assert!((0..PAGES).all(|page| lost(page, &mut bytes)));
    donors.0[2].lends.store(true, Ordering::Relaxed);
    let all = DEVICE_BYTES / SLAB_BYTES;
    wait_until(&mirror, "all parts have a slab", |_| donors.0[2].lent().len() as u64 == all);
    (0..PAGES).step_by(2).for_each(|page| write(&mirror, page, page as u8));
    donors.0[2].ask_back();
    wait_until(&mirror, "the slabs are back", |_| donors.0[2].lent().is_empty());
    // Lost is lost, until it is written again.
    assert!((1..PAGES).step_by(2).all(|page| lost(page, &mut bytes)));
    (0..PAGES).step_by(2).for_each(|page| assert_eq!(read(&mirror, page), page as u8));
    (0..PAGES).for_each(|page| write(&mirror, page, page as u8 ^ 0x55));
    is_whole(&mirror);
}
